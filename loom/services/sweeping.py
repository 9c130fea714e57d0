"""The sweep of contents: it removes what nobody needs any more, and leaves room for those who work meanwhile.

It runs when somebody calls it. A content is judged by what is known of it, and removed only if nobody has touched it since; each goes
whole or stays whole, so a sweep may be cut off anywhere.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Final

from loom.core.ids import ContentRef, ExecutionId
from loom.core.retention import PinPredicate
from loom.services.ageing import SETTLING_MS, RunStanding, SweepTally, Verdict, cites_nothing, verdict
from loom.services.pinning import pinned_among
from loom.spi.content_store import Citation, Citer, Content, ContentStore
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage

PAGE: Final = 200
REST_MAX_S: Final = 0.25
"""A sweep rests after each page for as long as that took, and no longer than this."""

_KNOWN_MAX: Final = 20_000


class ContentSweep:
    """One sweep of *contents*, cited by the runs in *logs*. It can be asked to stop; then it ends after the page under way.

    A content stays for *ttl_ms* after its clock has started (`loom.services.ageing`), and for as long as *pins* say.
    """

    def __init__(
        self,
        contents: ContentStore,
        logs: Storage,
        *,
        ttl_ms: int,
        dry_run: bool = False,
        pins: PinPredicate | None = None,
    ) -> None:
        self._contents, self._logs, self._pins = contents, logs, pins
        self._ttl_ms, self._dry_run = ttl_ms, dry_run
        self._is_stopped = False
        self._known: OrderedDict[ExecutionId, tuple[ExecutionRow, RunStanding] | None] = OrderedDict()
        self._known_now: set[ExecutionId] = set()
        """Of which runs it was looked up for the page under way where they stand."""
        self._reopened: dict[ExecutionId, bool] = {}
        self.tally = SweepTally()
        self.before = 0
        """Until when the clock of a content must have started for it to go: ms since the epoch, by the store's clock."""

    def stop(self) -> None:
        """End the sweep after the page that is under way."""
        self._is_stopped = True

    async def run(self, *, told: Callable[[SweepTally], None] = lambda tally: None) -> SweepTally:
        """Remove what may go, by the order of addresses, and return what became of all contents; *told* is called after each page.

        A dry run removes nothing, and returns what would become of them now.

        Raises:
            InvalidDeclaration: the pins gave no names.
            StoreError: each content is there whole, or gone whole.
        """
        now = await self._contents.now_ms()
        self.before, settled = now - self._ttl_ms, now - SETTLING_MS
        after = ""
        while not self._is_stopped and (page := await self._contents.contents(after=after, limit=PAGE)):
            after, began = page[-1].ref, asyncio.get_running_loop().time()
            await self._sweep(page, settled=settled)
            told(self.tally)
            await self._rest(began)
        if not (self._is_stopped or self._dry_run):
            self.tally.tidied = await self._contents.tidy()
        return self.tally

    async def _rest(self, began: float) -> None:
        took = asyncio.get_running_loop().time() - began
        await asyncio.sleep(0 if self._dry_run else min(took, REST_MAX_S))

    async def _sweep(self, page: Sequence[Content], *, settled: int) -> None:
        self._known_now.clear()
        citations: dict[ContentRef, list[Citation]] = {content.ref: [] for content in page}
        for citation in await self._contents.citations([*citations]):
            citations[citation.ref].append(citation)
        standings = await self._standings({each.by for found in citations.values() for each in found})
        pinned = await self._pinned(citations)
        judged = []
        for content in page:
            cited = citations[content.ref]
            found = (
                Verdict("pinned") if content.ref in pinned else await self._judged(content, cited, standings, settled)
            )
            if found.by is not None and self._is_stale(
                cited
            ):  # a run may have been opened again since it was looked at
                self._forget({each.by.execution_id for each in cited})
                standings |= await self._standings({each.by for each in cited})
                found = await self._judged(content, cited, standings, settled)
            judged.append((content, found))
        going = [content for content, found in judged if found.by is not None]
        gone = [
            each for found in citations.values() for each in found if cites_nothing(each, standings, settled=settled)
        ]
        if self._dry_run:
            self.tally.note(judged, {content.ref for content in going})
        else:
            self.tally.note(judged, await self._contents.remove(going))
            await self._contents.forget(gone)
        self.tally.forgotten += len(gone)

    async def _judged(
        self, content: Content, cited: Sequence[Citation], standings: dict[Citer, RunStanding], settled: int
    ) -> Verdict:
        found = verdict(content, cited, standings, before=self.before, settled=settled)
        if not found.holders:
            return found
        for citer in found.holders:
            standings[citer] = standings[citer]._replace(is_reopened=await self._is_reopened(citer.execution_id))
        return verdict(content, cited, standings, before=self.before, settled=settled)

    async def _pinned(self, citations: dict[ContentRef, list[Citation]]) -> Collection[str]:
        """Return which contents are pinned, by themselves or with a run that cites them."""
        if self._pins is None:
            return ()
        refs = await pinned_among(self._pins.pinned_contents, [*citations])
        of_ref = {ref: {name for each in found for name in self._names(each.by)} for ref, found in citations.items()}
        names = sorted(set[ExecutionId]().union(*of_ref.values()))
        pinned = await pinned_among(self._pins.pinned_runs, names)
        return refs | {ref for ref, cited_by in of_ref.items() if cited_by & pinned}

    def _names(self, citer: Citer) -> set[ExecutionId]:
        """Return by which ids a run may be pinned that cites: its own, and that of the first link of its chain."""
        known = self._known.get(citer.execution_id)
        return {citer.execution_id} | ({ExecutionId(known[0].index.chain)} if known is not None else set())

    # -- where runs stand ------------------------------------------------------------------------------------------

    async def _standings(self, citers: Collection[Citer]) -> dict[Citer, RunStanding]:
        """Return where the runs stand that are there, in the life that cites."""
        found = {}
        for citer in citers:
            known = await self._known_as(citer.execution_id)
            if known is not None and citer.incarnation in (None, known[0].incarnation):
                found[citer] = known[1]
        return found

    async def _known_as(self, run_id: ExecutionId) -> tuple[ExecutionRow, RunStanding] | None:
        if run_id not in self._known:
            if len(self._known) >= _KNOWN_MAX:
                self._known.popitem(last=False)
            self._known_now.add(run_id)
            row = await self._logs.row(run_id)
            self._known[run_id] = None if row is None else (row, RunStanding(await self._ended_at(row)))
        return self._known[run_id]

    def _is_stale(self, cited: Sequence[Citation]) -> bool:
        """Whether it was looked up for an earlier page where one of those who cite stands."""
        return any(each.by.execution_id not in self._known_now for each in cited)

    def _forget(self, runs: set[ExecutionId]) -> None:
        for run_id in runs - self._known_now:
            self._known.pop(run_id, None)

    async def _ended_at(self, row: ExecutionRow) -> int | None:
        """Return when the chain of a run has ended; a link that went on as another has not ended before the last one."""
        if row.index.status != "continued":
            return row.index.updated_at if row.index.ended else None
        tips = await self._logs.find(ExecutionQuery(chain=row.index.chain, tips=True, limit=1))
        return tips[0].index.updated_at if tips and tips[0].index.ended else None

    async def _is_reopened(self, run_id: ExecutionId) -> bool:
        """Whether a run was opened again after an end: that stands in its log alone, and is asked where it decides."""
        if run_id not in self._reopened:
            self._reopened[run_id] = await _holds(self._logs, run_id, "EXECUTION_RETRIED")
        return self._reopened[run_id]


async def _holds(logs: Storage, run_id: ExecutionId, type_: str) -> bool:
    start = 0
    while page := await logs.read(run_id, start=start):
        if any(event.type == type_ for event in page):
            return True
        start = page[-1].sequence + 1
    return False
