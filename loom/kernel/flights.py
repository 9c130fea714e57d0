"""Effects in flight: each in a task and a copy of the context of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from loom.core.inside import INSIDE, EffectInterrupted
from loom.kernel.calls import Call, DriveEnding

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


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


class Flights:
    """The running attempts of a drive, by the call they are for."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._dropped: set[Call] = set()
        self._behind: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def start(self, call: Call, effect: Effect, number: int = 1) -> None:
        """Have *effect* make attempt *number* for *call*; it is told how that ended, unless it was grounded."""
        context, call.context = call.context, None if call.context is None else call.context.copy()
        fly = self._fly(call, effect, number)
        self._tasks[call] = asyncio.get_running_loop().create_task(fly, name=call.id, context=context)

    async def _fly(self, call: Call, effect: Effect, number: int) -> None:
        # The landing is part of the task and no callback of it: one turn of the loop less for every step.
        INSIDE.set("effect")
        result, error = None, None
        try:
            result = await effect.attempt(call, self._drive, number)
        except BaseException as raised:  # noqa: BLE001  # whatever an effect raises is told to who records it
            error = _seen(raised)
        if call in self._tasks and self._tasks[call] is asyncio.current_task():
            del self._tasks[call]
            if call in self._dropped:
                self._dropped.discard(call)
                self._drive.delivery.stir()
                return
            try:
                effect.landed(call, self._drive, number, result=result, error=error)
            except DriveEnding:
                return  # the log could not be written, and the drive knows
            except Exception as failed:  # noqa: BLE001  # an outcome that cannot be recorded ends the drive
                self._drive.landing_failed(call, failed)

    def are_below(self, prefix: str) -> bool:
        """Whether anything is in flight for a branch at or below *prefix*, but for what is shielded there."""
        return any(call.branch.lies_open(prefix) for call in self._tasks)

    @property
    def calls(self) -> list[Call]:
        """What is in flight."""
        return list(self._tasks)

    def drop(self, call: Call) -> None:
        """Cancel what runs for *call*, without a record; it is in flight until it has ended."""
        self._dropped.add(call)
        asyncio.get_running_loop().call_soon(self._tasks[call].cancel)  # it may not have begun

    def leave_behind(self, call: Call) -> None:
        """Cancel what runs for *call*, without a record, and wait for it no longer."""
        task = self._tasks.pop(call)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        task.cancel()

    def drop_below(self, prefix: str) -> None:
        """Cancel what is in flight at or below *prefix* but for what must not run twice; threads are left behind."""
        for call in [call for call in self._tasks if call.branch.lies_open(prefix) and not call.is_once]:
            is_thread = not getattr(getattr(call.syscall, "step", None), "is_async", True)
            (self.leave_behind if is_thread else self.drop)(call)

    def once_timeout_s(self) -> float:
        """Return the longest timeout, in seconds, of the steps in flight that are not idempotent; 0 without any."""
        steps = [step for call in self._tasks if (step := getattr(call.syscall, "step", None)) is not None]
        return max((s.timeout.total_seconds() for s in steps if not s.idempotent and s.timeout), default=0.0)

    async def wait(self, timeout_s: float | None) -> None:
        """Return when nothing is in flight any more, or after *timeout_s*."""
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=timeout_s)

    async def ground(self, patience_s: float) -> None:
        """Cancel all that is in flight, without a record, and return when it has ended, or after *patience_s*."""
        tasks, self._tasks = [*self._tasks.values(), *self._behind], {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)


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
