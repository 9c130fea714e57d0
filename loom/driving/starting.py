"""How an execution begins: its first fact, checked before anything is written, and its id."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loom import values
from loom.core import facts as f
from loom.core.envelope import NO_METADATA
from loom.core.errors import InvalidDeclaration
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, execution_id
from loom.core.links import chosen_id
from loom.core.missing import MISSING
from loom.core.outcome import Outcome
from loom.core.state import empty_state
from loom.driving.admission import Waiting
from loom.driving.driver import Driver, manner
from loom.driving.errors import ExecutionAlreadyExists, ExecutionNotFound
from loom.driving.family import Birth
from loom.driving.inputs import encoded_input
from loom.driving.loading import load
from loom.driving.terms import deduped_id
from loom.kernel.fold import RULES
from loom.kernel.journal import Journal
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import ExecutionQuery


class Begun(NamedTuple):
    """A run that was started: the journal to drive it with, or what it is *waiting* for before it begins."""

    journal: Journal
    waiting: Waiting | None


class Starting:
    """Begins executions."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def fact(self, flow: Flow[Any, Any], input: Any, attributes: Mapping[str, Any] | None) -> f.ExecutionStarted:
        """Return the fact that *flow* was started with *input* (`MISSING`: none).

        Raises:
            InvalidPayload, NotSerializable: it does not take that.
        """
        encoded = encoded_input(flow, self._driver.hints_of(flow)[0], input)
        return f.ExecutionStarted(
            flow=flow.id,
            version=flow.version,
            fingerprint=self._driver.fingerprint_of(flow),
            seed=self._driver.token(16),
            rules=dict(RULES),
            input=None if encoded is MISSING else encoded,
            defaulted=True if encoded is MISSING and flow.takes_input else None,
            attributes={key: values.encode(value) for key, value in attributes.items()} if attributes else None,
        )

    def encoded_input(self, flow: Flow[Any, Any], input: Any) -> Any:
        """Return *input* as it stands on the log of a run of *flow*, None where there is none.

        Raises:
            InvalidPayload, NotSerializable: the flow does not take it.
        """
        encoded = encoded_input(flow, self._driver.hints_of(flow)[0], input)
        return None if encoded is MISSING else encoded

    def made_up_id(self, flow: str) -> ExecutionId:
        """Return an id that nobody has."""
        token = base64.b32encode(self._driver.around.entropy.token(10)).decode("ascii").lower()
        return ExecutionId(f"{flow[:150]}-{token[:12]}")

    def id_of(self, flow: Flow[Any, Any], fact: f.ExecutionStarted, id: str | None) -> ExecutionId | None:
        """Return the id that was chosen for a run, by whoever starts it or by what it is for; None: any will do.

        Raises:
            InvalidId, InvalidPayload, InvalidDeclaration: it cannot be used, what the run is for is not said, or both are.
        """
        if flow.starts is None or flow.starts.dedupe is None:
            return chosen_id(execution_id(id)) if id is not None else None
        if id is not None:
            hint = f"Leave the id off; or leave dedupe off the flow, and give ids made of {flow.starts.dedupe}."
            raise InvalidDeclaration(f"runs of {flow.id} are named by their {flow.starts.dedupe}, not {id}", hint=hint)
        return deduped_id(flow, fact.input, flow.starts.dedupe)

    async def _begun_before(self, flow: Flow[Any, Any], run_id: ExecutionId | None) -> Outcome[Any] | None:
        """Return where the run stands that was started for the same thing; None when there is none, or any number may be.

        Raises:
            ExecutionAlreadyExists: the id of such a run is that of another flow's.
        """
        if run_id is None or flow.starts is None or flow.starts.dedupe is None:
            return None
        rows = await self._driver.around.storage.find(ExecutionQuery(chain=run_id, tips=True, limit=1))
        if not rows:
            return None
        if rows[0].index.flow != flow.id:
            raise ExecutionAlreadyExists(execution_id=run_id)
        try:
            state, row, _ = await load(self._driver.around.storage, rows[0].execution_id)
        except ExecutionNotFound:  # it was deleted meanwhile, so there is none
            return None
        if state.is_terminal:
            return self._driver.outcome(state, flow)
        return Outcome(execution_id=row.execution_id, status="accepted", length=state.length, driver=row.driver)

    async def begin(
        self,
        flow: Flow[Any, Any],
        fact: f.ExecutionStarted,
        run_id: ExecutionId,
        *,
        is_chosen: bool,
        principal: str | None,
        drives: bool,
        durably: bool,
    ) -> Begun | Outcome[Any]:
        """Write the start of a run; it is parked where it may not begin yet, or is for a worker and *drives* is false.

        Return where an earlier run stands instead, with nothing written, if it was started for the same thing.

        Raises:
            ExecutionAlreadyExists: the id is taken; known only if the start is *durably* there on return.
        """
        durably = durably or is_chosen
        if flow.starts is None:
            return await self._begun(run_id, fact, principal, drives=drives, durably=durably)
        chosen = run_id if is_chosen else None
        if before := await self._begun_before(flow, chosen):
            return before
        waiting = await self._driver.admissions.join(flow, run_id, fact, begins=drives)
        durably = durably or waiting is not None
        try:
            return await self._begun(run_id, fact, principal, waiting=waiting, drives=drives, durably=durably)
        except ExecutionAlreadyExists:
            if before := await self._begun_before(flow, chosen):
                return before
            raise

    async def _begun(
        self,
        run_id: ExecutionId,
        fact: f.ExecutionStarted,
        principal: str | None,
        *,
        waiting: Waiting | None = None,
        drives: bool,
        durably: bool,
    ) -> Begun:
        journal = self._driver.journal(empty_state(run_id), None, drives=drives and waiting is None)
        journal.commit("EXECUTION_STARTED", fact, {"principal": principal} if principal else NO_METADATA)
        if waiting is not None:
            journal.commit("EXECUTION_SUSPENDED", waiting.fact)
        elif not drives:
            journal.commit("EXECUTION_SUSPENDED", f.ExecutionSuspended(wake_at=journal.state.at))
        if durably:
            await self._durable(journal)
        return Begun(journal, waiting)

    async def _durable(self, journal: Journal) -> None:
        """Have a start on disk. Whoever finds it there is to find it held already: it is driven next."""
        run_id = journal.state.execution_id
        hold = self._driver.tenure.hold(run_id) if journal.state.status == "running" else None
        try:
            await self._driver.taken(journal)
        except BaseException as error:
            if hold is not None:
                self._driver.tenure.drop(hold)
            if isinstance(error, SequenceConflict):
                raise ExecutionAlreadyExists(execution_id=run_id) from error
            raise

    async def bear(
        self, birth: Birth, *, principal: str | None, linger_s: float, started: Callable[[], None]
    ) -> Outcome[Any] | None:
        """Begin the child that `loom.spawn` asks for, and drive it until it ends or parks; *started* once it is on disk.

        None: it was in a line when it was started, and may begin by now.

        Raises:
            ExecutionAlreadyExists: its id is taken; nothing ran.
            InvalidDeclaration: runs of its flow are named by what they are for, and a child is named by its parent.
        """
        wished, resources = manner(principal, linger_s, is_start=True), await self._driver.open()
        fact = self.fact(birth.flow, birth.input, None)._replace(parent=dict(birth.parent))
        lines, flow, waiting = self._driver.admissions, birth.flow, None
        if flow.starts is not None and flow.starts.dedupe is not None:
            self.id_of(flow, fact, birth.run_id)
        if flow.starts is not None:
            waiting = await lines.join(flow, birth.run_id, fact, begins=True)
        begun = await self._begun(birth.run_id, fact, wished.principal, waiting=waiting, drives=True, durably=True)
        started()
        if waiting is None:
            return await self._driver.take_up(begun.journal, flow, wished, resources)
        state = begun.journal.state
        return None if await lines.parked(flow, state, waiting) else self._driver.outcome(state, flow)
