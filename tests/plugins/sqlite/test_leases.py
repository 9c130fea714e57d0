"""Leases in SQLite: what they cost, how they are found, and that no two processes are given one run."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import CLAIM, INDEX, REFUND, after, appended, first, insert, payloads, row_of
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.event_store import NOBODY, Conflict, ExecutionQuery, Lane, LeaseChange, Send
from tests.plugins.sqlite.processes import finish, start

CLAIMER = Path(__file__).with_name("claimer.py")
MINE = LeaseChange("mine", 15_000)
DUE = 1_000
PAGE_BYTES = 4096 + 24
"""A page in the write-ahead log, with its head."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    store = SqliteStorage(tmp_path / "loom.db", clock=VirtualClock(), checkpoint_bytes=1 << 30)
    await store.open()
    yield store
    await store.close()


@pytest.mark.proves("SUS-06")
async def test_two_processes_that_claim_share_what_is_due_and_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    store = SqliteStorage(path)
    names = [f"run-{number:04}" for number in range(DUE)]
    rows = [replace(INDEX, status="suspended", wake_at=number) for number in range(DUE)]
    await store.append([first(ExecutionId(name), index=row) for name, row in zip(names, rows, strict=True)])

    claimers = [start(CLAIMER, path, driver, stdin=subprocess.PIPE) for driver in ("one", "two")]
    for process in claimers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in claimers:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    claimed = [finish(process) for process in claimers]

    assert all(claimed), "both took part"
    assert sorted(claimed[0] + claimed[1]) == names
    assert claimed == [sorted(each) for each in claimed], "the longest due came first"
    held = [row.execution_id for row in await store.find(ExecutionQuery(limit=DUE)) if row.driver == "one"]
    assert sorted(held) == claimed[0]
    assert list(await store.drivers()) == ["one", "two"]
    await store.close()


@pytest.mark.proves("KER-15")
async def test_who_knows_an_earlier_life_of_an_id_writes_nothing_into_the_next(store: SqliteStorage) -> None:
    old = await appended(store, replace(first(REFUND, b"old"), lease=MINE))
    await insert(store, old)
    for table in ("events", "requests", "executions"):
        _execute(store, f"DELETE FROM {table}")
    new = await appended(store, first(REFUND, b"new"))
    claim = await appended(store, first(CLAIM))
    await insert(store, new)

    [late] = await store.append([after(old, REFUND, b"late", lease=MINE)])
    await appended(store, after(claim, CLAIM, b"on", lane=Lane(REFUND, old.incarnation), consumes=[1]))

    assert late == Conflict(1, new.incarnation)
    assert await insert(store, old) is None
    assert list(await store.renew("mine", [REFUND], lease_ms=1)) == [REFUND]
    assert await payloads(store, REFUND) == [b"new"]
    assert len(await store.pending(REFUND, new.incarnation)) == 1


async def test_a_step_of_a_run_that_is_held_and_called_writes_three_pages(store: SqliteStorage) -> None:
    """Those of the log, of its index, and of the head: none for the lease."""
    head = await appended(store, replace(first(REFUND), lease=MINE))
    await insert(store, head)
    before = _wal_bytes(store)

    await appended(store, after(head, REFUND, b"started", b"done", index=replace(INDEX, updated_at=7)))

    assert _wal_bytes(store) - before == 3 * PAGE_BYTES


async def test_a_run_writes_two_pages_more_for_its_lease_from_start_to_end(store: SqliteStorage) -> None:
    pages = [await _pages_of_a_life(store, ExecutionId(name), lease) for name, lease in (("a", None), ("b", MINE))]

    assert pages[1] - pages[0] == 2, "one when it is taken and one when it is given up"


async def test_what_is_claimed_called_and_listed_is_found_by_an_index(store: SqliteStorage) -> None:
    statements: list[str] = []
    writer, reader = await store._sessions.current().writer(), await store._sessions.current().reader()
    await writer.run(lambda database: database.raw.set_trace_callback(statements.append))
    await reader.run(lambda database: database.raw.set_trace_callback(statements.append))

    await _every_use(store)

    plans = [plan for statement in statements for plan in _plan(store, statement)]
    looked_at = [plan for plan in plans if "executions" in plan or "requests" in plan]
    assert [plan for plan in looked_at if plan.startswith("SCAN")] == []
    assert {plan.split("USING ")[1].split(" (")[0].removeprefix("COVERING ") for plan in looked_at} >= {
        "INDEX executions_due",
        "INDEX executions_called",
        "INDEX executions_held",
        "INDEX executions_links",
        "INDEX executions_children",
    }


async def test_a_child_and_a_chain_are_listed_in_order_without_sorting(store: SqliteStorage) -> None:
    children = "SELECT * FROM executions WHERE parent = 'p' ORDER BY started_at DESC, id DESC LIMIT 100"
    tip = "SELECT run FROM executions WHERE chain = 'c' ORDER BY link DESC LIMIT 1"

    plans = [_plan(store, statement) for statement in (children, tip)]

    assert [len(plan) for plan in plans] == [1, 1]


async def _every_use(store: SqliteStorage) -> None:
    begun = await appended(store, replace(first(REFUND), lease=MINE))
    await store.insert(REFUND, begun.incarnation, kind="message", key="k", at=1, body=b"{}", while_open=True)
    second = first(ExecutionId("refund-42~2"), index=replace(INDEX, chain=REFUND, link=2))
    send = Send(CLAIM, "message", "child:1", 1, b"{}")
    on = after(begun, REFUND, b"on", lease=NOBODY, lane_above=1, follows=second, sends=[send])
    await appended(store, on)
    await store.claim("mine", lease_ms=1, limit=9, flows=["refund"], gone=["theirs"])
    await store.renew("mine", [REFUND], lease_ms=1)
    await store.release("mine", [REFUND])
    await store.leave("mine", {REFUND: 0})
    await store.drivers()
    await store.row(REFUND)
    await store.find(ExecutionQuery(chain=REFUND, tips=True))
    await store.find(ExecutionQuery(parent=REFUND, ended=False))


async def _pages_of_a_life(store: SqliteStorage, name: ExecutionId, lease: LeaseChange | None) -> int:
    before, given_up = _wal_bytes(store), lease and NOBODY
    row = replace(INDEX, started_at=sum(name.encode()))
    head = await appended(store, replace(first(name, index=row), lease=lease))
    head = await appended(store, after(head, name, b"started", b"done", index=row))
    end = replace(row, status="completed", ended=True)
    await appended(store, after(head, name, b"ended", index=end, lease=given_up))
    assert (await row_of(store, name)).driver == ""
    return (_wal_bytes(store) - before) // PAGE_BYTES


def _wal_bytes(store: SqliteStorage) -> int:
    return Path(f"{store._settings.path}-wal").stat().st_size


def _plan(store: SqliteStorage, statement: str) -> list[str]:
    if statement.split(maxsplit=1)[0] not in {"SELECT", "WITH", "UPDATE", "INSERT"}:
        return []
    raw = sqlite3.connect(store._settings.path)
    try:
        return [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}")]
    finally:
        raw.close()


def _execute(store: SqliteStorage, statement: str, *parameters: Any) -> None:
    raw = sqlite3.connect(store._settings.path, isolation_level=None)
    raw.execute(statement, parameters)
    raw.close()
