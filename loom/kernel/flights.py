"""Effects in flight: each in a task and a copy of the context of its own, once what it stands on is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from loom.core.errors import LoomError
from loom.core.inside import INSIDE, EffectInterrupted
from loom.kernel.calls import Call, DriveEnding
from loom.kernel.errors import DriveFaulted
from loom.spi.limits import EntryTooLarge

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

RECOVERIES_UNMARKED_MAX: Final = 2
"""Once so many drivers in a row were lost, each start is on disk before its effect, so that the next loss is counted."""


class Effect(Protocol):
    """What flies: the part of a syscall that touches the world."""

    async def attempt(self, call: Call, drive: Drive, number: int) -> Any:
        """Make an attempt, the first has *number* 1, and return its result."""
        ...

    def landed(self, call: Call, drive: Drive, number: int, *, result: Any, error: BaseException | None) -> None:
        """Record how the attempt ended: with *result*, or with the *error* it raised."""
        ...


class CancelledInside(Exception):
    """An effect met a cancellation that was not meant for it."""


class _Flight:
    """One attempt: *number* of *effect* for *call*. It has no task until the first *upto* events are on disk."""

    __slots__ = ("call", "context", "effect", "number", "task", "upto")

    def __init__(self, call: Call, effect: Effect, number: int, upto: int) -> None:
        self.call, self.effect, self.number, self.upto = call, effect, number, upto
        self.context, call.context = call.context, None if call.context is None else call.context.copy()
        self.task: asyncio.Task[None] | None = None


class Flights:
    """The running attempts of a drive, by the call they are for."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._fleet: dict[Call, _Flight] = {}
        self._dropped: set[Call] = set()
        self._behind: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._fleet)

    def start(
        self, call: Call, effect: Effect, number: int = 1, *, everything: bool = False, reads: bool = False
    ) -> None:
        """Have *effect* make attempt *number* for *call* once what it stands on is on disk; it is told how that ended.

        It stands on what the flow may have acted on, on nothing where it only *reads*, or on *everything* that is on the log.
        """
        journal = self._drive.journal
        upto = 0 if reads or self._drive.around.write_behind else journal.acted_on
        if everything or journal.state.facts.recoveries >= RECOVERIES_UNMARKED_MAX:
            upto = journal.state.length
        flight = self._fleet[call] = _Flight(call, effect, number, upto)
        if upto > journal.durable:
            journal.when_written(upto, partial(self._written, flight))
        else:
            self._leave(flight)

    def _written(self, flight: _Flight, error: LoomError | None) -> None:
        # With an error what it stands on will never be on disk, and the drive ends: it never leaves.
        if error is None and self._fleet.get(flight.call) is flight:
            self._leave(flight)

    def _leave(self, flight: _Flight) -> None:
        """Have it begin, if it has not; it waits for the disk by itself if it has to."""
        if flight.task is None:
            loop = asyncio.get_running_loop()
            flight.task = loop.create_task(self._fly(flight), name=flight.call.id, context=flight.context)

    async def _fly(self, flight: _Flight) -> None:
        # The landing is part of the task and no callback of it: one turn of the loop less for every step.
        INSIDE.set("effect")
        call, drive, result, error = flight.call, self._drive, None, None
        try:
            if flight.upto > drive.journal.durable:
                await drive.journal.barrier(flight.upto)
            if (waits := drive.setting.may_dispatch()) is not None:
                await waits
            result = await flight.effect.attempt(call, drive, flight.number)
        except BaseException as raised:  # noqa: BLE001  # whatever an effect raises is told to who records it
            error = _seen(raised)
        if self._fleet.get(call) is not flight:
            return
        del self._fleet[call]
        if call in self._dropped:
            self._dropped.discard(call)
            drive.delivery.stir()
            return
        try:
            try:
                flight.effect.landed(call, drive, flight.number, result=result, error=error)
            except EntryTooLarge as refused:  # then that is how it ended
                flight.effect.landed(call, drive, flight.number, result=None, error=refused)
        except DriveEnding:
            return  # the log could not be written, and the drive knows
        except Exception as failed:  # noqa: BLE001  # an outcome that cannot be recorded ends the drive
            drive.stop(DriveFaulted(execution_id=drive.state.execution_id, what=call.id, why=repr(failed)))

    def are_below(self, prefix: str) -> bool:
        """Whether anything is in flight for a branch at or below *prefix*, but for what is shielded there."""
        return any(call.branch.lies_open(prefix) for call in self._fleet)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._fleet)

    def drop(self, call: Call) -> None:
        """Cancel what runs for *call*, without a record; it is in flight until it has ended."""
        task = self._fleet[call].task
        if task is None:
            del self._fleet[call]
            self._drive.delivery.stir()
            return
        self._dropped.add(call)
        asyncio.get_running_loop().call_soon(task.cancel)  # it may not have begun

    def leave_behind(self, call: Call) -> None:
        """Cancel what runs for *call*, without a record, and wait for it no longer."""
        task = self._fleet.pop(call).task
        if task is None:
            return
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        task.cancel()

    def drop_below(self, prefix: str) -> None:
        """Cancel what is in flight at or below *prefix* but for what must not run twice; threads are left behind."""
        for call in [call for call in self._fleet if call.branch.lies_open(prefix) and not call.is_once]:
            is_thread = not getattr(getattr(call.syscall, "step", None), "is_async", True)
            (self.leave_behind if is_thread else self.drop)(call)

    def once_timeout_s(self) -> float:
        """Return the longest timeout, in seconds, of the steps in flight that are not idempotent; 0 without any."""
        steps = [step for call in self._fleet if (step := getattr(call.syscall, "step", None)) is not None]
        return max((s.timeout.total_seconds() for s in steps if not s.idempotent and s.timeout), default=0.0)

    async def wait(self, timeout_s: float | None) -> None:
        """Return when nothing is in flight any more, or after *timeout_s*."""
        for flight in self._fleet.values():
            self._leave(flight)
        if self._fleet:
            await asyncio.wait(self._flying(), timeout=timeout_s)

    async def ground(self, patience_s: float) -> None:
        """Cancel all that is in flight, without a record, and return when it has ended, or after *patience_s*."""
        tasks, self._fleet = [*self._flying(), *self._behind], {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)

    def _flying(self) -> list[asyncio.Task[None]]:
        return [flight.task for flight in self._fleet.values() if flight.task is not None]


def _seen(error: BaseException) -> BaseException:
    """Return *error*, or what it means: a cancellation that nobody asked of the effect is a failure of its own."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling():
        inside = CancelledInside("something that it awaited was cancelled")
        inside.__cause__ = error
        return inside
    return error


def is_interruption(error: BaseException) -> bool:
    """Whether *error* ends the drive and says nothing about the effect."""
    return isinstance(error, (KeyboardInterrupt, asyncio.CancelledError, DriveEnding, EffectInterrupted))
