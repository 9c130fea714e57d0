"""The rule on sets: their order differs from process to process, so a flow may ask them anything but that."""

from __future__ import annotations

import ast
from typing import Final

from loom.devtools.checking.hazards import names
from loom.devtools.checking.walk import Here, shown

_SAID: Final = "takes the order of a set, which differs from process to process"
_ORDERED: Final = names("list tuple iter enumerate zip map filter str repr next dict.fromkeys", "builtins.") | names(
    "collections.deque collections.OrderedDict.fromkeys functools.reduce"
)
_UNORDERED: Final = names("sorted set frozenset sum any all len max min", "builtins.")
_ITERTOOLS: Final = "itertools."


def loops_over_a_set(here: Here, loop: ast.For) -> None:
    """`for x in a_set`, unless what is done for each is the same in any order."""
    if here.of(loop.iter).kind == "set" and not all(map(_is_orderless, loop.body)):
        here.report("set-order", loop.iter, f"the loop over `{shown(loop.iter)}` {_SAID}", _sorted(loop.iter))


def _is_orderless(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add" | "discard"))):
            return not any(isinstance(node, ast.Await) for node in ast.walk(statement))
        case ast.AugAssign(value=ast.Constant()) | ast.Pass() | ast.Assert():
            return True
        case ast.If(body=body, orelse=orelse):
            return all(map(_is_orderless, [*body, *orelse]))
        case _:
            return False


def builds_from_a_set(here: Here, node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp) -> None:
    """A comprehension over a set that has an order, or that asks something durable on its way."""
    over = next((each.iter for each in node.generators if here.of(each.iter).kind == "set"), None)
    if over is None:
        return
    waits = any(isinstance(each, ast.Await) for each in ast.walk(node))
    if waits or not (isinstance(node, ast.SetComp) or _is_consumed(here, node)):
        here.report("set-order", over, f"`{shown(node)}` {_SAID}", _sorted(over))


def _is_consumed(here: Here, node: ast.expr) -> bool:
    """Whether *node* is handed to what asks for no order, as in `sum(... for each in a_set)`."""
    parent = here.source.parents.get(node)
    return isinstance(parent, ast.Call) and node in parent.args and here.of(parent.func).name in _UNORDERED


def orders_a_set(here: Here, call: ast.Call) -> None:
    """A call that makes a sequence of a set, or takes one of its members."""
    callee = here.of(call.func)
    if callee.name == "builtins.set().pop" and not call.args:
        here.report("set-order", call, f"`{shown(call)}` takes any member of a set: another in another process")
        return
    orders = callee.name in _ORDERED or callee.name.startswith(_ITERTOOLS) or _is_join(call)
    maps = callee.kind == "verb" and callee.name == "map"
    if not (orders or maps) or (orders and _is_consumed(here, call)):
        return
    for argument in call.args:
        if here.of(argument).kind == "set":
            whole = callee.name in {"builtins.list", "builtins.tuple"} and len(call.args) == 1
            change = f"sorted({ast.unparse(argument)})"
            at = call if callee.name == "builtins.list" and whole else argument
            here.report("set-order", argument, f"`{shown(call)}` {_SAID}", change, at=at)
            break


def _is_join(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"join", "extend"} and len(call.args) == 1


def unpacks_a_set(here: Here, node: ast.Starred) -> None:
    """`*a_set` in a call or a list."""
    is_loaded = isinstance(node.ctx, ast.Load) and not isinstance(here.source.parents.get(node), ast.Set)
    if is_loaded and here.of(node.value).kind == "set":
        here.report("set-order", node, f"`{shown(node)}` {_SAID}", _sorted(node.value), at=node.value)


def assigns_from_a_set(here: Here, node: ast.Assign) -> None:
    """`first, second = a_set`."""
    if isinstance(node.targets[0], ast.Tuple | ast.List) and here.of(node.value).kind == "set":
        here.report("set-order", node.value, f"`{shown(node)}` {_SAID}", _sorted(node.value))


def shows_a_set(here: Here, node: ast.FormattedValue) -> None:
    """A set in an f-string."""
    if here.of(node.value).kind == "set":
        here.report("set-order", node.value, f"the text of `{shown(node.value)}` {_SAID}", _sorted(node.value))


def _sorted(node: ast.expr) -> str:
    return f"sorted({ast.unparse(node)})"
