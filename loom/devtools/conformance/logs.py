"""The logs that the kits write: small items, one after the other."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Final

from loom.core.ids import ExecutionId
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    EventRecord,
    ExecutionRow,
    IndexRow,
    LaneClosed,
    RequestTaken,
    Storage,
)

REFUND: Final = ExecutionId("refund-42")
CLAIM: Final = ExecutionId("claim-7")
NOBODY: Final = ExecutionId("nobody")
INDEX: Final = IndexRow(
    flow="refund",
    status="running",
    started_at=1_000,
    updated_at=1_000,
    wake_at=None,
    gates="[]",
    attributes="{}",
    chain="",
)
"""The row of each item of the kits; an empty chain is made that of the execution itself."""


def events(*payloads: bytes, start: int = 0) -> list[EventRecord]:
    """Return events with these payloads, numbered from *start*."""
    return [
        EventRecord(start + place, "STEP_COMPLETED", 1_700_000_000_000 + place, payload, b"")
        for place, payload in enumerate(payloads)
    ]


def first(execution_id: ExecutionId, *payloads: bytes, index: IndexRow = INDEX) -> Append:
    """Return an item that begins a log."""
    return Append(
        execution_id=execution_id,
        incarnation=None,
        expected=0,
        append_id=uuid.uuid4().hex,
        events=events(*(payloads or (b"{}",))),
        index=in_chain(execution_id, index),
    )


def in_chain(execution_id: ExecutionId, index: IndexRow) -> IndexRow:
    """Return *index* as that of a first link, unless it says of which chain it is."""
    return replace(index, chain=index.chain or execution_id)


def after(head: Appended, execution_id: ExecutionId, *payloads: bytes, **fields: Any) -> Append:
    """Return an item that goes on from *head*; *fields* replace those of the item."""
    item = Append(
        execution_id=execution_id,
        incarnation=head.incarnation,
        expected=head.length,
        append_id=uuid.uuid4().hex,
        events=events(*payloads, start=head.length),
        index=INDEX,
    )
    item = replace(item, **fields)
    return replace(item, index=in_chain(execution_id, item.index))


async def appended(store: Storage, item: Append) -> Appended:
    """Append *item*, which must succeed."""
    [result] = await store.append([item])
    assert isinstance(result, Appended), result
    return result


async def payloads(store: Storage, execution_id: ExecutionId) -> list[bytes]:
    """Return the payloads of a whole log, read page by page."""
    found: list[EventRecord] = []
    while page := await store.read(execution_id, start=len(found)):
        found += page
    assert [record.sequence for record in found] == list(range(len(found)))
    return [record.payload for record in found]


async def insert(
    store: Storage, head: Appended, *, execution_id: ExecutionId = REFUND, key: str = "", body: bytes = b"{}"
) -> int | RequestTaken | LaneClosed | None:
    """Insert an answer into the lane of that life."""
    return await store.insert(execution_id, head.incarnation, kind="answer", key=key, at=9, body=body)


async def row_of(store: Storage, execution_id: ExecutionId) -> ExecutionRow:
    """Return the index row of an execution, which must be there."""
    row = await store.row(execution_id)
    assert row is not None
    return row


def ok(result: AppendResult) -> Appended:
    """Return *result*, which must be a success."""
    assert isinstance(result, Appended), result
    return result
