"""Rows of read models in memory: the part of `MemoryStorage` that is a `ReadModelStore`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loom.core.ids import ExecutionId
from loom.spi.event_store import Head
from loom.spi.memory_logs import KeptRow, Log, Logs
from loom.spi.read_model_store import Behind, ModelRow, ModelRows


class MemoryModels:
    """A `ReadModelStore` that forgets everything with the object. The rows of a run go with its log."""

    _kept: Logs

    async def put_model_rows(self, model: str, version: str, rows: Sequence[ModelRow]) -> Sequence[bool]:
        """Keep rows that are newer than what is there; see `ReadModelStore.put_model_rows`."""
        return [self._put((model, version), row) for row in rows]

    def _put(self, of: tuple[str, str], row: ModelRow) -> bool:
        log = self._kept.life(row.execution_id, row.incarnation)
        if log is None or log.is_erased or not 0 <= row.sequence < log.length:
            return False
        before = log.models.get(of)
        if before is not None and before.row.sequence >= row.sequence:
            return False
        log.models[of] = KeptRow(row, before.since if before is not None else self._kept.clock.now_ms())
        return True

    async def model_rows(
        self,
        model: str,
        version: str,
        *,
        ids: Sequence[ExecutionId] | None = None,
        after: str = "",
        prefix: str = "",
        limit: int = 1000,
    ) -> Sequence[ModelRow]:
        """Return rows by id; see `ReadModelStore.model_rows`."""
        kept = (log.models.get((model, version)) for log in self._chosen(ids, after, prefix))
        return [each.row for each in kept if each is not None and each.row.body][:limit]

    async def behind(
        self, model: str, version: str, *, ids: Sequence[ExecutionId] | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Behind]:
        """Return runs whose rows lag; see `ReadModelStore.behind`."""
        found: list[Behind] = []
        for log in self._chosen(ids, after, ""):
            kept = log.models.get((model, version))
            row = kept.row if kept is not None else None
            if not log.is_erased and log.length > (row.sequence + 1 if row is not None else 0):
                found.append(Behind(Head(log.execution_id, log.incarnation, log.length), row))
        return found[:limit]

    async def models(self) -> Sequence[ModelRows]:
        """Return what has rows; see `ReadModelStore.models`."""
        found: dict[tuple[str, str], list[KeptRow]] = {}
        for log in self._kept.by_id.values():
            for of, kept in log.models.items():
                found.setdefault(of, []).append(kept)
        told = [
            ModelRows(*of, sum(1 for each in kept if each.row.body), min(each.since for each in kept))
            for of, kept in found.items()
        ]
        return sorted(told, key=lambda each: (each.model, -each.since, each.version))

    async def drop_model(self, model: str, version: str | None = None) -> int:
        """Remove all rows of a model; see `ReadModelStore.drop_model`."""
        return sum(
            bool(log.models.pop(of).row.body)
            for log in self._kept.by_id.values()
            for of in list(log.models)
            if of[0] == model and version in (None, of[1])
        )

    async def erase_model_rows(self, executions: Sequence[ExecutionId], *, dry_run: bool = False) -> int:
        """Take runs out of every model; see `ModelErasure.erase_model_rows`."""
        logs = [log for log in self._kept.by_id.values() if log.execution_id in set(executions)]
        erased = sum(bool(kept.row.body) for log in logs for kept in log.models.values())
        for log in () if dry_run else logs:
            log.models.clear()
            log.is_erased = True
        return erased

    def _chosen(self, ids: Sequence[ExecutionId] | None, after: str, prefix: str) -> Iterator[Log]:
        wanted = None if ids is None else set(ids)
        for name in list(self._kept.names):
            if name > after and name.startswith(prefix) and (wanted is None or name in wanted):
                yield self._kept.by_id[name]
