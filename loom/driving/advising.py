"""What to do about a divergence under changed code: a step that was renamed, calls in another order, one more call, one less.

It is advice, so it says nothing rather than something that may be wrong: a step that the code still has was not renamed,
and an id handed to another step would serve it results that are not its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, Final

from loom.core.flow import Flow
from loom.core.identity import unescape
from loom.core.sides import KINDS
from loom.core.state import ExecutionState
from loom.core.step import Step
from loom.fingerprint import is_of_a_project
from loom.kernel.errors import ReplayDivergence

Side = Mapping[str, Any]

_OLD_WAY: Final = "have old runs go the old way"
_ASKED: Final = frozenset({"STEP_STARTED", "GATE_OPENED", "MESSAGE_AWAITED", "TIMER_SET", "SCOPE_OPENED"})


def advised(divergence: ReplayDivergence, advice: str) -> ReplayDivergence:
    """Return *divergence* with *advice* on a line of its own below what is likely to blame; as it is where there is none."""
    if not advice:
        return divergence
    told = ReplayDivergence(
        execution_id=divergence.execution_id,
        scope=divergence.scope,
        ordinal=divergence.ordinal,
        recorded=divergence.recorded,
        asked=divergence.asked,
        likely=f"{divergence.likely}\n{advice}",
    )
    told.hint = divergence.hint
    return told


def advice_on(divergence: ReplayDivergence, flow: Flow[Any, Any], state: ExecutionState) -> str:
    """Return what to do about *divergence*, of a run of *flow* whose code has changed; empty where that cannot be told."""
    recorded, asked = divergence.recorded, divergence.asked
    if recorded is None or recorded["kind"] not in _ASKED:
        return ""
    if asked is None:
        return _taken_out(recorded)
    if asked["kind"] not in _ASKED or (asked["kind"], asked["id"]) == (recorded["kind"], recorded["id"]):
        return ""
    if recorded["kind"] == "STEP_STARTED" and _name(recorded) not in steps_of(flow):
        return _taken_out(recorded) if _is_recorded(asked, state) else _replaced(recorded, asked)
    old, new = _called(recorded), _called(asked)
    if not _is_recorded(asked, state):
        return f"If {new} was added, {_OLD_WAY}: if ctx.patched({_quoted(_name(asked))})."
    patch = _quoted(f"{_name(asked)} first")
    order = f"When this was recorded, {new} was asked after {old}: put them back in that order"
    return f"{order}, or {_OLD_WAY}: if ctx.patched({patch})."


def _replaced(recorded: Side, asked: Side) -> str:
    old, new = _name(recorded), _name(asked)
    if asked["kind"] == "STEP_STARTED" and asked["args"] == recorded["args"]:
        return f"If {new} is {old} under a new name, let it keep its id: @loom.step(id={_quoted(old)})."
    return f"If {_called(asked)} takes the place of {_called(recorded)}, {_OLD_WAY}: if ctx.patched({_quoted(new)})."


def _taken_out(recorded: Side) -> str:
    patch = _quoted(f"without {_name(recorded)}")
    return f"If {_called(recorded)} was taken out, {_OLD_WAY}: if not ctx.patched({patch})."


def _called(side: Side) -> str:
    return f"{KINDS[side['kind']]} {side['id']}"


def _name(side: Side) -> str:
    return unescape(str(side["id"]).rpartition("/")[2].partition("#")[0])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_recorded(side: Side, state: ExecutionState) -> bool:
    starts = [*state.open.values(), *(settled.start for settled in state.settled)]
    return any((start.type, start.payload.id) == (side["kind"], side["id"]) for start in starts)


# -- which steps the code has ------------------------------------------------------------------------------------------


def steps_of(flow: Flow[Any, Any]) -> frozenset[str]:
    """Return the ids of the steps that the code of *flow* can name, as far as the names of its project lead."""
    found: set[str] = set()
    seen: set[int] = set()
    left: list[Any] = [flow]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Step):
            found.add(value.id)
        left += _named_by(value)
    return frozenset(found)


def _named_by(value: Any) -> Iterator[Any]:
    """Yield what *value*, a declaration, function or module of the project, can name; nothing for anything else."""
    if isinstance(value, Flow | Step):
        yield value.fn
    elif isinstance(value, ModuleType) and is_of_a_project(value.__name__):
        yield from list(vars(value).values())
    elif isinstance(value, FunctionType) and is_of_a_project(value.__module__):
        yield from list(value.__globals__.values())
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # it is not set yet
                yield cell.cell_contents
