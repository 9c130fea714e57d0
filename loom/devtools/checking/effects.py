"""Rules on steps: what they do against what they declare."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from loom.devtools.checking.findings import Finding
from loom.devtools.checking.hazards import posts, writes
from loom.devtools.checking.meaning import Meanings, inside
from loom.devtools.checking.source import Source
from loom.devtools.checking.walk import finding, shown
from loom.fingerprint.normal_form import FunctionNode

_DEPTH_MAX: Final = 8
_STATEMENTS: Final = ("insert ", "update ", "delete ", "create ", "drop ", "alter ", "replace ", "truncate ")
_WRITING_MODES: Final = frozenset("wax+")


class Options(NamedTuple):
    """What a step declares, as far as it is spelt out; None where it is not."""

    at: ast.AST
    reads: bool | None
    idempotent: bool | None
    attempts: int | None
    on: bool


def check_step(function: FunctionNode, source: Source, meanings: Meanings) -> Iterator[Finding]:
    """Yield what is wrong with the step that *function* is declared to be."""
    options = options_of(function, source, meanings)
    if options.reads and options.idempotent is False:
        yield finding(source, "effect-class", options.at, "a step cannot be both `reads=True` and `idempotent=False`")
    if options.idempotent is False and (options.attempts or 1) > 1 and not options.on:
        message = (
            f"with `idempotent=False` no other attempt is made unless `Retry(on=...)` lists the error, so "
            f"`attempts={options.attempts}` does nothing"
        )
        yield finding(source, "effect-class", options.at, message)
    if options.reads:
        for call, place in calls_of(function, source, meanings):
            if _writes(call, place, meanings):
                name = getattr(function, "name", "")
                message = f"`{shown(call)}` writes, and the step `{name}` that does it is declared `reads=True`"
                yield finding(place, "effect-class", call, message)
    if (options.attempts or 1) > 1 and options.idempotent is not False:
        yield from _without_key(function, source, meanings)


def _without_key(function: FunctionNode, source: Source, meanings: Meanings) -> Iterator[Finding]:
    if any(_names_key(node) for node in ast.walk(function)):
        return
    for call, place in calls_of(function, source, meanings):
        if posts(meanings.of(call.func, place).name):
            message = f"`{shown(call)}` may be done twice: the step is tried again, and hands over no idempotency key"
            yield finding(place, "no-key", call, message)


def _names_key(node: ast.AST) -> bool:
    text = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "arg", None)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    return isinstance(text, str) and "idempotency" in text.lower()


def options_of(function: FunctionNode, source: Source, meanings: Meanings) -> Options:
    """Return what the decorator of the step *function* says."""
    for decorator in getattr(function, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and meanings.of(decorator.func, source).name in {"loom.step", "loom.tool"}:
            given = {each.arg: each.value for each in decorator.keywords}
            attempts, on = _retry(given.get("retry"), source, meanings)
            return Options(decorator, _truth(given.get("reads")), _truth(given.get("idempotent")), attempts, on)
    return Options(function, None, None, None, on=False)


def _truth(node: ast.expr | None) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _retry(node: ast.expr | None, source: Source, meanings: Meanings) -> tuple[int | None, bool]:
    """Return how many attempts a retry policy makes, and whether it says on which errors."""
    if isinstance(node, ast.Name):
        bindings = source.bindings(source.tree).get(node.id, ())
        node = next((each.node for each in bindings if isinstance(each.node, ast.Call)), None)
    if not isinstance(node, ast.Call) or meanings.of(node.func, source).name != "loom.Retry":
        return None, False
    given = {each.arg: each.value for each in node.keywords}
    attempts = given.get("attempts")
    if attempts is None:
        return 3, "on" in given
    is_number = isinstance(attempts, ast.Constant) and isinstance(attempts.value, int)
    return (attempts.value if is_number else None), "on" in given  # type: ignore[attr-defined]  # told by the line above


def calls_of(function: FunctionNode, source: Source, meanings: Meanings) -> Iterator[tuple[ast.Call, Source]]:
    """Yield the calls that *function* makes, and those of the functions of the project that it calls."""
    seen: set[ast.AST] = {function}
    pending = [(function, source, 0)]
    while pending:
        each, place, depth = pending.pop()
        for node in inside(each):
            if isinstance(node, ast.Call):
                yield node, place
                called = meanings.of(node.func, place)
                if called.kind == "function" and called.node not in seen and depth < _DEPTH_MAX:
                    seen.add(called.node)
                    pending.append((called.node, called.source, depth + 1))


def _writes(call: ast.Call, source: Source, meanings: Meanings) -> bool:
    name = meanings.of(call.func, source).name
    if name in {"builtins.open", "io.open"} or name.endswith("Path().open"):
        return _opens_to_write(call, 0 if name.endswith("Path().open") else 1)
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"execute", "executemany", "executescript"}:
        statement = call.args[0] if call.args else None
        text = statement.value if isinstance(statement, ast.Constant) else ""
        return isinstance(text, str) and text.lstrip().lower().startswith(_STATEMENTS)
    return writes(name)


def _opens_to_write(call: ast.Call, position: int) -> bool:
    named = next((each.value for each in call.keywords if each.arg == "mode"), None)
    mode = named or (call.args[position] if len(call.args) > position else None)
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and bool(_WRITING_MODES & set(mode.value))
