"""What the rows of read models have, by name: what `--where` can ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from loom.spi.errors import StoreError
from loom.spi.event_store import ExecutionQuery, Storage
from loom.spi.read_model_store import ReadModelStore
from loom.spi.where_text import Columns

LOOKED_AT: Final = 200
"""So many rows of a model are looked at for the names that they have."""


async def columns_of(storage: Storage) -> Sequence[Columns]:
    """Return what can be asked of each read model that *storage* has rows of, in those of its newest version, and close it."""
    if not isinstance(storage, ReadModelStore):
        return ()
    try:
        found: dict[str, Columns] = {}
        for kept in await storage.models():
            if kept.rows and kept.model not in found:
                rows = await storage.model_rows(kept.model, kept.version, limit=LOOKED_AT)
                names = frozenset(name for row in rows for name in _names(row.body))
                found[kept.model] = Columns(kept.model, kept.version, names)
        return [*found.values()]
    except StoreError:
        return ()  # whoever lists the runs is told
    finally:
        await storage.close()


async def rowless(storage: Storage, model: str, version: str, runs: ExecutionQuery) -> int:
    """Return how many of *runs* have no row of that *version* of *model*, and close *storage*."""
    try:
        ids = [row.execution_id for row in await storage.find(runs)]
        if not isinstance(storage, ReadModelStore) or not ids:
            return 0
        rows = await storage.model_rows(model, version, ids=ids, limit=len(ids))
        return len(ids) - len(rows)
    finally:
        await storage.close()


def _names(body: bytes) -> Sequence[str]:
    try:
        row = orjson.loads(body)
    except ValueError:
        return ()
    return [*row] if isinstance(row, dict) else ()
