"""What is asked for at once goes to the disk at once: few transactions, few statements, and nobody pays for another."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import CLAIM, INDEX, NOBODY, REFUND, after, appended, first, insert, ok, payloads
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.thread import SqliteThread
from loom.spi.errors import StoreCorrupt, StoreUnavailable
from loom.spi.event_store import NOBODY as GIVEN_UP
from loom.spi.event_store import Appended, Conflict, LaneNotEmpty, RequestTaken

HELD_S = 0.3


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    store = SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


async def test_inserts_of_one_turn_of_the_loop_are_one_transaction(store: SqliteStorage) -> None:
    refund = await appended(store, first(REFUND))
    statements = await _trace(store)

    results = await asyncio.gather(*(insert(store, refund) for _ in range(20)))

    assert results == list(range(1, 21))
    assert statements.count("COMMIT") == 1


async def test_an_append_waits_for_nobody_and_takes_along_who_waits(store: SqliteStorage) -> None:
    refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
    statements = await _trace(store)

    results = await asyncio.gather(
        insert(store, refund), store.append([after(claim, CLAIM, b"on")]), store.append([first(NOBODY)])
    )

    assert list[object](results[:2]) == [1, [claim._replace(length=2)]]
    assert statements.count("COMMIT") == 2


async def test_logs_that_only_go_on_are_written_without_being_asked_for(store: SqliteStorage) -> None:
    refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
    parked = replace(after(claim, CLAIM, b"parked", lane_above=0), lease=GIVEN_UP)
    statements = await _trace(store)

    results = await store.append([after(refund, REFUND, b"on"), parked])

    assert results == [refund._replace(length=2), claim._replace(length=2)]
    assert not any("sqlite_sequence" in each for each in statements)


async def test_a_row_that_another_has_written_meanwhile_is_not_taken_for_known(
    store: SqliteStorage, tmp_path: Path
) -> None:
    head = await appended(store, after(await appended(store, first(REFUND)), REFUND, b"known"))
    other, mine = SqliteStorage(tmp_path / "loom.db"), after(head, REFUND, b"mine")
    head = await appended(other, after(head, REFUND, b"of another", index=replace(INDEX, attributes='{"urgent":true}')))
    await other.close()

    [refused] = await store.append([mine])
    await appended(store, last := after(head, REFUND, b"last"))

    assert refused == Conflict(head.length, head.incarnation)
    row = await store.row(REFUND)
    assert row is not None
    assert row.index == last.index


async def test_where_one_of_them_does_not_fit_nothing_is_left_of_the_try(store: SqliteStorage) -> None:
    refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
    await insert(store, refund)
    parked = replace(after(refund, REFUND, b"parked", lane_above=0), lease=GIVEN_UP)

    results = await store.append([after(claim, CLAIM, b"on"), parked, first(NOBODY)])

    assert results[:2] == [claim._replace(length=2), LaneNotEmpty(1)]
    assert (await payloads(store, CLAIM))[1:] == [b"on"]
    assert len(await payloads(store, REFUND)) == 1


async def test_within_a_transaction_each_write_sees_the_ones_before(store: SqliteStorage) -> None:
    refund = await appended(store, first(REFUND))
    statements = await _trace(store)
    rival = _holds_the_lock(store)
    ahead = asyncio.ensure_future(store.append([first(CLAIM)]))
    await _until_begun(statements)

    asking: list[Coroutine[Any, Any, object]] = [
        insert(store, refund, key="gate:1"),
        store.append([after(refund, REFUND, b"parked", lane_above=0)]),
        store.append([after(refund, REFUND, b"answered", consumes=[1])]),
        insert(store, refund, key="gate:1"),
        store.append([after(refund._replace(length=2), REFUND, b"parked", lane_above=0)]),
        store.append([after(refund, REFUND, b"late")]),
    ]
    together = asyncio.gather(*asking)
    await asyncio.sleep(0)
    rival.close()
    await ahead

    assert await together == [
        1,
        [LaneNotEmpty(1)],
        [refund._replace(length=2)],
        RequestTaken(1, pending=False),
        [refund._replace(length=3)],
        [Conflict(3, refund.incarnation)],
    ]
    assert await payloads(store, REFUND) == [b"{}", b"answered", b"parked"]
    assert statements.count("COMMIT") == 2


async def test_writes_that_come_while_one_is_under_way_are_the_next_transaction(store: SqliteStorage) -> None:
    refund = await appended(store, first(REFUND))
    statements = await _trace(store)
    rival = _holds_the_lock(store)
    ahead = asyncio.ensure_future(insert(store, refund))
    await _until_begun(statements)

    behind = [asyncio.ensure_future(_later(turns, insert(store, refund))) for turns in range(10)]
    await asyncio.wait([asyncio.ensure_future(_later(12, _nothing()))])
    rival.close()

    assert await asyncio.gather(ahead, *behind) == list(range(1, 12))
    assert statements.count("COMMIT") == 2


async def test_a_transaction_has_hardly_more_statements_for_many_runs_than_for_few(store: SqliteStorage) -> None:
    statements = await _trace(store)
    counts = []

    for size in (2, 100):
        names = [ExecutionId(f"{size}-{number:03}") for number in range(size)]
        heads = [ok(result) for result in await store.append([first(name) for name in names])]
        await asyncio.gather(*(insert(store, head, execution_id=name) for name, head in zip(names, heads, strict=True)))
        await store.append([_parks(head, name) for name, head in zip(names, heads, strict=True)])
        counts.append(len(statements))
        statements.clear()

    assert counts[1] - counts[0] == 4  # a hundred events go into three statements, twice


async def test_a_lane_that_has_grown_long_makes_nothing_slower(store: SqliteStorage) -> None:
    head = await appended(store, first(REFUND))
    efforts = []

    for size in (10, 1000):
        numbers = await asyncio.gather(*(insert(store, head, key=f"{size}:{place}") for place in range(size)))
        head = await appended(store, after(head, REFUND, consumes=numbers))
        instructions = [
            await _counted(store._sessions.current().writer()),
            await _counted(store._sessions.current().reader()),
        ]
        last = await insert(store, head, key=f"{size}:last")
        assert len(await store.pending(REFUND, head.incarnation)) == 1
        head = await appended(store, after(head, REFUND, b"on", lane_above=0, consumes=[last]))
        efforts.append([len(counted) for counted in instructions])

    assert all(many < 1.2 * few for few, many in zip(*efforts, strict=True))


async def test_who_gives_up_before_the_write_begins_has_written_nothing(store: SqliteStorage) -> None:
    refund = await appended(store, first(REFUND))
    asking = [asyncio.ensure_future(insert(store, refund, body=b"%d" % number)) for number in range(3)]
    await asyncio.sleep(0)

    asking[1].cancel()

    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [1, asyncio.CancelledError, 2]
    assert [request.body for request in await store.pending(REFUND, refund.incarnation)] == [b"0", b"2"]


async def test_who_gives_up_while_it_is_written_takes_nobody_along(store: SqliteStorage) -> None:
    refund = await appended(store, first(REFUND))
    statements = await _trace(store)
    rival = _holds_the_lock(store)
    asking = [asyncio.ensure_future(insert(store, refund, key="k")) for _ in range(3)]
    await _until_begun(statements)

    asking[0].cancel()
    rival.close()

    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    taken = RequestTaken(1, pending=True)
    assert [type(outcomes[0]), *outcomes[1:]] == [asyncio.CancelledError, taken, taken]


async def test_a_damaged_log_fails_alone(store: SqliteStorage) -> None:
    refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
    _execute(store, "UPDATE executions SET length = 0 WHERE id = ?", REFUND)

    outcomes = await asyncio.gather(
        insert(store, claim, execution_id=CLAIM),
        store.append([after(refund._replace(length=0), REFUND, b"again")]),
        store.append([after(claim, CLAIM, b"on")]),
        return_exceptions=True,
    )

    assert outcomes[0] == 1
    assert isinstance(outcomes[1], StoreCorrupt)
    assert outcomes[2] == [Appended(claim.incarnation, 2)]
    assert len(await store.pending(CLAIM, claim.incarnation)) == 1


async def test_a_lock_is_waited_for_once_for_all_and_told_to_each(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db", busy_timeout_s=HELD_S)
    refund = await appended(store, first(REFUND))
    rival = _holds_the_lock(store)
    begun = time.monotonic()

    outcomes = await asyncio.gather(*(insert(store, refund) for _ in range(10)), return_exceptions=True)

    assert time.monotonic() - begun < 5 * HELD_S
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    assert len({id(outcome) for outcome in outcomes}) == 10
    assert all(isinstance(outcome, BaseException) and outcome.__cause__ for outcome in outcomes)
    rival.close()
    assert await insert(store, refund) == 1
    await store.close()


async def test_a_read_that_cannot_be_done_fails_alone(store: SqliteStorage) -> None:
    await appended(store, first(REFUND, b"1"))

    outcomes = await asyncio.gather(
        store.head(REFUND), store.read(REFUND, start=1 << 70), payloads(store, REFUND), return_exceptions=True
    )

    assert isinstance(outcomes[1], OverflowError)
    assert outcomes[2] == [b"1"]


async def test_closing_waits_for_what_was_asked(store: SqliteStorage) -> None:
    refund = await appended(store, first(REFUND))

    asking = [asyncio.ensure_future(insert(store, refund)) for _ in range(3)]
    await asyncio.sleep(0)
    await store.close()

    assert await asyncio.gather(*asking) == [1, 2, 3]
    assert len(await store.pending(REFUND, refund.incarnation)) == 3


def test_what_is_written_while_the_loop_ends_is_on_disk(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")

    async def last_words() -> None:
        begun = await appended(store, first(REFUND, b"1"))
        try:
            await store.append([after(begun, REFUND, b"2")])
            await asyncio.Event().wait()
        finally:
            await appended(store, after(Appended(begun.incarnation, 2), REFUND, b"3"))

    async def script() -> None:
        task = asyncio.ensure_future(last_words())
        while len(await payloads(store, REFUND)) < 2:
            assert not task.done()

    asyncio.run(script())

    assert asyncio.run(payloads(store, REFUND)) == [b"1", b"2", b"3"]


async def test_a_failed_checkpoint_fails_no_append(store: SqliteStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_handles(*_: object) -> None:
        raise OSError(24, "Too many open files")

    begun = await appended(store, first(REFUND, b"1"))
    monkeypatch.setattr("loom.plugins.sqlite.wal.WalGuard.committed", no_handles)

    assert (await appended(store, after(begun, REFUND, b"2"))).length == 2


async def _trace(store: SqliteStorage) -> list[str]:
    """Return the list that the statements of the writer are added to from now on."""
    statements: list[str] = []
    writer = await store._sessions.current().writer()
    await writer.run(lambda database: database.raw.set_trace_callback(statements.append))
    return statements


async def _counted(thread: Awaitable[SqliteThread[Any, Any]]) -> list[None]:
    """Return a list that grows with each instruction that SQLite carries out on *thread* from now on."""
    counted: list[None] = []
    await (await thread).run(lambda database: database.raw.set_progress_handler(lambda: counted.append(None), 1))
    return counted


def _holds_the_lock(store: SqliteStorage) -> sqlite3.Connection:
    """Return a connection in a write transaction, which ends when it is closed."""
    rival = sqlite3.connect(store._settings.path, isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    return rival


async def _until_begun(statements: list[str]) -> None:
    while not statements:
        await asyncio.sleep(0)


def _execute(store: SqliteStorage, statement: str, *parameters: object) -> None:
    raw = sqlite3.connect(store._settings.path, isolation_level=None)
    raw.execute(statement, parameters)
    raw.close()


def _parks(head: Appended, name: ExecutionId) -> Any:
    return after(head, name, b"parked", consumes=[1], lane_above=0)


async def _later(turns: int, work: Coroutine[Any, Any, Any]) -> Any:
    for _ in range(turns):
        await asyncio.sleep(0)
    return await work


async def _nothing() -> None:
    return
