"""Deleting from the store in memory: the part of `MemoryStorage` that is an `EndedIndex` and an `EventTrim`."""

from __future__ import annotations

from collections.abc import Sequence

from loom.core.ids import ExecutionId
from loom.spi import deleting
from loom.spi.deleting import LogStand
from loom.spi.event_store import ExecutionRow, Head
from loom.spi.event_trim import Below, Deleted, Kept, Link
from loom.spi.memory_lines import Kept as KeptLines
from loom.spi.memory_logs import Log, Logs


class MemoryTrim:
    """An `EndedIndex` and an `EventTrim`; what is deleted cannot be found again by anything that the store has."""

    _kept: Logs
    _standing: KeptLines

    async def ended(
        self, *, before: int, after: tuple[int, str] = (0, ""), limit: int = 1000
    ) -> Sequence[ExecutionRow]:
        """Return the first links of chains that have ended, the longest begun first; see `EndedIndex.ended`."""
        found = sorted(
            (log.index.started_at, log.execution_id) for log in self._kept.by_id.values() if self._is_over(log, before)
        )
        now = self._kept.clock.now_ms()
        wanted = [name for at, name in found if at < before and (at, name) > after][:limit]
        return [self._kept.row(self._kept.by_id[name], now) for name in wanted]

    async def below(self, chains: Sequence[ExecutionId]) -> Sequence[Below]:
        """Return the children and the forks of *chains*; see `EndedIndex.below`."""
        wanted, now, found = set(chains), self._kept.clock.now_ms(), list[Below]()
        for log in [log for log in self._kept.by_id.values() if log.index.link == 1]:
            tip, source = self._kept.tip(log.index.chain) or log, self._source(log)
            above = {log.index.parent, source.index.chain if source is not None else ""} & wanted
            found += [Below(ExecutionId(each), self._kept.row(tip, now)) for each in sorted(above)]
        return found

    async def links(self, chains: Sequence[ExecutionId]) -> Sequence[Link]:
        """Return every link of *chains*."""
        wanted = set(chains)
        links = [log for log in self._kept.by_id.values() if log.index.chain in wanted]
        return [Link(ExecutionId(log.index.chain), _head(log)) for log in links]

    async def delete(self, families: Sequence[Sequence[Head]], *, dry_run: bool = False) -> Sequence[Deleted | Kept]:
        """Delete whole families; see `EventTrim.delete`."""
        refusals = deleting.kept(families, self._concerned(families), self._placed())
        for head in () if dry_run else deleting.gone(families, refusals):
            self._kept.forget(self._kept.by_id[head.execution_id])
            self._standing.entries.pop(head.execution_id, None)
        return deleting.results(families, refusals)

    def _is_over(self, log: Log, before: int) -> bool:
        """Whether *log* begins a chain that has ended before, and is a child or a fork of nobody who is there."""
        tip = self._kept.tip(log.index.chain)
        begins = log.index.link == 1 and log.index.ended and log.index.parent not in self._kept.by_id
        return (
            begins
            and self._source(log) is None
            and tip is not None
            and tip.index.ended
            and tip.index.updated_at < before
        )

    def _concerned(self, families: Sequence[Sequence[Head]]) -> list[LogStand]:
        names = set(deleting.named(families))
        concerned = {log.execution_id: log for name in names if (log := self._kept.by_id.get(name))}
        for log in self._kept.by_id.values():
            if self._stand(log).names & names:
                concerned[log.execution_id] = log
        stands = [self._stand(log) for log in concerned.values()]
        above = (self._kept.by_id.get(ExecutionId(name)) for name in deleting.named_by(stands))
        return stands + [self._stand(log) for log in above if log is not None]

    def _stand(self, log: Log) -> LogStand:
        index, called, source = log.index, log.called_at is not None, self._source(log)
        relatives = (index.chain, index.parent, source.execution_id if source is not None else "")
        return LogStand(*_head(log), index.ended, bool(log.driver), called, *relatives)

    def _source(self, log: Log) -> Log | None:
        """Return what *log* is a fork of, None when it is none or that is gone."""
        return None if log.source is None else self._kept.life(log.source.execution_id, log.source.incarnation)

    def _placed(self) -> set[str]:
        tips = {run: self._kept.tip(run) for run in self._standing.entries}
        waiting = [run for run, tip in tips.items() if tip is None or not tip.index.ended]
        return {newer for run in waiting if (newer := self._standing.entries[run].newer) is not None}


def _head(log: Log) -> Head:
    return Head(log.execution_id, log.incarnation, log.length)
