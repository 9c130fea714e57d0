"""A finished run, driven once more from its log: every step, message and answer is recorded, and it comes to the same end."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.core.step import Step, StepContext
from loom.devtools.dst.machine import Machine, MachineClock, MachineHost, at_once, process_loop
from loom.devtools.dst.stage import Play
from loom.driving.effects import EffectRuntime
from loom.driving.runtime import WorkflowRuntime
from loom.spi.clock import SeededEntropy
from loom.spi.event_store import Append, EventRecord, ExecutionRow
from loom.spi.memory import MemoryStorage

ENDS: Final = frozenset({"EXECUTION_COMPLETED", "EXECUTION_FAILED"})
_HOURS_S: Final = 24 * 3600.0
_EVENTS_MAX: Final = 20_000


class _Asked(LoomError):
    code = "asked-at-replay"


class _NoEffects(EffectRuntime):
    """Effects of a run all of whose effects are recorded."""

    def invoke(
        self, step: Step[Any, Any], context: StepContext | None, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        async def refused() -> NoReturn:
            raise _Asked(f"the step {step.id} is asked for at a replay, and is not on the log")

        return refused()


def differs_again(play: Play, row: ExecutionRow, log: Sequence[EventRecord]) -> str:
    """Return what is different when a run that has ended is driven again from *log*; empty when nothing is.

    Runs that were cancelled, go on as others, or have children are not driven again.
    """
    end = next((event for event in log if event.type in ENDS), None)
    if end is None or any(event.type.startswith("EXECUTION_RETRIED") or b'"loom.' in event.payload for event in log):
        return ""
    kept = MemoryStorage()
    index = replace(row.index, status="running", ended=False)
    records = log[: end.sequence]
    item = Append(
        execution_id=row.execution_id, incarnation=None, expected=0, append_id="again", events=records, index=index
    )
    at_once(kept.append([item]))
    error = _drive(play, row.execution_id, kept)
    added = at_once(kept.read(row.execution_id, start=end.sequence))
    last = next((event for event in added if event.type in ENDS), None)
    if error is not None:
        return f"cannot be replayed: {error}"
    if last is None:
        return f"does not come to its end at a replay, but to {[event.type for event in added]}"
    same = (last.type, last.payload) == (end.type, end.payload)
    return "" if same else f"ends otherwise at a replay: {_text(last)}, not {_text(end)}"


def _drive(play: Play, run: ExecutionId, kept: MemoryStorage) -> BaseException | None:
    machine, context = Machine(0), contextvars.copy_context()
    machine.now_s = _HOURS_S * 365 * 100  # all that is due is due by now
    loop = process_loop(machine, "replay")
    runtime = WorkflowRuntime(
        kept,
        flows=play.flows,
        tools=play.tools,
        clock=MachineClock(machine),
        entropy=SeededEntropy(0),
        host=MachineHost(loop, {}, knows=False),
        effects=_NoEffects(),
    )
    if play.code is not None:
        runtime.know_code_as(play.code)
    prepare = play.world().prepare
    if prepare is not None:
        context.run(prepare)
    task = loop.create_task(runtime.resume(run, linger_s=0.0), context=context)
    machine.run(task.done, until_s=machine.now_s + _HOURS_S, events_max=_EVENTS_MAX)
    error = task.exception() if task.done() and not task.cancelled() else None
    loop.close()
    return error


def _text(event: EventRecord) -> str:
    return f"{event.type} {event.payload.decode()[:200]}"
