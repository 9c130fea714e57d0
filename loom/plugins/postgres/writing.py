"""A batch on its way to the function `loom.append`, and what comes back: plain values, in one round trip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from loom.core.ids import Incarnation
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    Conflict,
    LaneClosed,
    LaneNotEmpty,
    Leased,
    RequestTaken,
    Send,
)

APPEND: Final = "SELECT loom.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
INSERT: Final = "SELECT loom.insert_request($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"


def key_bytes(text: str) -> bytes:
    """Return a name that people give as the database keeps it; text of Postgres holds neither NUL nor lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def key_text(key: bytes) -> str:
    """Return the name that *key* was made of."""
    return key.decode("utf-8", "surrogatepass")


def append_arguments(batch: Sequence[Append], now_ms: int | None, channel: str | None) -> list[Any]:
    """Return the arguments of `APPEND` for *batch*."""
    items = [list(_links(item)) for item in batch]
    times = Counter(link.execution_id for links in items for link in links)
    rows: list[dict[str, object]] = []
    events: list[tuple[object, ...]] = []
    sends: list[tuple[object, ...]] = []
    for links in items:
        first = len(rows) + 1  # Postgres counts from 1
        for link in links:
            rows.append(_row(link, many=times[link.execution_id] > 1))
            events += [(len(rows), *event) for event in link.events]
        for link in reversed(links):
            sends += [(first, *_send(send)) for send in link.sends]
    return [orjson.dumps(rows).decode(), now_ms, channel, *_columns(events, 6), *_columns(sends, 6)]


def results_of(found: str) -> list[AppendResult]:
    """Return the results that `APPEND` gave."""
    return [_result(*each) for each in orjson.loads(found)]


def inserted(found: str | None) -> int | RequestTaken | LaneClosed | None:
    """Return the result that `INSERT` gave."""
    match orjson.loads(found) if found is not None else None:
        case ["number", int(number)]:
            return number
        case ["taken", int(number), bool(pending)]:
            return RequestTaken(number, pending)
        case ["closed", str(status)]:
            return LaneClosed(status)
        case _:
            return None


def _links(item: Append) -> Iterator[Append]:
    following: Append | None = item
    while following is not None:
        yield following
        following = following.follows


def _row(item: Append, *, many: bool) -> dict[str, object]:
    index, lease = item.index, item.lease
    return {
        "id": item.execution_id,
        "run": item.incarnation,
        "expected": item.expected,
        "name": item.append_id,
        "size": len(item.events),
        "flow": index.flow,
        "status": index.status,
        "started_at": index.started_at,
        "updated_at": index.updated_at,
        "wake_at": index.wake_at,
        "gates": index.gates,
        "attributes": index.attributes,
        "chain": index.chain,
        "link": index.link,
        "parent": index.parent,
        "ended": index.ended,
        "lane": item.lane.incarnation if item.lane else None,
        "consumes": item.consumes,
        "above": item.lane_above,
        "kinds": item.lane_kinds,
        "driver": lease.driver if lease else None,
        "lease_ms": lease.ms if lease else 0,
        "takes_over": item.takes_over,
        "gone": item.gone,
        "follows": item.follows is not None,
        "many": many,
    }


def _send(send: Send) -> tuple[object, ...]:
    return send.chain, send.kind, key_bytes(send.key), send.at, send.body


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _result(kind: str, *values: Any) -> AppendResult:
    match kind:
        case "appended":
            return Appended(Incarnation(values[0]), values[1])
        case "conflict":
            return Conflict(values[0], None if values[1] is None else Incarnation(values[1]))
        case "leased":
            return Leased(*values)
        case _:
            return LaneNotEmpty(*values)
