"""One event as a line of JSON, as `loom logs --json` prints it, and back: to the very bytes that the store had.

Nearly every payload is what orjson makes of itself. One that is not (a store keeps bytes, and may have been written by others) stands
beside the readable form, in base64.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from loom.spi.event_store import EventRecord

_EXACT: Final = "exact"


def line_of(run_id: str, record: EventRecord) -> bytes:
    """Return *record* as a line, with its end."""
    head: dict[str, Any] = {
        "execution_id": run_id,
        "sequence": record.sequence,
        "type": record.type,
        "at": record.at,
        "payload": _readable(record.payload),
    }
    if record.metadata:
        head["metadata"] = _readable(record.metadata)
    texts = {"payload": record.payload, "metadata": record.metadata}
    exact = {
        name: base64.b64encode(text).decode()
        for name, text in texts.items()
        if name in head and orjson.dumps(head[name]) != text
    }
    return orjson.dumps({**head, _EXACT: exact} if exact else head) + b"\n"


def _readable(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def record_of(run_id: str, line: bytes) -> EventRecord:
    """Return the event that a line is, which has to be one of *run_id*.

    Raises:
        ValueError, LookupError, TypeError: it is none.
    """
    whole: dict[str, Any] = orjson.loads(line)
    sequence, type_, at = whole["sequence"], whole["type"], whole["at"]
    if whole["execution_id"] != run_id or not (type(sequence) is int and type(type_) is str and type(at) is int):
        raise ValueError("it is no event of that run")
    exact = whole.get(_EXACT, {})
    texts = {
        name: base64.b64decode(exact[name], validate=True) if name in exact else orjson.dumps(whole[name])
        for name in ("payload", "metadata")
        if name in whole or name in exact
    }
    return EventRecord(sequence, type_, at, texts["payload"], texts.get("metadata", b""))
