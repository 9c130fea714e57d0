"""The order of changes in memory: the part of `MemoryStorage` that is a `ChangeFeed`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import islice

from loom.spi.change_feed import PAGE_EVENTS, Change, CursorUnknown, joined
from loom.spi.feed import Wakes, follow_changes
from loom.spi.memory_logs import Logs


class MemoryChanges:
    """A `ChangeFeed`; a cursor is how many appends there were."""

    _kept: Logs
    _wakes: Wakes

    async def changed(self, after: str = "", *, limit: int = PAGE_EVENTS) -> Sequence[Change]:
        """Return the changes behind a cursor; see `ChangeFeed.changed`."""
        written = self._kept.written
        start = int(after) if after.isdecimal() else 0 if not after else -1
        if not 0 <= start <= len(written):
            raise CursorUnknown(after, store="memory:")
        changes = (Change(*each, str(at)) for at, each in enumerate(islice(written, start, None), start + 1))
        return joined(islice(filter(self._is_there, changes), limit))

    def _is_there(self, change: Change) -> bool:
        log = self._kept.by_id.get(change.execution_id)
        return (
            log is not None and log.incarnation == change.incarnation and bool(log.between(change.start, change.stop))
        )

    async def latest(self) -> str:
        """Return a cursor behind all there is."""
        return str(len(self._kept.written))

    def changes(self, after: str = "") -> AsyncIterator[Sequence[Change]]:
        """Yield pages of changes, for ever; see `ChangeFeed.changes`."""
        return follow_changes(self.changed, self._wakes, after=after)
