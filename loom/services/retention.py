"""The retention pass: it deletes what ended long enough ago, family by family, and leaves room for those who work meanwhile.

It runs when somebody calls it, and holds nothing from one transaction to the next: wherever it is cut off, each family is there
whole or gone whole, and the next pass goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.core.retention import PinPredicate
from loom.services import expiry
from loom.services.archiving import archive_log, refuse_itself
from loom.services.expiry import Candidate, Family, Tally
from loom.services.pinning import pinned_among
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import ExecutionRow, Storage
from loom.spi.event_trim import EndedIndex, EventTrim
from loom.spi.schedule_store import ScheduleCursor, ScheduleStore

PAGE: Final = 500
REST_MAX_S: Final = 0.25
"""A pass rests after each transaction for as long as that took, and no longer than this."""


class RetentionNotPossible(LoomError):
    """The store deletes nothing."""

    code = "retention-not-possible"
    hint = "Use loom.sqlite_storage(), loom.postgres_storage(), or a store that is an EventTrim and an EndedIndex too."

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"the store deletes nothing ({store})")


@runtime_checkable
class Trimmed(Storage, EndedIndex, EventTrim, Protocol):
    """A store that tells what has ended, and deletes it."""


class Retention:
    """One pass over a store, by the store's clock. It can be asked to stop; then it ends between two transactions.

    A family stays of which *pins* name one, by the id of any of its links. What goes is copied to the *archive* before, if one is
    given.
    """

    def __init__(
        self,
        store: Storage,
        *,
        ttl_ms: int,
        dry_run: bool = False,
        runs_max: int | None = None,
        pins: PinPredicate | None = None,
        archive: ArchiveStore | None = None,
    ) -> None:
        if not isinstance(store, Trimmed):
            raise RetentionNotPossible(store=store.url)
        self._store, self._pins, self._archive = store, pins, archive
        self._ttl_ms, self._dry_run, self._runs_max = ttl_ms, dry_run, runs_max
        self._is_stopped = False
        self.tally = Tally()
        self.before = 0
        """Until when a run must have ended to be deleted: ms since the epoch, by the store's clock."""

    def stop(self) -> None:
        """End the pass after the transaction that is under way."""
        self._is_stopped = True

    async def run(self, *, told: Callable[[Tally], None] = lambda tally: None) -> Tally:
        """Delete what ended before the TTL, the longest begun first, and return what became of all that has ended.

        *told* is called after each transaction. A dry run deletes nothing, and returns what would become of it now.

        Raises:
            ArchiveConflict: the archive has something else in the place of what was to go.
            ArchiveIsTheStore: nothing was deleted.
            InvalidDeclaration: the pins gave no names.
            StoreError: each family is there whole, or gone whole.
        """
        if self._archive is not None:
            await refuse_itself(self._store, self._archive)
        self.before = before = await self._store.now_ms() - self._ttl_ms
        after = (-1, "")
        while not self._is_over() and (page := await self._store.ended(before=before, after=after, limit=PAGE)):
            after = (page[-1].index.started_at, page[-1].execution_id)
            left = None if self._runs_max is None else self._runs_max - self.tally.runs
            for batch in expiry.batches(await self._families(page, before), runs_max=left):
                if self._is_over():
                    break
                await self._delete(batch)
                told(self.tally)
        return self.tally

    def _is_over(self) -> bool:
        return self._is_stopped or (self._runs_max is not None and self.tally.runs >= self._runs_max)

    async def _families(self, page: Sequence[ExecutionRow], before: int) -> list[Family]:
        """Return the families of *page* that may go, and count those that may not."""
        candidates = [Candidate(row) for row in page]
        await self._descend(candidates)
        cursors = {schedule: await self._cursor(schedule) for schedule in sorted(expiry.schedules_of(candidates))}
        going: list[Candidate] = []
        for candidate in candidates:
            why = expiry.why_kept(candidate, before=before, cursors=cursors)
            if why is None:
                going.append(candidate)
            else:
                self.tally.kept[why] += 1
        chains = [chain for candidate in going for chain in candidate.chains]
        return await self._unpinned(expiry.families(going, await self._store.links(chains) if chains else ()))

    async def _unpinned(self, families: Sequence[Family]) -> list[Family]:
        """Return *families* but for those that are pinned, which are counted."""
        if self._pins is None or not families:
            return list(families)
        names = [head.execution_id for family in families for head in family.heads]
        pinned = await pinned_among(self._pins.pinned_runs, names)
        going = [family for family in families if not any(head.execution_id in pinned for head in family.heads)]
        if stay := len(families) - len(going):
            self.tally.kept["pinned"] += stay
        return going

    async def _descend(self, candidates: Sequence[Candidate]) -> None:
        """Find what is below *candidates*, a generation at a time; what is there twice, as a child and as a fork, once."""
        level = known = {ExecutionId(each.root.index.chain): each for each in candidates}
        while level:
            found = {ExecutionId(row.index.chain): (level[of], row) for of, row in await self._store.below(list(level))}
            level = {chain: candidate for chain, (candidate, _) in found.items() if chain not in known}
            known = known | level
            for chain, candidate in level.items():
                candidate.below.append(found[chain][1])

    async def _cursor(self, schedule: str) -> ScheduleCursor | None:
        store = self._store
        return await store.schedule_cursor(schedule) if isinstance(store, ScheduleStore) else None

    async def _delete(self, batch: Sequence[Family]) -> None:
        if self._archive is not None and not self._dry_run:
            for head in (head for family in batch for head in family.heads):
                await archive_log(
                    self._store, self._archive, head
                )  # one that has moved on since is not deleted, either
        loop = asyncio.get_running_loop()
        began = loop.time()
        results = await self._store.delete([family.heads for family in batch], dry_run=self._dry_run)
        for family, result in zip(batch, results, strict=True):
            self.tally.note(family, result)
        await asyncio.sleep(0 if self._dry_run else min(loop.time() - began, REST_MAX_S))
