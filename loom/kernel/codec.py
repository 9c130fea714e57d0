"""Between an event as the store keeps it (bytes) and as the kernel reads it (facts)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.facts import UserEvent
from loom.core.ids import ExecutionId
from loom.core.upcasting import upcast
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import EVENTS, USER_PREFIX
from loom.spi.event_store import EventRecord

EXTRA = "extra"
"""Metadata key for payload fields that this code does not know: they are kept, not dropped."""


def payload_json(payload: Any) -> Any:
    """Return the JSON object of a fact; fields that are None are left out."""
    if not isinstance(payload, tuple):
        return payload
    fact: Any = payload
    if None in fact:
        return {name: value for name, value in zip(fact._fields, fact, strict=True) if value is not None}
    return fact._asdict()


def encode_event(event: EventEnvelope[Any]) -> EventRecord:
    """Return *event* as the store keeps it."""
    _, sequence, type_, at, fact, metadata = event
    payload = payload_json(fact)
    if EXTRA in metadata:
        payload = payload | metadata[EXTRA]
        metadata = {key: value for key, value in metadata.items() if key != EXTRA}
    known = EVENTS.get(type_)
    if known is not None and known.version > 1:
        metadata = {**metadata, "v": known.version}
    about = orjson.dumps(metadata) if metadata else b""
    return tuple.__new__(EventRecord, (sequence, type_, at, orjson.dumps(payload), about))


def decode_events(execution_id: ExecutionId, records: Iterable[EventRecord]) -> list[EventEnvelope[Any]]:
    """Return *records* as facts. What this code does not know keeps its plain JSON as payload (see `newest`).

    Raises:
        LogCorrupt: a record is no JSON, or lacks what its type needs.
    """
    events: list[EventEnvelope[Any]] = []
    add, loads, types, new = events.append, orjson.loads, EVENTS, tuple.__new__
    for sequence, type_, at, payload, metadata in records:
        row = types.get(type_)
        if row is not None and not metadata and row.version == 1:
            try:
                fact = row.payload(**loads(payload))
                add(new(EventEnvelope, (execution_id, sequence, type_, at, fact, NO_METADATA)))
                continue
            except (TypeError, ValueError):
                pass  # looked at more closely below
        add(_unusual(execution_id, EventRecord(sequence, type_, at, payload, metadata)))
    return events


def _unusual(execution_id: ExecutionId, record: EventRecord) -> EventEnvelope[Any]:
    try:
        fields: Any = orjson.loads(record.payload) if type(record.type) is str else None
        about: Any = orjson.loads(record.metadata) if record.metadata else NO_METADATA
    except ValueError as error:
        raise LogCorrupt(execution_id=execution_id, sequence=record.sequence, why=str(error)) from error
    if not (isinstance(fields, dict) and isinstance(about, dict) and isinstance(about.get("v", 1), int)):
        raise LogCorrupt(execution_id=execution_id, sequence=record.sequence, why="it is no object, or has no type")
    row = EVENTS.get(record.type)
    payload_type: Any = row.payload if row else UserEvent if record.type.startswith(USER_PREFIX) else None
    newer = row is not None and about.get("v", 1) > row.version
    if payload_type is None or newer:
        return EventEnvelope(execution_id, record.sequence, record.type, record.at, fields, about)
    try:
        if row is not None and row.version > 1:
            fields = upcast(record.type, fields, written=about.get("v", 1), present=row.version)
        known = {key: value for key, value in fields.items() if key in payload_type._fields}
        payload = payload_type(**known)
    except (TypeError, AttributeError, LookupError) as error:
        raise LogCorrupt(execution_id=execution_id, sequence=record.sequence, why=str(error)) from error
    if len(known) < len(fields):
        about = {**about, EXTRA: {key: value for key, value in fields.items() if key not in known}}
    return EventEnvelope(execution_id, record.sequence, record.type, record.at, payload, about)
