"""The rule on handlers: what unwinds a flow that is put away, or cancelled, is a BaseException and has to get out (kernel 6)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from loom.devtools.checking.meaning import inside
from loom.devtools.checking.source import FUNCTIONS, LOOPS
from loom.devtools.checking.walk import Here, shown

_CATCHES_SIGNALS: Final = frozenset(
    {
        "builtins.BaseException",
        "builtins.BaseExceptionGroup",
        "builtins.GeneratorExit",
        "asyncio.CancelledError",
        "asyncio.exceptions.CancelledError",
        "concurrent.futures.CancelledError",
    }
)
_LEAVES: Final = (ast.Return, ast.Break, ast.Continue)


def handlers(here: Here, node: ast.Try) -> None:
    """`except BaseException` round an await, without a `raise` at its end; `return` in `finally`."""
    if not _waits(node.body):
        return
    for handler in node.handlers:
        caught = _caught(here, handler.type)
        if caught and not _lets_out(handler.body):
            message = f"`{caught}` round an await swallows the signal by which Loom puts the flow away or cancels it"
            here.report("broad-except", handler, message, _narrower(handler), at=handler.type or handler)
            break
        if caught:
            break  # the later handlers see no signal
    for leaves in _leaving(node.finalbody):
        message = f"`{shown(leaves)}` in `finally` swallows the signal by which Loom puts the flow away or cancels it"
        here.report("broad-except", leaves, message)


def _caught(here: Here, kind: ast.expr | None) -> str:
    """Return how the handler of *kind* catches Loom's signals, "" when it does not."""
    if kind is None:
        return "except:"
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return next((f"except {ast.unparse(each)}" for each in kinds if here.of(each).name in _CATCHES_SIGNALS), "")


def _narrower(handler: ast.ExceptHandler) -> str | None:
    return "Exception" if isinstance(handler.type, ast.Name) and handler.type.id == "BaseException" else None


def suppressed(here: Here, node: ast.With | ast.AsyncWith) -> None:
    """`with contextlib.suppress(BaseException)` round an await."""
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and here.of(call.func).name == "contextlib.suppress" and _waits(node.body):
            caught = next((each for each in call.args if here.of(each).name in _CATCHES_SIGNALS), None)
            if caught is not None:
                said = "swallows the signal by which Loom puts the flow away or cancels it"
                change = "Exception" if shown(caught) == "BaseException" else None
                here.report("broad-except", call, f"`{shown(call)}` round an await {said}", change, at=caught)


def _waits(body: Iterable[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Await | ast.AsyncFor | ast.AsyncWith) for each in _run_in(body))


def _lets_out(body: list[ast.stmt]) -> bool:
    """Whether every way through *body* ends with a raise."""
    if any(isinstance(each, _LEAVES) for each in _run_in(body)):
        return False
    return _ends_raised(body)


def _ends_raised(body: list[ast.stmt]) -> bool:
    match body[-1]:
        case ast.Raise():
            return True
        case ast.If(body=one, orelse=other):
            return bool(other) and _ends_raised(one) and _ends_raised(other)
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return _ends_raised(inner)
        case ast.Try(body=inner, finalbody=final, handlers=caught):
            return (bool(final) and _ends_raised(final)) or (
                _ends_raised(inner) and all(_ends_raised(each.body) for each in caught)
            )
        case _:
            return False


def _leaving(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of *body* that leave it: a break of a loop inside stays."""
    for statement in body:
        if isinstance(statement, ast.Return | ast.Break | ast.Continue):
            yield statement
        elif isinstance(statement, LOOPS):
            yield from (each for each in _run_in(statement.body) if isinstance(each, ast.Return))
        elif not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody", "handlers"):
                for inner in getattr(statement, field, ()):
                    yield from _leaving(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])


def _run_in(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    return inside(ast.Module(body=list(body), type_ignores=[]))
