"""What a worker takes up, drives and gives back: runs that are due, called for, or left behind by their driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from loom.core.errors import UnknownFlow
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.driving.driver import Driver, Manner, manner
from loom.driving.errors import TrialLeft
from loom.driving.loading import load
from loom.driving.refusing import refuse_changed
from loom.driving.simulating import is_trial
from loom.driving.standing import Standing
from loom.driving.tenure import Hold
from loom.kernel.journal import Journal
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import Append, Claim, ExecutionQuery, ExecutionRow
from loom.spi.indexing import gates_text, index_row

LOST_EVERY_S: Final = 1.0
"""How often it is looked for drivers whose process is gone; a lapsed lease needs no looking for."""
LOOKED_AT_MAX: Final = 200
"""So many runs are looked at for flows that nobody here has."""


class Claims:
    """The claims of one runtime; *has_lines* says whether runs of its flows may have to wait before they begin."""

    def __init__(self, driver: Driver, flow_of: Callable[[str], Flow[Any, Any]], *, has_lines: bool) -> None:
        self._driver, self._flow_of, self._has_lines = driver, flow_of, has_lines
        self._looked_at_s = -LOST_EVERY_S
        self._wakes: list[asyncio.Event] = []
        self._holds: dict[ExecutionId, Hold] = {}
        driver.on_called.append(self.wake)

    async def take(
        self, *, limit: int, flows: Sequence[str] | None = None, skip: Sequence[ExecutionId] = ()
    ) -> Sequence[Claim]:
        """Claim up to *limit* runs, the longest due first; they are held until they are driven or given back.

        Raises:
            StoreError: nothing is claimed, as far as is known; what is, comes free with its lease.
        """
        await self._driver.open()
        tenure, gone = self._driver.tenure, await self._gone()
        since_s = tenure.host.boottime_s()
        claims = await self._driver.around.storage.claim(
            tenure.driver,
            lease_ms=tenure.lease.ms,
            limit=limit,
            flows=flows,
            gone=gone,
            skip=skip,
            driving=list(tenure.holds),
        )
        for claim in claims:
            run_id = claim.row.execution_id
            self._holds[run_id] = tenure.hold(run_id, since_s=since_s, claim=claim)
        return claims

    async def _gone(self) -> list[str]:
        host = self._driver.around.host
        if host.boottime_s() - self._looked_at_s < LOST_EVERY_S:
            return []
        self._looked_at_s = host.boottime_s()
        return [name for name in await self._driver.around.storage.drivers() if host.is_gone(name)]

    async def drive(self, claim: Claim, *, linger_s: float) -> Outcome[Any]:
        """Drive a claimed run until it ends or parks. What this code cannot drive is left as it was.

        Raises:
            UnknownFlow, LogNewerThanCode, LogCorrupt, CodeChanged, TrialLeft, DriveStopped: it cannot be driven here, or had to stop.
            SequenceConflict: somebody else drives it; `Fenced`: somebody else took it over.
            StoreError: as `resume`.
        """
        run_id, resources = claim.row.execution_id, await self._driver.open()
        hold = self._holds.pop(run_id)
        wished = manner(None, linger_s)._replace(is_attempt=True)
        while True:
            await self._driver.given_up(run_id)  # a verb of this process has taken it up, or hands in a request
            async with self._driver.place(run_id):
                if run_id in self._driver.drives:
                    continue
                try:
                    flow = self._flow_of(claim.row.index.flow)
                    journal = await self._journal(claim, flow, wished)
                except BaseException:
                    await self._give_back(hold, claim)
                    raise
                driving = self._driver.take_up(journal, flow, wished, resources, hold=hold)
            return await driving

    async def _journal(self, claim: Claim, flow: Flow[Any, Any], wished: Manner) -> Journal:
        state, row, snapshot = await load(self._driver.around.storage, claim.row.execution_id, row=claim.row)
        if state.length != row.length or state.is_terminal:
            raise SequenceConflict(execution_id=row.execution_id, expected=row.length, actual=state.length)
        refuse_changed(self._driver, flow, state, wished)
        if claim.found == "due" and row.index.wake_at != state.facts.wake_at:
            await self._put_right(row, state)
        if claim.found == "released" and is_trial(state):
            raise TrialLeft(execution_id=row.execution_id)
        if state.status == "running" and claim.found != "due":
            left = Standing(claim.taken_from, claim.found)
            journal = await self._driver.take_over(state, row.incarnation, left, None)
        else:
            journal = self._driver.journal(state, row.incarnation, drives=True)
        self._driver.snapshotting.began_with(journal, snapshot)
        return journal

    async def _put_right(self, row: ExecutionRow, state: ExecutionState) -> None:
        """Write the row anew that had a run claimed at a time which its log does not know: it would be claimed for ever.

        It is done by an append of no events, which nothing comes of where somebody has written meanwhile.
        """
        append_id, index = f"reindex-{self._driver.token(12)}", index_row(state, gates_text(state))
        item = Append(
            execution_id=row.execution_id,
            incarnation=row.incarnation,
            expected=row.length,
            append_id=append_id,
            events=(),
            index=index,
        )
        await self._driver.around.storage.append([item])

    async def give_back(self, claim: Claim) -> None:
        """Let a claimed run go that was not driven."""
        hold = self._holds.get(claim.row.execution_id)
        if hold is not None and hold.claim is claim:
            del self._holds[hold.run_id]
            await self._give_back(hold, claim)

    async def _give_back(self, hold: Hold, claim: Claim) -> None:
        self._driver.tenure.drop(hold)
        if claim.row.index.status == "running":
            await self._driver.tenure.release(hold.run_id)
        else:
            await self._driver.tenure.leave(hold.run_id, seen=0)

    @property
    def driven(self) -> Sequence[ExecutionId]:
        """The runs that this process drives just now, whoever had it do so."""
        return [*self._driver.drives]

    async def settled(self) -> None:
        """Return once this process drives nothing: each run that it drove has ended, or waits."""
        while self._driver.drives or self._driver.family.beside:
            await self._driver.family.settled()
            await asyncio.sleep(0)

    async def agree_on_time(self) -> None:
        """Set the clock by that of the store again; see `Driver.agree_on_time`."""
        await self._driver.agree_on_time()

    async def sweep(self) -> None:
        """Give places that nobody gave since a process was killed in between; see `AdmissionStore.sweep_lines`."""
        if self._has_lines:
            await self._driver.admissions.sweep()

    async def due(self, flow: str, most: int) -> int:
        """Return how many runs of *flow* are parked, can go on by now, and have not ended: up to *most* are counted."""
        now_ms = self._driver.around.clock.now_ms()
        query = ExecutionQuery(flows=[flow], due_before=now_ms + 1, ended=False, limit=most)
        return len(await self._driver.around.storage.find(query))

    async def unknown(self) -> Sequence[str]:
        """Return flows that this app does not have, and whose runs could go on by now: of the newest runs that are due."""
        now_ms = self._driver.around.clock.now_ms()
        rows = await self._driver.around.storage.find(
            ExecutionQuery(due_before=now_ms + 1, ended=False, limit=LOOKED_AT_MAX)
        )
        return [flow for flow in sorted({row.index.flow for row in rows}) if not self._knows(flow)]

    def _knows(self, flow: str) -> bool:
        try:
            self._flow_of(flow)
        except UnknownFlow:
            return False
        return True

    def wake(self) -> bool:
        """There may be something to claim; return whether somebody looks."""
        for each in self._wakes:
            each.set()
        return bool(self._wakes)

    @contextmanager
    def waking(self) -> Iterator[asyncio.Event]:
        """Give an event that is set when this process has made something that a worker is to take up."""
        event = asyncio.Event()
        self._wakes.append(event)
        try:
            yield event
        finally:
            self._wakes.remove(event)
