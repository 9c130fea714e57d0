"""Facts that need no body: a topic is held, somebody was denied, the outcome of a decision is known at last.

On a run that somebody drives such a fact is a request, which the driver journals; on any other it is appended, on the
condition that the log is as it was read. Where the one turns into the other meanwhile, it is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from loom import values
from loom.core import facts as f
from loom.core.ids import Incarnation
from loom.core.state import ExecutionState
from loom.driving.addressing import decision_meant
from loom.driving.driver import Driver
from loom.driving.errors import ExecutionNotFound
from loom.driving.loading import load_link
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import RequestKind

Load: TypeAlias = Callable[[str], Awaitable[tuple[ExecutionState, Incarnation]]]
"""Returns the state of an execution, and which life of it that is."""

Note: TypeAlias = f.TopicHeld | f.TopicReleased | f.ExecutionDenied | f.OutcomeAttached

_KINDS: Final[dict[type[Any], tuple[RequestKind, str]]] = {
    f.TopicHeld: ("hold", "TOPIC_HELD"),
    f.TopicReleased: ("release", "TOPIC_RELEASED"),
    f.ExecutionDenied: ("denial", "EXECUTION_DENIED"),
    f.OutcomeAttached: ("outcome", "OUTCOME_ATTACHED"),
}


class Annotating:
    """Puts notes on logs."""

    def __init__(self, driver: Driver, load: Load) -> None:
        self._driver, self._load = driver, load

    async def put(
        self,
        id: str,
        note_of: Callable[[ExecutionState], Note | None],
        principal: str | None,
        *,
        load: Load | None = None,
    ) -> ExecutionState:
        """Have the fact that *note_of* makes of the state recorded; None: nothing is to be. Return the state decided by.

        *load* returns the state that is meant by *id*, where that is another than is usual.

        Raises:
            ExecutionNotFound, SequenceConflict, StoreError, and what *note_of* raises: nothing was written.
        """
        while True:
            state, incarnation = await (load or self._load)(id)
            note = note_of(state)
            if note is None:
                return state
            driven = state.status == "running" or state.execution_id in self._driver.drives
            put = self._ask if driven and not state.is_terminal else self._append
            if await put(state, incarnation, note, principal):
                return state
            await asyncio.sleep(0)  # the run has moved on

    async def attach(self, id: str, decision: str, known: Any, *, note: str | None, principal: str | None) -> None:
        """Record what came of the decision that *decision* names: in the link that *id* names, or the last of its chain.

        Raises:
            DecisionNotFound, and as `put`: nothing was written.
        """

        async def link(id: str) -> tuple[ExecutionState, Incarnation]:
            loaded = await load_link(self._driver.around.storage, id)
            return loaded.state, loaded.row.incarnation

        def fact_of(state: ExecutionState) -> f.OutcomeAttached:
            return f.OutcomeAttached(decision_meant(state, decision), known, note)

        await self.put(id, fact_of, principal, load=link)

    async def _append(self, state: ExecutionState, incarnation: Incarnation, note: Note, principal: str | None) -> bool:
        journal = self._driver.journal(state, incarnation, drives=False)
        journal.commit(_KINDS[type(note)][1], note, {"principal": principal} if principal else {})
        try:
            await journal.barrier()
        except SequenceConflict:
            return False
        return True

    async def _ask(self, state: ExecutionState, incarnation: Incarnation, note: Note, principal: str | None) -> bool:
        run_id, around = state.execution_id, self._driver.around
        body = values.dumps({**note._asdict(), "principal": principal})
        lane = await self._driver.lane(run_id, incarnation)
        await around.before_insert(lane, body)
        number = await around.storage.insert(
            *lane,
            kind=_KINDS[type(note)][0],
            key="",
            at=around.clock.now_ms(),
            body=body,
            while_open=True,
        )
        if number is None:
            raise ExecutionNotFound(execution_id=run_id, store=around.storage.url)
        self._driver.knock(run_id)
        return isinstance(number, int)
