"""Rules on what is asked durably, and what is not: awaits, tasks, steps called bare, and where the context may go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from loom.devtools.checking.hazards import hazard_of_call, names
from loom.devtools.checking.meaning import CONTEXT, Meaning, find_name, inside
from loom.devtools.checking.walk import Here, shown

_TASKS: Final = frozenset({"asyncio.gather", "asyncio.create_task", "asyncio.ensure_future", "asyncio.Task"})
_TASK_METHODS: Final = (
    "asyncio.TaskGroup().create_task",
    "asyncio.get_running_loop().create_task",
    "asyncio.get_event_loop().create_task",
)
_MADE_OF_TASKS: Final = ("asyncio.create_task()", "asyncio.ensure_future()", "asyncio.gather()", "asyncio.TaskGroup()")
_BETWEEN_BRANCHES: Final = tuple(
    names("Lock() Event() Condition() Semaphore() BoundedSemaphore() Barrier() Queue()", "asyncio.")
)
"""What branches may wait for each other with: who comes first follows from the log."""
_OF_COROUTINES: Final = names("close send throw")
_LOOKING: Final = names("str repr len int float bool print isinstance", "builtins.")


def effects_of_verbs(here: Here, call: ast.Call) -> None:
    """What `ctx.run`, `ctx.decide` and `ctx.stream` are given to run is an effect: it may do anything but use the context."""
    callee = here.of(call.func)
    if callee.kind != "verb" and callee.name != "loom.saga().run":
        return
    if callee.name == "run" and call.args and here.of(call.args[0]).kind == "function":
        name = shown(call.args[0])
        told = f"`{name}` is no step, so `{shown(call)}` is refused when it runs"
        here.report("not-a-step", call, told, f'"{name}", {name}', at=call.args[0])
        here.skip(call.args[0])
    effect = effect_of(here, call)
    if effect is not None:
        here.skip(effect)
        _refuse_context(here, call, here.of(effect))
    if callee.name in {"run", "execute", "loom.saga().run"}:
        for argument in (*call.args, *(each.value for each in call.keywords)):
            if here.of(argument) == CONTEXT:
                here.report(
                    "foreign-context", argument, f"`{shown(call)}` hands the context to a step, which cannot use it"
                )


def effect_of(here: Here, call: ast.Call) -> ast.expr | None:
    """Return the argument of *call* that is run as an effect: inline by `ctx.run`, or as a chooser, or as a source."""
    callee = here.of(call.func)
    if callee.kind != "verb" or len(call.args) < 2 or callee.name not in {"run", "decide", "stream"}:
        return None
    if callee.name == "run" and here.of(call.args[0]).kind != "unknown":
        return None
    effect = call.args[1]
    return effect.func if callee.name == "stream" and isinstance(effect, ast.Call) else effect


def leaves_effects_out(here: Here, call: ast.Call) -> None:
    """Leave out what runs as an effect."""
    effect = effect_of(here, call)
    if effect is not None:
        here.skip(effect)


def _refuse_context(here: Here, call: ast.Call, meaning: Meaning) -> None:
    if meaning.kind != "function" or meaning.source is not here.source:
        return
    for node in ast.walk(meaning.node):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and here.of(node) == CONTEXT:
            said = f"`{shown(call)}` runs as a step, in a task of its own, where `{node.id}` is refused (ForeignTask)"
            here.report("foreign-context", node, said)
            break


def bare_steps(here: Here, call: ast.Call) -> None:
    """`await fetch(item)`: a step that is called as a function."""
    if here.of(call.func).kind == "step":
        arguments = ", ".join([*map(ast.unparse, call.args), *(ast.unparse(each) for each in call.keywords)])
        run = f"{here.context}.run({ast.unparse(call.func)}{', ' if arguments else ''}{arguments})"
        change = run if isinstance(here.source.parents.get(call), ast.Await) else f"await {run}"
        here.report("bare-step", call, f"`{shown(call)}` runs again at every replay, and is recorded nowhere", change)


def tasks(here: Here, call: ast.Call) -> None:
    """`gather` and tasks of anything but syscalls: in them the context is refused, and who comes first is not recorded."""
    name = here.of(call.func).name
    if name not in _TASKS and not name.startswith(_TASK_METHODS):
        return
    for argument in call.args:
        if not _is_syscall(here, argument):
            said = f"`{shown(argument)}` runs in a task that is no branch: its outcomes are not ordered, and `ctx` is refused there"
            here.report("bare-concurrency", call, said)
            break


def _is_syscall(here: Here, node: ast.expr) -> bool:
    """Whether *node* is a syscall, called here: it is numbered when it is called, so it may be awaited anywhere."""
    match node:
        case ast.Starred(value=value):
            return _is_syscall(here, value)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return _is_syscall(here, element)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return all(_is_syscall(here, each) for each in elements)
        case ast.Name():
            held = list(_held_by(here, node))
            return (
                all(_is_syscall(here, each) for each in held) if held else here.of(node).kind in {"syscall", "unknown"}
            )
        case _:
            return here.of(node).kind == "syscall"


def _held_by(here: Here, node: ast.Name) -> Iterator[ast.expr]:
    """Yield what the list that *node* names is made of, and what is appended to it."""
    for binding in find_name(node.id, node, here.source)[1]:
        if isinstance(binding.node, ast.ListComp | ast.List) and binding.how == "value":
            yield binding.node
    for each in inside(here.visit.function):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item]) if name == node.id:
                yield item


def awaits(here: Here, node: ast.Await) -> None:
    """An await of what is neither a syscall nor a coroutine of the project."""
    _foreign(here, node.value, f"`{shown(node)}` waits for what is not recorded")


def iterates(here: Here, node: ast.AsyncFor) -> None:
    """`async for` over what a library gives."""
    _foreign(here, node.iter, f"the loop over `{shown(node.iter)}` waits for what is not recorded")


def enters(here: Here, node: ast.AsyncWith) -> None:
    """`async with` of what a library gives."""
    for item in node.items:
        _foreign(here, item.context_expr, f"`async with {shown(item)}` waits for what is not recorded")


def _foreign(here: Here, awaited: ast.expr, message: str) -> None:
    meaning = here.of(awaited)
    if meaning.kind != "outside" or not _is_foreign(meaning.name):
        return
    if isinstance(awaited, ast.Call):
        is_told = hazard_of_call(here.of(awaited.func).name, len(awaited.args)) is not None
        hands_context = any(here.of(each) == CONTEXT for each in (*awaited.args, *(k.value for k in awaited.keywords)))
        if is_told or hands_context:
            return
    here.report("foreign-await", awaited, message)


def _is_foreign(name: str) -> bool:
    return not name.startswith(("loom.", "?.", "builtins.", "contextlib.", *_BETWEEN_BRANCHES, *_MADE_OF_TASKS))


def forgotten(here: Here, node: ast.Expr) -> None:
    """A syscall, or a coroutine of the project, as a statement of its own."""
    if isinstance(node.value, ast.Call) and here.of(node.value).kind in {"syscall", "coroutine"}:
        message = f"`{shown(node)}` is called and not awaited, so it never runs"
        here.report("not-awaited", node.value, message, f"await {ast.unparse(node.value)}")


def kept_and_forgotten(here: Here, node: ast.Assign | ast.AnnAssign) -> None:
    """A syscall, or a coroutine of the project, that is kept in a variable which nothing awaits, returns or hands on."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for name, value in _pairs(targets[0], node.value) if len(targets) == 1 else ():
        if not isinstance(value, ast.Call) or here.of(value).kind not in {"syscall", "coroutine"}:
            continue
        if not any(_is_taken_up(here, use) for use in _uses(here, name.id)):
            message = f"`{name.id} = {shown(value)}` is never awaited: `{name.id}` is a coroutine that never runs"
            here.report("not-awaited", value, message, f"await {ast.unparse(value)}")


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.Name, ast.expr]]:
    match target, value:
        case ast.Name(), ast.expr():
            yield target, value
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            for name, each in zip(names, values, strict=True):
                yield from _pairs(name, each)


def _uses(here: Here, name: str) -> Iterator[ast.AST]:
    """Yield where the function, and what is written inside it, reads *name*, and where it says that *name* is not its own."""
    for node in ast.walk(here.visit.function):
        is_read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        if is_read or (isinstance(node, ast.Global | ast.Nonlocal) and name in node.names):
            yield node


def _is_taken_up(here: Here, use: ast.AST) -> bool:
    """Whether *use* may have the coroutine awaited: all but what only looks at it, or counts with it, as if it were its result."""
    match here.source.parents.get(use):
        case ast.FormattedValue() | ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.Subscript():
            return False
        case ast.Attribute(attr=name):
            return name in _OF_COROUTINES
        case ast.Call(func=called) if use is not called:
            return here.of(called).name not in _LOOKING
        case ast.If(test=test) | ast.While(test=test):
            return test is not use
        case ast.For(iter=items) | ast.comprehension(iter=items):
            return items is not use
        case _:
            return True
