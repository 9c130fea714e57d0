"""What is read, each in one statement, so that it sees one committed state and holds nothing afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.searching import condition, denies_attribute
from loom.plugins.postgres.writing import key_text
from loom.spi.event_store import EventRecord, ExecutionQuery, ExecutionRow, Head, LanePlace, Request
from loom.spi.tables import AFTER_EVERY_ID, SEQUENCE_END, execution_row
from loom.spi.where import Where
from loom.spi.where_tables import Sql

if TYPE_CHECKING:
    from loom.plugins.postgres.session import Raw

_PAGE_EVENTS: Final = 10_000
"""So many events a page looks at, at most: the sizes of those to come are not all added up for every page."""

# The page ends with the event that takes it past its size. Where that is has to be looked for only if all of it is too much.
_NEXT: Final = f"""
    SELECT * FROM loom.events
    WHERE run = (SELECT run FROM loom.executions WHERE id = $1) AND sequence >= $2 AND sequence < $3
    ORDER BY sequence LIMIT {_PAGE_EVENTS}
"""  # noqa: S608  # our own text, here and below
_EVENTS: Final = f"""
    SELECT sequence, type, at, payload, coalesce(metadata, '') FROM ({_NEXT}) AS next
    WHERE CASE WHEN (SELECT coalesce(sum(octet_length(payload)), 0) FROM ({_NEXT}) AS next) <= $4 THEN true
          ELSE sequence <= (
              SELECT min(sequence) FROM (
                  SELECT sequence, sum(octet_length(payload)) OVER (ORDER BY sequence ROWS UNBOUNDED PRECEDING) AS size
                  FROM ({_NEXT}) AS next
              ) AS sized WHERE size > $4) END
    ORDER BY sequence
"""  # noqa: S608
_HEAD: Final = "SELECT id, run, length FROM loom.executions WHERE id = $1"
_IDS: Final = "SELECT id FROM loom.executions WHERE id > $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT $4"
_LANES: Final = """
    SELECT asked.place, r.number, r.kind, r.key, r.at, r.body
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked(id, run, above, place)
    JOIN loom.executions AS e ON e.run = asked.run AND e.id = asked.id
    JOIN loom.requests AS r ON r.run = asked.run AND NOT r.consumed AND r.number > asked.above
    ORDER BY asked.place, r.number
"""
_NEWS: Final = """
    SELECT asked.place
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked(id, run, above, place)
    WHERE EXISTS (SELECT FROM loom.requests AS r WHERE r.run = asked.run AND NOT r.consumed AND r.number > asked.above)
          AND EXISTS (SELECT FROM loom.executions AS e WHERE e.run = asked.run AND e.id = asked.id)
"""
_record: Final = partial(tuple.__new__, EventRecord)
"""Makes an event of a row, without the frame that a call of the class is: a log has many."""

COLUMNS: Final = """
    e.id, e.run, e.length, e.flow, e.status, e.started_at, e.updated_at, e.wake_at, e.gates, e.attributes,
    coalesce(e.chain, e.id), e.link, coalesce(e.parent, ''), e.ended,
    coalesce(e.driver, ''), greatest(0, e.leased_until - loom.clock_ms($1)), e.released,
    EXISTS (SELECT FROM loom.requests AS r
            WHERE r.run = CASE WHEN e.chain IS NULL THEN e.run
                          ELSE (SELECT b.run FROM loom.executions AS b WHERE b.id = e.chain) END
              AND r.key <> '' AND r.key = convert_to(CASE e.link WHEN 1 THEN '' ELSE e.link || ':' END || 'cancel', 'UTF8')),
    e.ended_at
"""
"""The columns of a row of the index, of the executions `e`, at the time `$1` (NULL: the server's)."""

WIDTH: Final = 19
"""How many `COLUMNS` there are."""

_ROWS: Final = f"SELECT {COLUMNS} FROM loom.executions AS e "  # noqa: S608
_OF_CHAIN: Final = "((e.id = ? AND e.chain IS NULL) OR e.chain = ?)"
_LAST_LINK: Final = """NOT EXISTS (
    SELECT FROM loom.executions AS later WHERE later.chain = coalesce(e.chain, e.id) AND later.link > e.link
)"""
_ORDER: Final = "ORDER BY e.started_at DESC, e.id DESC"
_PLANNED: Final = """
    SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)
"""
"""Compiling a search takes longer than it saves: what the server thinks of how many rows there are is a guess."""

NEWEST: Final = 500
"""So many runs are looked at one by one, the newest, before all are."""


async def events(
    raw: Raw, execution_id: str, *, start: int, stop: int | None, limit_bytes: int
) -> Sequence[EventRecord]:
    """Return one page of a log; see `EventStore.read`."""
    end = SEQUENCE_END if stop is None else stop
    return list(map(_record, await raw.fetch(_EVENTS, execution_id, start, end, limit_bytes)))


async def head(raw: Raw, execution_id: str) -> Head | None:
    """Return where the log stands."""
    row = await raw.fetchrow(_HEAD, execution_id)
    return Head(ExecutionId(row[0]), Incarnation(row[1]), row[2]) if row else None


async def ids(raw: Raw, *, after: str, prefix: str, limit: int) -> Sequence[ExecutionId]:
    """Return ids by code point order."""
    return [ExecutionId(row[0]) for row in await raw.fetch(_IDS, after, prefix, prefix + AFTER_EVERY_ID, limit)]


async def lanes(raw: Raw, asked: Sequence[LanePlace]) -> Sequence[Sequence[Request]]:
    """Return the requests that no append has consumed, of each lane that is *asked* for."""
    found: list[list[Request]] = [[] for _ in asked]
    for place, number, kind, key, at, body in await raw.fetch(
        _LANES, *(list(column) for column in zip(*asked, strict=True))
    ):
        found[place - 1].append(Request(number, kind, key_text(key), at, body))
    return found


async def news(raw: Raw, places: Sequence[LanePlace]) -> Sequence[bool]:
    """Tell for each place in a lane whether a request after it is pending."""
    found = {row[0] for row in await raw.fetch(_NEWS, *(list(column) for column in zip(*places, strict=True)))}
    return [number in found for number in range(1, len(places) + 1)]


async def rows(raw: Raw, asked: Sequence[ExecutionId], *, now: int | None) -> Sequence[ExecutionRow | None]:
    """Return the index row of each execution, with its lease at *now* (ms since the epoch, None: the server's time)."""
    found = [execution_row(row) for row in await raw.fetch(_ROWS + "WHERE e.id = ANY ($2::text[])", now, asked)]
    by_id = {row.execution_id: row for row in found}
    return [by_id.get(each) for each in asked]


async def find(raw: Raw, query: ExecutionQuery, *, now: int | None) -> Sequence[ExecutionRow]:
    """Return the matching rows, newest first."""
    if query.where is None:
        return [execution_row(found) for found in await raw.fetch(*_newest(query, now))]
    # How many runs are like that decides how they are best looked for: the plan has to be made for the values.
    async with raw.transaction(readonly=True):
        await raw.execute(_PLANNED)
        return [execution_row(found) for found in await _searched(raw, query, query.where, now)]


async def _searched(raw: Raw, query: ExecutionQuery, where: Where, now: int | None) -> Sequence[Any]:
    """Return the rows that are as *where* says.

    The server knows well how many runs have an attribute like that, and badly how many have none: it hopes for a page of them among the
    newest, and looks for the attribute of one run after the other to the last. So there it looks so among the newest, and then by sets.
    """
    if not denies_attribute(where):
        return await raw.fetch(*_newest(query, now, condition(where, by_sets=True)))
    found = await raw.fetch(*_near(query, where, now))
    return found if len(found) >= query.limit else await raw.fetch(*_far(query, where, now))


def _newest(query: ExecutionQuery, now: int | None, *conditions: Sql) -> Sequence[Any]:
    given: list[object] = [now]
    told = _where([*_tests(query), *conditions, *_tips(query)], given)
    return f"{_ROWS}{told}{_page(query, given)}", *given


def _near(query: ExecutionQuery, where: Where, now: int | None) -> Sequence[Any]:
    """Return the statement that looks among the newest runs, at each by itself, and its values."""
    given: list[object] = [now]
    newest = f"SELECT * FROM loom.executions AS e {_where(_tests(query), given)}{_ORDER} LIMIT {NEWEST}"  # noqa: S608
    told = _where([condition(where), *_tips(query)], given)
    return f"SELECT {COLUMNS} FROM ({newest}) AS e {told}{_page(query, given)}", *given  # noqa: S608


def _far(query: ExecutionQuery, where: Where, now: int | None) -> Sequence[Any]:
    """Return the statement that looks among all runs, by sets, and its values: what is found are few, as it seems.

    At first no more than their numbers are looked for: those lie together.
    """
    given: list[object] = [now]
    found = f"SELECT e.run FROM loom.executions AS e {_where([*_tests(query), condition(where, by_sets=True)], given)}"  # noqa: S608
    told = f"{_where(_tips(query), given)}{_page(query, given)}"
    page = f"SELECT e.run FROM found JOIN loom.executions AS e USING (run) {told}"  # noqa: S608
    return f"WITH found AS MATERIALIZED ({found}) {_ROWS}WHERE e.run = ANY (ARRAY({page})) {_ORDER}", *given


def _where(conditions: Sequence[Sql], given: list[object]) -> str:
    """Return the conditions as a clause with their parameters numbered, which are put after those that are *given*."""
    return f"WHERE {' AND '.join(_numbered(each, given) for each in conditions)} " if conditions else ""


def _page(query: ExecutionQuery, given: list[object]) -> str:
    given.append(query.limit)
    return f"{_ORDER} LIMIT ${len(given)}"


def _numbered(sql: Sql, given: list[object]) -> str:
    first, *rest = sql.text.split("?") if sql.values else [sql.text]
    text = first + "".join(f"${number}{part}" for number, part in enumerate(rest, start=len(given) + 1))
    given += sql.values
    return text


def _tips(query: ExecutionQuery) -> list[Sql]:
    return [Sql(_LAST_LINK)] if query.tips else []


def _tests(query: ExecutionQuery) -> list[Sql]:
    """Return the conditions that *query* names by themselves, but whether a run is the last link."""
    wanted: list[tuple[bool, str, tuple[object, ...]]] = [
        (bool(query.statuses), "e.status = ANY (?::text[])", (list(query.statuses),)),
        (bool(query.flows), "e.flow = ANY (?::text[])", (list(query.flows),)),
        (query.with_gates, "e.gates <> '[]'", ()),
        (query.due_before is not None, "e.wake_at < ?", (query.due_before,)),
        (bool(query.chain), _OF_CHAIN, (query.chain, query.chain)),
        (bool(query.parent), "e.parent = ?", (query.parent,)),
        (query.ended is not None, "e.ended = ?", (query.ended,)),
        (query.before is not None, "(e.started_at, e.id) < (?, ?)", query.before or ()),
    ]
    return [Sql(text, values) for is_wanted, text, values in wanted if is_wanted]
