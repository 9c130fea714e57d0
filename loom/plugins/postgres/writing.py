"""A batch on its way to the function `loom.append`, and what comes back: plain values, in one round trip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    Conflict,
    IndexRow,
    LaneClosed,
    LaneNotEmpty,
    Leased,
    RequestTaken,
    Send,
)
from loom.spi.where import searchable

_PLAIN: Final = (
    *(
        "text",
        "bigint",
        "bigint",
        "text",
        "bigint",
        "text",
        "text",
        "bigint",
        "bigint",
        "bigint",
        "text",
        "text",
        "text",
    ),
    *("boolean", "text", "bigint", "text", "text", "bigint", "text"),
)
_EVENT: Final = ("int", "bigint", "text", "bigint", "bytea", "bytea")
_SEND: Final = ("int", "text", "text", "bytea", "bigint", "bytea")
"""What the elements of the columns are that `loom.append_sets` takes: of plain items, of events, and of what is sent."""


def _given(types: Sequence[str], start: int) -> Iterator[str]:
    """Yield the parameters of columns from *start* on. Those of bytes are arrays of the driver, the others are text."""
    for number, type_ in enumerate(types, start):
        yield f"${number}" if type_ == "bytea" else f"${number}::text::{type_}[]"


_GIVEN: Final = ["$1", "$2", *_given(_PLAIN, 3), *_given(_EVENT, 23), "$29", *_given(_SEND, 30)]
APPEND: Final = f"SELECT placed, others FROM loom.append_sets({', '.join(_GIVEN)})"  # noqa: S608  # our own text
INSERT: Final = "SELECT loom.insert_request($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"


def key_bytes(text: str) -> bytes:
    """Return a name that people give as the database keeps it; text of Postgres holds neither NUL nor lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def key_text(key: bytes) -> str:
    """Return the name that *key* was made of."""
    return key.decode("utf-8", "surrogatepass")


class Batch:
    """A batch as `APPEND` takes it: plain items in columns, the others as rows of JSON, the events of both in columns.

    An item is plain that neither looks at a lane nor sends, has an execution to itself and is followed by none; nor is
    anything sent to its chain with it. Those that go on come first, in the order of their ids, which is that of locks; then
    those that begin, in the order of the batch, which is that of their incarnations: none is plain unless all are.
    """

    def __init__(self, batch: Sequence[Append]) -> None:
        self._items = batch
        self._links = [list(_links(item)) for item in batch]
        self._times = Counter(link.execution_id for links in self._links for link in links)
        goes_on, begins, others = self._sorted()
        self._plain = [*sorted(goes_on, key=lambda place: batch[place].execution_id), *begins]
        self._others = sorted(others)

    def _sorted(self) -> tuple[list[int], list[int], list[int]]:
        """Return the places of plain items that go on, of those that begin, and of the others."""
        told = {send.chain for links in self._links for link in links for send in link.sends}
        goes_on: list[int] = []
        begins: list[int] = []
        others: list[int] = []
        for place, links in enumerate(self._links):
            item = links[0]
            if len(links) > 1 or self._times[item.execution_id] > 1 or not _is_plain(item, told):
                others.append(place)
            else:
                (begins if item.incarnation is None else goes_on).append(place)
        if any(link.incarnation is None for place in others for link in self._links[place]):
            return goes_on, [], others + begins
        return goes_on, begins, others

    def arguments(self, now_ms: int | None, channel: str | None) -> list[Any]:
        """Return the arguments of `APPEND`."""
        plain = [self._items[place] for place in self._plain]
        events = [(place, *event) for place, item in enumerate(plain, 1) for event in item.events]
        rows: list[dict[str, object]] = []
        sends: list[tuple[object, ...]] = []
        for links in (self._links[place] for place in self._others):
            first = len(rows) + 1  # Postgres counts from 1
            for link in links:
                rows.append(_row(link, many=self._times[link.execution_id] > 1))
                events += [(len(plain) + len(rows), *event) for event in link.events]
            for link in reversed(links):
                sends += [(first, *_send(send)) for send in link.sends]
        columns = (
            _columns([_plain_row(item) for item in plain], _PLAIN),
            _columns(events, _EVENT),
            [orjson.dumps(rows).decode() if rows else None],
            _columns(sends, _SEND),
        )
        return [now_ms, channel, *chain.from_iterable(columns)]

    def results(self, placed: Sequence[int | None] | None, others: str | None) -> list[AppendResult]:
        """Return the results, in the order of the batch, that `APPEND` gave."""
        results: dict[int, AppendResult] = {}
        left = iter(orjson.loads(others) if others is not None else ())
        for place, run in zip(self._plain, placed or (), strict=True):
            item = self._items[place]
            if run is None:
                results[place] = _result(*next(left))
            else:
                results[place] = Appended(Incarnation(run), item.expected + len(item.events))
        for place in self._others:
            results[place] = _result(*next(left))
        return [results[place] for place in range(len(self._items))]


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


def _is_plain(item: Append, told: Container[ExecutionId]) -> bool:
    """Tell whether *item* by itself is plain, when there are sends to the chains that are *told*."""
    return (
        item.lane_above is None
        and bool(item.events)
        and not item.consumes
        and not item.sends
        and item.execution_id not in told
        and item.index.chain not in told
    )


def _plain_row(item: Append) -> tuple[object, ...]:
    index, lease = item.index, item.lease
    return (
        item.execution_id,
        item.incarnation,
        item.expected,
        item.append_id,
        len(item.events),
        index.flow,
        index.status,
        index.started_at,
        index.updated_at,
        index.wake_at,
        index.gates,
        index.attributes,
        None if index.attributes == "{}" else orjson.dumps(_pairs(index)).decode(),
        index.ended,
        index.chain,
        index.link,
        index.parent,
        lease.driver if lease else None,
        lease.ms if lease else 0,
        item.gone if item.takes_over else None,
    )


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
        "pairs": _pairs(index),
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


def _pairs(index: IndexRow) -> list[tuple[str, object]]:
    """Return the attributes that can be searched for."""
    return list(searchable(index.attributes).items())


def _send(send: Send) -> tuple[object, ...]:
    return send.chain, send.kind, key_bytes(send.key), send.at, send.body


def _columns(rows: Sequence[Sequence[object]], types: Sequence[str]) -> list[object]:
    if not rows:
        return [[] if type_ == "bytea" else "{}" for type_ in types]
    columns = zip(*rows, strict=True)
    return [
        list(column) if type_ == "bytea" else array_text(column) for column, type_ in zip(columns, types, strict=True)
    ]


def array_text(column: Sequence[object]) -> str:
    """Return a column as Postgres writes an array. The driver would look at each element for what it might be, which takes far longer.

    It is written like one of JSON, but in braces, and a backslash takes the next character as it is.
    """
    text = orjson.dumps(column).decode()
    if "\\" in text:
        text = f"[{','.join(_element(each) for each in column)}]"
    return f"{{{text[1:-1]}}}"


def _element(value: object) -> str:
    if not isinstance(value, str):
        return orjson.dumps(value).decode()
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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
