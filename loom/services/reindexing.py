"""Rebuilding the index rows of runs from their logs, of which they are caches (kernel rule 2.3).

What a row should be is a pure function of the log. It is put in place by an append of no events, which the store takes only where the
log still stands as it was read; a run that somebody drives is left to its driver, whose next append writes the row anyhow.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound
from loom.driving.loading import loaded
from loom.spi.event_store import Append, Appended, ExecutionRow, IndexRow, Storage
from loom.spi.indexing import gates_text, index_row

LINKS: Final = frozenset({"chain", "link", "parent"})
"""What an append never changes: a row that is wrong about these is told of, and stays as it is."""

_JSON: Final = frozenset({"gates", "attributes"})
_TRIES: Final = 5

Became: TypeAlias = Literal["right", "repaired", "wrong", "driven", "unreadable"]
"""What became of a row: it was right; it was wrong, and is right now; it is wrong, and stays so; its run is driven; or its log cannot be
read by this code.
"""


class Difference(NamedTuple):
    """What a field of a row *was*, and what it *should* be by the log."""

    was: Any
    should: Any


class Reindexed(NamedTuple):
    """What became of the *row* of a run, and what differed in it from what it *should* be; *error* says why that is not known."""

    execution_id: ExecutionId
    became: Became
    differences: Mapping[str, Difference] = MappingProxyType({})
    error: LoomError | None = None
    row: ExecutionRow | None = None
    should: IndexRow | None = None


def differences(row: IndexRow, should: IndexRow) -> dict[str, Difference]:
    """Return the fields in which *row* is not as it *should* be, by their names. JSON is compared by what it says."""
    found = {}
    for each in fields(IndexRow):
        was, right = getattr(row, each.name), getattr(should, each.name)
        if was != right and not (each.name in _JSON and _parsed(was) == _parsed(right)):
            found[each.name] = Difference(was, right)
    return found


def _parsed(text: str) -> object:
    try:
        return orjson.loads(text)
    except ValueError:
        return text


async def reindexed(storage: Storage, execution_id: ExecutionId, *, dry_run: bool = False) -> Reindexed | None:
    """Compare the index row of a run with its log, and put it right unless it is a *dry_run*. None: it is not there.

    Raises:
        StoreError: the row is as it was, or right.
    """
    seen = await _compared(storage, execution_id)
    for _ in range(_TRIES):
        if seen is None or dry_run or seen.became != "wrong" or seen.differences.keys() <= LINKS:
            return seen
        if await _put(storage, seen):
            return seen._replace(became="wrong" if seen.differences.keys() & LINKS else "repaired")
        seen = await _compared(storage, execution_id)
    return seen


async def _compared(storage: Storage, execution_id: ExecutionId) -> Reindexed | None:
    row = await storage.row(execution_id)
    if row is None:
        return None
    try:
        state = (await loaded(storage, row)).state
    except ExecutionNotFound:
        return None
    except LoomError as error:
        return Reindexed(execution_id, "unreadable", error=error)
    should = index_row(state, gates_text(state))
    found = differences(row.index, should)
    became: Became = "right" if not found else "driven" if row.driver and row.lease_ms > 0 else "wrong"
    return Reindexed(execution_id, became, found, row=row, should=should)


async def _put(storage: Storage, seen: Reindexed) -> bool:
    """Write the row unless the log has moved on; return whether it is written."""
    row = seen.row
    assert row is not None
    assert seen.should is not None
    item = Append(
        execution_id=row.execution_id,
        incarnation=row.incarnation,
        expected=row.length,
        append_id=f"reindex-{uuid.uuid4().hex}",
        events=(),
        index=seen.should,
    )
    [result] = await storage.append([item])
    return isinstance(result, Appended)
