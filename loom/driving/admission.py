"""Whether a run may begin: what the store is asked for flows that say how many may (core/starts.py), and what follows.

A run joins its lines before its log is written, and what it has to wait for is written with its first event. It is asked again
whenever it is taken up, in every process, before its body runs; what the answer was is only ever found in the store. After
a run was parked it is looked once more how it stands, since it may have been given a slot before it could be called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import orjson

from loom.core import facts as f
from loom.core.errors import InvalidDeclaration
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation
from loom.core.state import ExecutionState
from loom.driving.errors import ExecutionAlreadyExists, ExecutionNotFound
from loom.driving.loading import load
from loom.driving.terms import suspended, terms_of
from loom.kernel.journal import Journal
from loom.spi.admission_store import Admission, AdmissionStore
from loom.spi.conflicts import SequenceConflict
from loom.spi.errors import StoreError
from loom.spi.event_store import Request
from loom.spi.surroundings import Surroundings

JournalOf: TypeAlias = Callable[[ExecutionState, Incarnation], Journal]
"""Returns a journal for one fact, for whoever does not drive the run."""


class Waiting(NamedTuple):
    """A run that may not begin yet: what is written of it, and the *older* ones whose place it takes."""

    fact: f.ExecutionSuspended
    older: Sequence[ExecutionId] = ()


class Admissions:
    """Asks the store whether runs may begin, and tells it when they have ended."""

    def __init__(self, around: Surroundings, journal: JournalOf) -> None:
        self._around, self._journal = around, journal

    # -- who starts a run, or tries it again ---------------------------------------------------------------------

    async def join(
        self, flow: Flow[Any, Any], run_id: ExecutionId, fact: f.ExecutionStarted, *, begins: bool
    ) -> Waiting | None:
        """Have a run join its lines that is about to be written with *fact*; None when it may begin.

        Raises:
            InvalidPayload: its input lacks a key; nothing was written.
            ExecutionAlreadyExists: the id is taken.
        """
        if not _is_counted(flow):
            return None
        terms = terms_of(flow, fact.input)
        admission = await self._store(flow).join_lines(run_id, terms, length=0, begins=begins)
        if admission is None:
            raise ExecutionAlreadyExists(execution_id=run_id)
        return _waiting(flow, fact.input, admission, due_at=fact.due_at)

    async def join_again(self, flow: Flow[Any, Any], state: ExecutionState) -> Waiting | None:
        """Have a failed run join its lines that is about to be tried again; None when it may go on.

        Raises:
            SequenceConflict: somebody else has tried it again.
        """
        if flow.starts is None or flow.starts.concurrency is None:
            return None
        run_id, length = _run_of(state), state.length
        if run_id != state.execution_id:
            head = await self._around.storage.head(run_id)
            length = head.length if head is not None else 0
        terms = terms_of(flow, state.facts.input, again=True)
        admission = await self._store(flow).join_lines(run_id, terms, length=length)
        if admission is None:
            raise SequenceConflict(execution_id=state.execution_id, expected=state.length, actual=state.length + 1)
        return _waiting(flow, state.facts.input, admission, due_at=state.facts.due_at)

    async def parked(self, flow: Flow[Any, Any], state: ExecutionState, waiting: Waiting) -> bool:
        """End those whose place the run takes, now that it is written; return whether it can go on after all."""
        run_id = _run_of(state)
        for older in waiting.older:
            with suppress(SequenceConflict, ExecutionNotFound, StoreError):  # then it ends when it is taken up
                await self._supersede(flow, older, run_id)
        stands = (await self._store(flow).admissions([run_id])).get(run_id)
        if stands is None or stands.stage == "begun" or stands.newer is not None:
            return True
        return stands.stage == "turn" and (stands.wake_at or 0) <= self._around.clock.now_ms()

    async def _supersede(self, flow: Flow[Any, Any], older: ExecutionId, newer: ExecutionId) -> None:
        state, row, _ = await load(self._around.storage, older)
        if state.status == "suspended" and not _has_begun(state):
            await _end(self._journal(state, row.incarnation), _superseded(newer))
            await self._store(flow).leave_lines(older)

    # -- who drives it -------------------------------------------------------------------------------------------

    async def keeps_back(self, flow: Flow[Any, Any], journal: Journal) -> bool:
        """Return whether the run may not be driven now: it stands parked and waits, or has ended without having begun."""
        while True:
            state = journal.state
            terms, run_id = terms_of(flow, state.facts.input), _run_of(state)
            admission = await self._store(flow).admit(run_id, terms, has_begun=_has_begun(state))
            if admission.stage == "begun":
                return False
            assert journal.incarnation is not None
            lane = state.facts.chain or (state.execution_id, journal.incarnation)
            requests = await self._around.storage.pending(*lane)
            if end := _end_of(state, admission, requests, self._around.clock.now_ms()):
                if _has_begun(state):
                    return False  # its flow cleans up, which takes no place
                await _end(journal, *end)
                return True
            fact = suspended(flow, state.facts.input, admission, due_at=state.facts.due_at)
            if state.status == "suspended" and fact == f.ExecutionSuspended(state.facts.wake_at, state.facts.why):
                return True
            await journal.leave("EXECUTION_SUSPENDED", fact, seen=max((each.number for each in requests), default=0))

    async def left(self, flow: Flow[Any, Any], state: ExecutionState) -> Sequence[ExecutionId]:
        """Have a run that has ended leave its lines, and return those that were given its slot.

        What cannot be told now is made up for by the next sweep: a run that has ended counts for nothing anyhow.
        """
        if not _is_counted(flow) or not state.is_terminal or state.status == "continued":
            return ()
        with suppress(StoreError):
            return await self._store(flow).leave_lines(_run_of(state))
        return ()

    async def sweep(self) -> Sequence[ExecutionId]:
        """Make up for what was cut off in between, and return whose drivers were called."""
        storage = self._around.storage
        return await storage.sweep_lines() if isinstance(storage, AdmissionStore) else ()

    def _store(self, flow: Flow[Any, Any]) -> AdmissionStore:
        storage = self._around.storage
        if isinstance(storage, AdmissionStore):
            return storage
        hint = "Use loom.sqlite_storage(), or a store that is an AdmissionStore too."
        raise InvalidDeclaration(f"{storage.url} keeps no lines, and runs of {flow.id} stand in some", hint=hint)


def _is_counted(flow: Flow[Any, Any]) -> bool:
    return flow.starts is not None and flow.starts.is_counted


def _run_of(state: ExecutionState) -> ExecutionId:
    """Return under which id the run stands in its lines: that of the first link of its chain."""
    return state.facts.chain[0] if state.facts.chain else state.execution_id


def _has_begun(state: ExecutionState) -> bool:
    return bool(state.settled or state.open) or state.facts.link > 1


def _waiting(flow: Flow[Any, Any], input: Any, admission: Admission, *, due_at: int | None) -> Waiting | None:
    if admission.stage == "begun":
        return None
    return Waiting(suspended(flow, input, admission, due_at=due_at), admission.older)


End: TypeAlias = "tuple[f.ExecutionCancelled, str | None, int | None]"
"""How a run ends that has not begun, by whom, and the request that says so."""


def _superseded(newer: ExecutionId) -> f.ExecutionCancelled:
    return f.ExecutionCancelled("superseded", f"{newer} was started before it began")


def _end_of(state: ExecutionState, admission: Admission, requests: Sequence[Request], now_ms: int) -> End | None:
    """Return how a run ends that waits and was superseded or cancelled, or is late; None when it goes on waiting."""
    if admission.newer is not None:
        return _superseded(admission.newer), None, None
    for request in requests:
        if request.kind == "cancel":
            body = orjson.loads(request.body)
            fact = f.ExecutionCancelled(body.get("cause", "request"), body.get("reason"))
            return fact, body.get("principal"), request.number
    if state.facts.due_at is not None and state.facts.due_at <= now_ms:
        return f.ExecutionCancelled("deadline"), None, None
    return None


async def _end(
    journal: Journal, fact: f.ExecutionCancelled, principal: str | None = None, consumes: int | None = None
) -> None:
    about = {"principal": principal} if principal else {}
    journal.commit("EXECUTION_CANCELLED", fact, about, consumes=consumes)
    await journal.barrier()
