"""The rule on identities in loops: an id that the author gives has to vary from turn to turn (RPL-02)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from loom.devtools.checking.meaning import CONTEXT, find_name, is_bound_by_comprehension
from loom.devtools.checking.source import COMPREHENSIONS, FUNCTIONS, LOOPS
from loom.devtools.checking.walk import Here, is_bound, parameters_given, shown, started_by

_FIXED: Final = frozenset({"import", "class", "function"})
_NAMING: Final = frozenset({"named", "keyed", "retried"})
_SERVED: Final = "each turn is served the outcome of the first, or refused where the arguments differ"
_FORMATTING: Final = frozenset({"builtins.str", "builtins.repr", "builtins.format", "builtins.len", "builtins.int"})


def follow(here: Here, call: ast.Call) -> None:
    """Go through the functions that *call* runs, with what they are given; in a loop, with what can vary."""
    if call.func in here.skipped:  # the source of a stream, which runs as an effect
        return
    loop = loop_round(here, call)
    for function, source in started_by(here.of(call.func), here):
        bound = is_bound(call, here)
        varying = {each.arg for each in function.args.args[:1] if bound}  # an object: what it holds may have changed
        for parameter, value in parameters_given(call, function, bound=bound):
            if here.meanings.give(parameter, here.of(value)):
                here.renew(function)
            if loop is not None and may_vary(here, value, loop):
                varying.add(parameter.arg)
        looped = loop is not None
        here.reach(function, source, looped=looped, varying=frozenset(varying if looped else ()))


def loop_round(here: Here, node: ast.AST) -> ast.AST | None:
    """Return the loop of this function that runs *node* several times; the function itself if all of it is in one."""
    below = node
    for each in here.source.above(node):
        if each is here.visit.function or isinstance(each, FUNCTIONS):
            break
        if isinstance(each, LOOPS) and (below in each.body or below is getattr(each, "test", None)):
            return each
        if isinstance(each, COMPREHENSIONS) and _is_repeated(each, below):
            return each
        below = each
    return here.visit.function if here.visit.looped else None


def _is_repeated(comprehension: ast.AST, part: ast.AST) -> bool:
    return part is not comprehension.generators[0]  # type: ignore[attr-defined]  # all four kinds have them


def named_in_a_loop(here: Here, call: ast.Call) -> None:
    """`ctx.run(step.named("x"))`, `ctx.execute(..., id="x")` and `loom.spawn(..., key="x")` in a loop."""
    loop = loop_round(here, call)
    if loop is None:
        return
    for given, place in _ids(here, call):
        if not may_vary(here, given, loop):
            message = f"`{shown(place)}` is asked in a loop, and its id `{shown(given)}` cannot vary: {_SERVED}"
            here.report("loop-id", place, message, _varied(here, given, loop), at=given)


def _ids(here: Here, call: ast.Call) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Yield what names the durable call that *call* is, and where that is written."""
    callee = here.of(call.func)
    if (callee.kind == "verb" and callee.name == "run") or callee.name in {"loom.saga().run", "loom.saga().undo"}:
        step = call.args[0] if call.args else None
        for naming in _namings(here, step):
            yield naming.args[0], naming if naming is step else call
    wanted = (
        "id" if callee.kind == "verb" and callee.name == "execute" else "key" if callee.name == "loom.spawn" else None
    )
    for given in call.keywords:
        if given.arg == wanted and not (isinstance(given.value, ast.Constant) and given.value.value is None):
            yield given.value, call


def _namings(here: Here, step: ast.AST | None) -> Iterator[ast.Call]:
    """Yield `.named(...)` and `.keyed(...)` of *step*: as written there, or where the name it goes by is bound."""
    match step:
        case ast.Call(func=ast.Attribute(attr="undone_by", value=undone)):
            yield from _namings(here, undone)
        case ast.Call(func=ast.Attribute(attr=naming), args=[_, *_]) if naming in _NAMING:
            yield step
        case ast.Name(id=name):
            for binding in find_name(name, step, here.source)[1]:
                match binding.node:
                    case ast.Call(func=ast.Attribute(attr=naming), args=[_, *_]) if naming in _NAMING:
                        yield binding.node


def _varied(here: Here, given: ast.expr, loop: ast.AST) -> str | None:
    """Return *given* with what varies in *loop* put in, where both are plain."""
    variable = _variable(loop)
    match given:
        case ast.Constant(value=str(text)) if variable and '"' not in text:
            return f'f"{text}#{{{variable}}}"'
        case ast.Name(id=name) if variable:
            return f'f"{{{name}}}#{{{variable}}}"'
        case _:
            return None


def _variable(loop: ast.AST) -> str:
    """Return a variable that is another in each turn of *loop*: its own, or one that it counts up."""
    targets = [loop.target] if isinstance(loop, ast.For | ast.AsyncFor) else []
    targets += [each.target for each in getattr(loop, "generators", ())]
    counted = [each.target for each in ast.walk(loop) if isinstance(each, ast.AugAssign)]
    named = [each for target in (*targets, *counted) for each in ast.walk(target)]
    return next((each.id for each in named if isinstance(each, ast.Name) and each.id != "_"), "")


def may_vary(here: Here, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether *node* can be another value in another turn of *loop*; in doubt it can."""
    match node:
        case ast.Constant():
            return False
        case ast.Name(id=name):
            return _name_may_vary(here, node, name, loop)
        case ast.Attribute(value=owner) | ast.Subscript(value=owner) if _is_touched(here, owner, loop):
            return True
    parts = _parts(here, node)
    return parts is None or any(may_vary(here, each, loop) for each in parts)


def _parts(here: Here, node: ast.AST) -> list[ast.expr] | None:
    """Return what the value of *node* follows from, None where that cannot be told."""
    match node:
        case ast.Attribute(value=value) | ast.FormattedValue(value=value):
            return [value]
        case ast.JoinedStr(values=values):
            return values
        case ast.BinOp(left=one, right=other) | ast.Subscript(value=one, slice=other):
            return [one, other]
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format"), args=args, keywords=named):
            return [*args, *(each.value for each in named)]
        case ast.Call(func=func, args=args, keywords=[]) if here.of(func).name in _FORMATTING:
            return args
        case _:
            return None


def _name_may_vary(here: Here, node: ast.Name, name: str, loop: ast.AST) -> bool:
    if is_bound_by_comprehension(name, node, here.source):
        return True
    scope, bindings = find_name(name, node, here.source)
    if scope is None:
        return False
    if isinstance(scope, ast.Module):
        return not all(isinstance(each.node, ast.Constant) or each.how in _FIXED for each in bindings)
    if scope is not here.visit.function:
        return here.of(node) != CONTEXT  # a variable of the function round this one: it may have been in a loop there
    if loop is scope and name in here.visit.varying:
        return True
    return name in changed_by(here, loop) or _follows_from_itself(here, node, name, loop)


def _follows_from_itself(here: Here, node: ast.Name, name: str, loop: ast.AST) -> bool:
    """Whether what *loop* assigns to *name* can vary; what follows from its own last value does (`item = item.next`)."""
    if (name, loop) in here.asking:
        return True
    here.asking.add((name, loop))
    try:
        return any(
            each.how != "value" or may_vary(here, each.node, loop)
            for each in here.source.bindings(here.visit.function).get(name, [])
            if each.how != "parameter" and (loop is here.visit.function or _is_within(each.node, loop, here))
        )
    finally:
        here.asking.discard((name, loop))


def _is_within(node: ast.AST, loop: ast.AST, here: Here) -> bool:
    return node is getattr(loop, "iter", None) or any(each is loop for each in here.source.above(node))


def _is_touched(here: Here, owner: ast.expr, loop: ast.AST) -> bool:
    """Whether *loop* changes a part of *owner*, or calls a method of it, which may."""
    root = _root(owner)
    return not root or f"{root}." in changed_by(here, loop)


def changed_by(here: Here, loop: ast.AST) -> frozenset[str]:
    """Return the names that *loop* counts up, and, with a dot, those whose parts it changes or whose methods it calls."""
    known = here.source.changed_by.get(loop)
    if known is None:
        known = here.source.changed_by[loop] = frozenset(_changes_of(loop))
    return known


def _changes_of(loop: ast.AST) -> Iterator[str]:
    for each in ast.walk(loop):
        match each:
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case ast.Attribute(value=value, ctx=ast.Store()) | ast.Subscript(value=value, ctx=ast.Store()):
                yield f"{_root(value)}."
            case ast.Call(func=ast.Attribute(value=value)):
                yield f"{_root(value)}."


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
