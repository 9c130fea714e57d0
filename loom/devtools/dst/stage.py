"""One simulation from beginning to end: processes come and go round one run until nothing happens any more.

There are workers, which take up what can go on, and a desk, at which people start the run, answer, send and decide doubts
(desk.py). Each is a process with a runtime of its own; one that dies is replaced after a while. A worker that finds
nothing looks again when there is something to find, which stands for all the looks in between.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from loom.app.registry import Registry
from loom.app.work import worker_of
from loom.core.errors import LoomError
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.core.middleware import Middleware
from loom.core.missing import MISSING
from loom.core.step import Step, StepContext
from loom.devtools.dst.acting import SimulatedEffects
from loom.devtools.dst.machine import Machine, MachineClock, MachineHost, ProcessLoop, at_once, process_loop, resolve
from loom.devtools.dst.observed import Effect, Moment, Observed
from loom.devtools.dst.people import People
from loom.devtools.dst.schedule import Places, Schedule
from loom.devtools.dst.store import FaultyStorage, Operation, is_write
from loom.devtools.dst.world import World
from loom.driving.runtime import RuntimeOptions, WorkflowRuntime
from loom.kernel.errors import DriveStopped, ReplayDivergence
from loom.rings.citing import ContentCiting
from loom.rings.claim_check import ClaimChecking
from loom.services.worker import Report
from loom.spi.clock import SeededEntropy
from loom.spi.errors import StoreError
from loom.spi.event_store import EventRecord, ExecutionQuery
from loom.spi.memory import MemoryStorage

LAST_S: Final = 10 * 365 * 24 * 3600.0
EVENTS_MAX: Final = 50_000
POLL_S: Final = 0.25
LOOKS_MAX: Final = 14
"""So often in a row a worker looks for what stands there as due and cannot be had, each time after twice as long."""
AFTER_S: Final = 2.0
REPLACED_S: Final = 3.0
LINGERS_S: Final = (0.0, 1.0, 10.0)
_SPACING: Final = 1 << 32


@dataclass(frozen=True, kw_only=True)
class Play:
    """What is simulated: *flow* of these *flows* and *tools*, started with *input*, with the app's *middleware*.

    *world* makes a world for each simulation. *code* is a runtime of these flows that keeps what is known of their code, so
    that it is read once for all simulations.
    """

    flow: Flow[Any, Any]
    flows: Mapping[str, Flow[Any, Any]]
    tools: Mapping[str, Step[Any, Any]] = field(default_factory=dict)
    input: Any = MISSING
    middleware: tuple[Middleware, ...] = ()
    world: Callable[[], World] = World
    write_behind: bool = False
    code: WorkflowRuntime | None = None

    def __post_init__(self) -> None:
        if self.code is None:
            object.__setattr__(self, "code", WorkflowRuntime(MemoryStorage(), flows=self.flows))


class Process:
    """A simulated process: its loop, its runtime, and the context in which all of it runs."""

    def __init__(self, stage: Stage, name: str, number: int) -> None:
        self.loop = process_loop(stage.machine, f"{name}-{number}")
        self.context = contextvars.copy_context()
        self.resting: asyncio.Future[None] | None = None
        self.alarm: asyncio.TimerHandle | None = None
        self.looks, self.tasks = 0, list[asyncio.Task[None]]()
        play, world = stage.play, stage.world
        options: RuntimeOptions = {
            "clock": MachineClock(stage.machine),
            "entropy": SeededEntropy(stage.seed * _SPACING + number),
            "host": MachineHost(self.loop, stage.loops, knows=stage.knows_dead),
            "effects": SimulatedEffects(
                world,
                self.loop,
                stage.places,
                middleware=play.middleware,
                audience=stage,
                claims=ClaimChecking(stage.kept.content_store()),
            ),
            "citing": ContentCiting(stage.kept.content_store()),
            "resources": partial(_given, world.resources),
            "write_behind": play.write_behind,
        }
        storage = FaultyStorage(stage.kept, self.loop, stage.places, stage)
        self.runtime = WorkflowRuntime(storage, flows=play.flows, tools=play.tools, **options)
        if play.code is not None:
            self.runtime.know_code_as(play.code)
        if world.prepare is not None:
            self.context.run(world.prepare)

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* in this process."""
        self.tasks.append(self.loop.create_task(work, context=self.context))


class Stage:
    """One simulation of *play*, decided by *seed* and *schedule*."""

    def __init__(self, play: Play, seed: int, schedule: Schedule) -> None:
        self.play, self.seed = play, seed
        self.machine = machine = Machine(seed)
        machine.on_death = self._died
        chance = machine.random
        self.knows_dead, self.linger_s = chance.random() < 0.5, chance.choice(LINGERS_S)
        self.kept = MemoryStorage(clock=MachineClock(machine))
        self.places, self.observed, self.world = Places(schedule), Observed(), play.world()
        self.refusal: LoomError | None = None
        self.loops: dict[str, ProcessLoop] = {}
        self._house = process_loop(machine, "house")
        self._open: set[ExecutionId] = set()
        self._parts: dict[str, tuple[str, Process]] = {}
        self.people = People(self, self._house, drives=chance.random() < 0.5, linger_s=self.linger_s)
        for _ in range(1 + (chance.random() < 0.5)):
            self._cast("worker")
        self._cast("desk")

    # -- the course of it --------------------------------------------------------------------------------------------

    def played(self) -> Observed:
        """Let all of it happen, and return what was seen.

        Raises:
            NoValue: something has no value in the simulation, and none can be made up.
        """
        try:
            self._go_on()
            self._look_at_the_end()
        finally:
            for loop in self.loops.values():
                loop.close()
        if self.refusal is not None:
            raise self.refusal
        return self.observed

    def _go_on(self) -> None:
        machine, seen = self.machine, self.observed
        seen.ended = machine.run(self._is_over, until_s=LAST_S, events_max=EVENTS_MAX)
        if seen.ended == "over" and self.refusal is None:
            frozen_s = max((loop.frozen_until_s for loop in self.loops.values() if not loop.is_dead), default=0.0)
            until_s = max(frozen_s, machine.now_s) + AFTER_S  # whoever comes late may still do harm
            if machine.run(self._is_refused, until_s=until_s, events_max=EVENTS_MAX) == "endless":
                seen.ended = "endless"

    def _is_over(self) -> bool:
        return self.refusal is not None or (self.people.have_acted and not self._open)

    def _is_refused(self) -> bool:
        return self.refusal is not None

    def _look_at_the_end(self) -> None:
        seen, kept = self.observed, self.kept
        rows = at_once(kept.find(ExecutionQuery(limit=10_000)))
        seen.rows = {row.execution_id: row for row in rows}
        seen.stored = {row.execution_id: at_once(kept.read(row.execution_id)) for row in rows}
        seen.pending = {row.execution_id: at_once(kept.pending(row.execution_id, row.incarnation)) for row in rows}
        seen.errors += [f"{name}: {error}" for name, loop in self.loops.items() for error in loop.errors]
        seen.counts, seen.now_ms = dict(self.places.counts), self.machine.now_ms()
        seen.undone = tuple(self.people.todo)

    # -- processes ---------------------------------------------------------------------------------------------------

    def _cast(self, part: str) -> None:
        process = Process(self, part, len(self.loops))
        self.loops[process.loop.name] = process.loop
        self._parts[process.loop.name] = (part, process)
        if part == "desk":
            self.people.come_to(process)
        else:
            process.do(self._work(process))

    def _died(self, loop: ProcessLoop) -> None:
        part, _ = self._parts.pop(loop.name)
        self._house.call_later(self.machine.random.random() * REPLACED_S, self._cast, part)
        if self.knows_dead:
            self._house.call_later(REPLACED_S, self._somebody_is_gone)

    async def _work(self, process: Process) -> None:
        registry = Registry(self.play.flows.values(), self.play.tools.values())
        told = partial(self._heard, process.loop.name)
        worker = worker_of(process.runtime, registry, until_idle=True, told=told)
        while True:
            await worker.run()
            process.resting = process.loop.create_future()
            self._arm(process)
            await process.resting
            process.resting = process.alarm = None

    def _heard(self, process: str, report: Report) -> None:
        if report.did == "refused" and not _is_known(report.error):
            self.observed.errors.append(f"{process}: {report.error!r}")

    def _arm(self, process: Process, *, soon: bool = False) -> None:
        """Have a worker that rests look when there is something to find, if ever; *soon* where there may be, unseen."""
        due_ms = self.kept.next_due_ms(after=0)
        if (due_ms is None and not soon) or process.looks > LOOKS_MAX:
            return
        now_s, wait_s = self.machine.now_s, self.machine.random.random() * POLL_S * 2**process.looks
        due_s = now_s if due_ms is None or soon else max(now_s, now_s + (due_ms - self.machine.now_ms()) / 1000)
        alarm = process.alarm
        if alarm is not None and alarm.when() <= due_s + wait_s:
            return
        if alarm is not None:
            alarm.cancel()
        process.alarm = process.loop.call_at(due_s + wait_s, self._ring, process, soon)

    def _ring(self, process: Process, soon: bool) -> None:
        """Have a worker look, if there still is something to find."""
        process.alarm, due_ms = None, self.kept.next_due_ms(after=0)
        if soon or (due_ms is not None and due_ms <= self.machine.now_ms()):
            process.looks += 1
            resolve(process.resting)
        else:
            self._arm(process)

    def _something_was_written(self) -> None:
        for _, process in self._parts.values():
            process.looks = 0
            if process.resting is not None and not process.resting.done():
                self._arm(process)

    def _somebody_is_gone(self) -> None:
        for _, process in self._parts.values():
            if process.resting is not None and not process.resting.done():
                self._arm(process, soon=True)

    # -- what processes tell -----------------------------------------------------------------------------------------

    def tell(self, process: str, what: str) -> None:
        """Something happened in a process that is worth telling."""
        self.observed.trail.append(Moment(self.machine.now_s, process, what))

    def saw(self, process: str, operation: Operation, result: Any) -> None:
        """An operation of a process has happened in the store."""
        name, args, given = operation
        if name == "append":
            for item, answer in zip(args[0], result, strict=True):
                self.observed.appended(item, answer, partial(self._appended, process))
        elif name == "insert":
            self.tell(process, f"a request is stored: {given['kind']} {given['key']}".rstrip())
            self.observed.inserted(args[0], result, kind=given["kind"], key=given["key"], body=given["body"])
        if is_write(name):
            self._something_was_written()

    def _appended(self, process: str, run_id: ExecutionId, event: EventRecord) -> None:
        self.tell(process, f"{run_id} {event.sequence} {event.type}")
        if event.type in {"EXECUTION_STARTED", "EXECUTION_RETRIED"}:
            self._open.add(run_id)
        elif event.type in _ENDS:
            self._open.discard(run_id)
        self.people.see(run_id, event)

    def began(self, step: Step[Any, Any], context: StepContext, process: str) -> Effect:
        """An attempt at *step* begins."""
        effect = Effect(
            execution_id=context.execution_id,
            step_id=context.step_id,
            generation=context.generation,
            attempt=context.attempt,
            once=not step.idempotent,
            durable=len(self.observed.logs.get(ExecutionId(context.execution_id), ())),
            process=process,
        )
        self.observed.effects.append(effect)
        self.observed.steps.add(step.id)
        self.tell(process, f"{effect.step_id} begins, attempt {effect.attempt}")
        return effect

    def refused(self, error: LoomError) -> None:
        """The simulation lacks something, and ends."""
        self.refusal = self.refusal or error


_ENDS: Final = frozenset({"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CONTINUED"})


def _is_known(error: LoomError | None) -> bool:
    """Whether a process may well refuse a run so, in a world where things go wrong."""
    return isinstance(error, (StoreError, DriveStopped)) and not isinstance(error, ReplayDivergence)


async def _given(resources: Mapping[str, Any]) -> Mapping[str, Any]:
    return resources
