"""Having a run go on: taken up where it is free, taken over where it was left, asked where somebody else drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from loom.core.errors import ExecutionTerminated, LoomError
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation, execution_id
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.driving.driver import Driver, Manner, Offered
from loom.driving.edit_fitting import unfit
from loom.driving.loading import Loaded, load
from loom.driving.refusing import refuse_changed
from loom.kernel.drive import Drive
from loom.spi.conflicts import Fenced, SequenceConflict
from loom.values import RecordUnreadable

MannerOf: TypeAlias = Callable[[ExecutionState, Incarnation], Manner]
"""How a verb wants a run driven that stands so."""


class Going:
    """Has runs go on; *flow_of* returns a flow by its id."""

    def __init__(self, driver: Driver, flow_of: Callable[[str], Flow[Any, Any]]) -> None:
        self._driver, self._flow_of = driver, flow_of

    async def answering(self, id: str, manner_of: MannerOf, plainly: Manner) -> Outcome[Any]:
        """Have the run answered; a fork that nobody has driven yet is driven first, since its gates are asked anew."""
        try:
            return await self.on(id, manner_of)
        except ForkUndriven:
            await self.on(id, lambda *_: plainly)
            return await self.on(id, manner_of)

    async def on(self, id: str, manner_of: MannerOf) -> Outcome[Any]:
        """Take up the run that waits in the store, or hand the request to the drive that this process has of it."""
        run_id, resources = execution_id(id), await self._driver.open()
        while True:
            drive = self._driver.drives.get(run_id)
            if drive is None:
                async with self._driver.place(run_id):
                    if run_id in self._driver.drives:
                        continue
                    try:
                        wished, driving = await self._taken_up(run_id, manner_of, resources)
                    except SequenceConflict:
                        return await self._driver.accepted(run_id)
                    except _GoneOn as gone_on:
                        run_id = gone_on.link
                        continue
                outcome = await self._driven(run_id, driving)
                if outcome is not None:
                    return outcome
                manner_of = _plainly(wished)
                continue
            await drive.live.wait()
            if await _stands(drive) and drive.journal.incarnation is not None:
                wished = manner_of(drive.state, drive.journal.incarnation)
                handed = await self._driver.hand_over(drive, wished)
                if handed is not None:
                    return handed
                manner_of = _plainly(wished)
            if drive.is_over:
                await self._driver.given_up(run_id)
            else:
                await asyncio.sleep(0)

    async def _taken_up(
        self, run_id: ExecutionId, manner_of: MannerOf, resources: Mapping[str, Any]
    ) -> tuple[Manner, Awaitable[Outcome[Any]]]:
        """Take the run up, or take it over, or only make the request where somebody else drives it."""
        state, row, snapshot = await self._resumable(run_id)
        if row.execution_id != run_id:
            raise _GoneOn(row.execution_id)
        wished, flow = manner_of(state, row.incarnation), self._flow_of(state.facts.flow)
        stands = self._driver.standing(state.status, row)
        if stands.is_driven:
            if wished.offer is None:
                return wished, self._driver.accepted(run_id)
            wished = wished._replace(asks_only=True)
        refuse_changed(self._driver, flow, state, wished)
        if stands.found is not None:
            journal = await self._driver.take_over(state, row.incarnation, stands, wished.principal)
        else:
            journal = self._driver.journal(state, row.incarnation, drives=not stands.is_driven)
        self._driver.snapshotting.began_with(journal, snapshot)
        return wished, self._driver.take_up(journal, flow, wished, resources)

    async def _driven(self, run_id: ExecutionId, driving: Awaitable[Outcome[Any]]) -> Outcome[Any] | None:
        """Return what came of driving; of two who take a run up at once, one does, and the other is told so.

        None where the other only noted something on the log, and nobody drives the run.
        """
        try:
            return await driving
        except RecordUnreadable as error:
            told = unfit((await load(self._driver.around.storage, run_id)).state, error)
            raise told from (None if told is error else error)
        except Fenced:
            raise
        except Offered:
            return await self._driver.accepted(run_id)
        except SequenceConflict:
            row = await self._driver.around.storage.row(run_id)
            is_free = (
                row is not None and not row.index.ended and not self._driver.standing(row.index.status, row).driver
            )
            return None if is_free else await self._driver.accepted(run_id)

    async def _resumable(self, run_id: ExecutionId) -> Loaded:
        loaded = await load(self._driver.around.storage, run_id)
        if loaded.state.is_terminal:
            status = loaded.state.status
            hint = "`loom retry` tries a failed run again." if status == "failed" else ""
            raise ExecutionTerminated(execution_id=run_id, status=status, hint=hint)
        return loaded


async def _stands(drive: Drive) -> bool:
    """Wait until all that *drive* has made of its run is on disk, and return whether it goes on.

    What is asked of a run names the events that it answers: others might have written other events in their place.
    """
    try:
        while drive.ending is None and drive.journal.durable < drive.state.length:
            await drive.journal.barrier()
    except LoomError:
        return False  # it has lost the run, or the store, and is about to end
    return drive.ending is None


class ForkUndriven(Exception):
    """A fork that nobody has driven yet is to be answered."""


class _GoneOn(Exception):
    """The run has gone on as a later *link* of its chain."""

    def __init__(self, link: ExecutionId) -> None:
        self.link = link


def _plainly(wished: Manner) -> MannerOf:
    """Return the manner of driving without a request: it was made already."""
    return lambda *_: wished._replace(offer=None)
