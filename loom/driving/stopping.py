"""Having an execution end, or rest, from outside: it is cancelled, paused, and let go on.

What somebody drives is asked to by a durable request, which the driver journals; what is parked is driven through its
clean-up now, or has the fact appended, on the condition that its log is as it was read.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from loom.core import facts as f
from loom.core.errors import ExecutionTerminated, InvalidDeclaration
from loom.core.ids import ExecutionId, execution_id, label
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.driving.annotating import Load
from loom.driving.authorizing import Authorization
from loom.driving.driver import Ask, Driver
from loom.driving.errors import ExecutionNotFound, ExecutionNotPaused
from loom.driving.messages import GoOn
from loom.driving.waiting import state_once
from loom.kernel.cancelling import GRACE_MS
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import LaneClosed, cancel_key

GRACE_S: Final = GRACE_MS / 1000
_GRACE_MAX_S: Final = 1e10


def cancel_ask(reason: str | None, principal: str | None, grace_s: float) -> Ask:
    """Return the request to cancel a run, checked before anything is written.

    Raises:
        InvalidId, InvalidDeclaration: the principal or the grace cannot be used.
    """
    if not grace_s >= 0:
        raise InvalidDeclaration(f"grace_s={grace_s}: a number of seconds, zero or more")
    by = label("principal", principal) if principal else None
    grace_ms = round(min(grace_s, _GRACE_MAX_S) * 1000)
    body = {"cause": "request", "reason": reason, "grace_ms": grace_ms, "principal": by}
    return Ask("cancel", cancel_key(1), body, "the cancellation")


def due_at(deadline: object, now_ms: int) -> int | None:
    """Return when a run that starts now is to be cancelled, ms since the epoch.

    Raises:
        InvalidDeclaration: the deadline is no time after the start.
    """
    if deadline is None:
        return None
    if not isinstance(deadline, timedelta):
        hint = "It counts from the start: deadline=timedelta(hours=1)."
        raise InvalidDeclaration(f"deadline={deadline!r} is no timedelta", hint=hint)
    if deadline <= timedelta(0):
        raise InvalidDeclaration(f"deadline={deadline}: a time after the start")
    return now_ms + round(deadline.total_seconds() * 1000)


def paused(state: ExecutionState, reason: str | None) -> f.ExecutionPaused | None:
    """Return the fact that pausing a run adds, None where it is paused already.

    Raises:
        ExecutionTerminated: it has ended.
    """
    return None if _open(state).status == "paused" else f.ExecutionPaused(reason)


def unpaused(state: ExecutionState) -> f.ExecutionUnpaused:
    """Return the fact that letting a paused run go on adds.

    Raises:
        ExecutionTerminated, ExecutionNotPaused: it has ended, or is not paused.
    """
    if _open(state).status != "paused":
        raise ExecutionNotPaused(execution_id=state.execution_id, status=state.status)
    return f.ExecutionUnpaused()


def _open(state: ExecutionState) -> ExecutionState:
    if state.is_terminal:
        raise ExecutionTerminated(execution_id=state.execution_id, status=state.status)
    return state


class Stopping:
    """Stops runs, and has them driven as far as that takes."""

    def __init__(self, driver: Driver, load: Load) -> None:
        self._driver, self._load = driver, load

    async def cancel(self, id: str, ask: Ask, go_on: GoOn | None) -> Outcome[Any]:
        """Ask for the run to be cancelled, durably, and *go_on* with it unless somebody drives it; one that is cancelled stays so.

        Raises:
            ExecutionNotFound, ExecutionTerminated: nothing was written.
        """
        run_id = await self._driver.tip(execution_id(id))
        undriven = await self._undriven(run_id, ask.body)
        if undriven is not None:
            return undriven
        try:
            await self._ask(run_id, ask)
            outcome = await self._driven(run_id, go_on)
        except ExecutionTerminated as ended:
            if ended.status != "cancelled":
                raise
            outcome = await self._driver.accepted(run_id)
        return await self._cancelled(run_id) or outcome

    async def _undriven(self, run_id: ExecutionId, body: Mapping[str, Any]) -> Outcome[Any] | None:
        """End a fork that nobody has driven yet, None where it is none: it has done nothing that its flow could clean up."""
        row = await self._driver.around.storage.row(run_id)
        if row is None or row.index.status != "forked" or await self._driver.is_driven(run_id):
            return None
        state = (await self._load(run_id))[0]
        if state.status != "forked":
            return None
        await self._driver.family.dismiss(state, body["reason"])
        fact = f.ExecutionCancelled("request", body["reason"])
        ended = await self._append(run_id, "EXECUTION_CANCELLED", fact, body["principal"])
        return None if ended is None else self._driver.outcome(ended, None)

    async def _cancelled(self, run_id: ExecutionId) -> Outcome[Any] | None:
        row = await self._driver.around.storage.row(run_id)
        is_cancelled = row is not None and row.index.status == "cancelled"
        return self._driver.outcome((await self._load(run_id))[0], None) if is_cancelled else None

    async def pause(self, id: str, reason: str | None, principal: str | None) -> Outcome[Any]:
        """Keep the run from going on: at once where it is parked, else once its driver has stopped.

        Raises:
            ExecutionNotFound, ExecutionTerminated: nothing was written.
        """
        run_id = await self._driver.tip(execution_id(id))
        while True:
            state, _ = await self._load(run_id)
            fact = paused(state, reason)
            if fact is None:
                return self._driver.outcome(state, None)
            if await self._driver.is_driven(run_id):
                await self._ask(run_id, Ask("pause", "", {"reason": reason, "principal": principal}, "the pause"))
                return await self._driver.accepted(run_id)
            stands = await self._append(run_id, "EXECUTION_PAUSED", fact, principal)
            if stands is not None:
                return self._driver.outcome(stands, None)

    async def unpause(self, id: str, principal: str | None, go_on: GoOn | None) -> Outcome[Any]:
        """Let a paused run go on, and *go_on* with it; one that is about to be paused is waited for.

        Raises:
            ExecutionNotFound, ExecutionTerminated, ExecutionNotPaused: nothing was written.
        """
        run_id = await self._driver.tip(execution_id(id))
        while True:
            state = (await self._load(run_id))[0]
            if state.status != "paused" and not state.is_terminal and await self._is_to_pause(run_id):
                await self._paused(run_id, go_on)
                state = (await self._load(run_id))[0]
            fact = unpaused(state)
            if await self._append(run_id, "EXECUTION_UNPAUSED", fact, principal, drops="pause") is not None:
                self._driver.call()
                return await self._driven(run_id, go_on)

    async def _is_to_pause(self, run_id: ExecutionId) -> bool:
        store = self._driver.around.storage
        row = await store.row(run_id)
        lane = None if row is None else await self._driver.lane(run_id, row.incarnation)
        return lane is not None and any(each.kind == "pause" for each in await store.pending(*lane))

    async def _paused(self, run_id: ExecutionId, go_on: GoOn | None) -> None:
        """Return once a pause that was accepted stands, or came to nothing; a run that nobody drives is driven that far."""
        if await self._driver.is_driven(run_id):
            await state_once(
                self._driver.around.storage, run_id, lambda state: state.status == "paused" or state.is_terminal
            )
        elif go_on is not None:
            await go_on(run_id)

    async def end(self, id: str, reason: str | None, principal: str | None) -> Outcome[Any]:
        """End the run as cancelled by the record alone; who drives it loses it.

        Raises:
            ExecutionNotFound, ExecutionTerminated: nothing was written.
        """
        run_id, fact = await self._driver.tip(execution_id(id)), f.ExecutionCancelled("force", reason)
        while (outcome := await self._cancelled(run_id)) is None:
            state = _open((await self._load(run_id))[0])
            await self._driver.family.dismiss(state, reason)
            ended = await self._append(run_id, "EXECUTION_CANCELLED", fact, principal)
            if ended is not None:
                return self._driver.outcome(ended, None)
        return outcome

    async def _append(
        self, run_id: ExecutionId, type_: str, fact: Any, principal: str | None, *, drops: str = ""
    ) -> ExecutionState | None:
        """Append one fact to the run as it is now; None when it has moved on meanwhile.

        Requests of the kind that it *drops* come to nothing: they were made before, and are settled by it.
        """
        async with self._driver.place(run_id):
            state, incarnation = await self._load(run_id)
            journal = self._driver.journal(_open(state), incarnation, drives=False)
            journal.commit(type_, fact, {"principal": principal} if principal else {})
            lane = await self._driver.lane(run_id, incarnation)
            for request in await self._driver.around.storage.pending(*lane) if drops else ():
                if request.kind == drops:
                    dropped = f.RequestDropped(request.kind, request.key, f"{type_} came after it")
                    journal.commit("REQUEST_DROPPED", dropped, {"request": request.number}, consumes=request.number)
            try:
                await journal.barrier()
            except SequenceConflict:
                await asyncio.sleep(0)
                return None
        return journal.state

    async def _ask(self, run_id: ExecutionId, ask: Ask) -> None:
        store = self._driver.around.storage
        row = await store.row(run_id)
        taken = None if row is None else await self._driver.insert(run_id, row.incarnation, ask)
        if taken is None:
            raise ExecutionNotFound(execution_id=run_id, store=store.url)
        if isinstance(taken, LaneClosed):
            raise ExecutionTerminated(execution_id=run_id, status=taken.status)

    async def _driven(self, run_id: ExecutionId, go_on: GoOn | None) -> Outcome[Any]:
        if go_on is None or await self._driver.is_driven(run_id):
            return await self._driver.accepted(run_id)
        try:
            return await go_on(run_id)
        except (SequenceConflict, ExecutionTerminated):  # somebody else took it up, and has read the lane
            return await self._driver.accepted(run_id)


class StoppingVerbs(ABC):
    """The verbs of a runtime that stop executions."""

    _authorization: Authorization
    _stopping: Stopping

    @abstractmethod
    def _going_on(self, principal: str | None, linger_s: float | None) -> GoOn: ...

    async def cancel(
        self,
        execution_id: str,
        *,
        reason: str | None = None,
        principal: str | None = None,
        grace_s: float = GRACE_S,
        force: bool = False,
        drive: bool = True,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Have an execution end as cancelled, whatever it is doing, after it has cleaned up for *grace_s* seconds at most.

        Its flow gets `loom.Cancelled` where it stands. A run that waits is driven through its clean-up now, one that
        somebody drives, or that is not to be driven here (*drive*), ends soon ("accepted"). With *force* it is ended by the
        record alone, and none of its code runs.

        Raises:
            ExecutionNotFound, ExecutionTerminated, InvalidDeclaration: nothing was written.
            Denied: only the refusal was written.
            ReplayDivergence: its code does not fit its log; the request stands, and *force* would end it.
        """
        ask = cancel_ask(reason, principal, grace_s)
        go_on = self._going_on(principal, linger_s) if drive else None
        await self._authorization.ask("cancel", execution_id, principal)
        if force:
            return await self._stopping.end(execution_id, reason, principal)
        return await self._stopping.cancel(execution_id, ask, go_on)

    async def pause(
        self, execution_id: str, *, reason: str | None = None, principal: str | None = None
    ) -> Outcome[Any]:
        """Keep an execution from going on until it is unpaused; what others ask of it waits.

        One that somebody drives is paused once its steps in flight have ended, within the grace ("accepted").

        Raises:
            ExecutionNotFound, ExecutionTerminated: nothing was written.
            Denied: only the refusal was written.
        """
        await self._authorization.ask("pause", execution_id, principal)
        return await self._stopping.pause(execution_id, reason, principal)

    async def unpause(
        self, execution_id: str, *, principal: str | None = None, drive: bool = True, linger_s: float | None = None
    ) -> Outcome[Any]:
        """Let a paused execution go on, and drive it, unless that is left to a worker.

        Raises:
            ExecutionNotFound, ExecutionTerminated, ExecutionNotPaused: nothing was written.
            Denied: only the refusal was written.
            As `resume`.
        """
        go_on = self._going_on(principal, linger_s) if drive else None
        await self._authorization.ask("unpause", execution_id, principal)
        return await self._stopping.unpause(execution_id, principal, go_on)
