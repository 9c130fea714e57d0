"""Field faults 32 and 42: nothing keeps the process alive, and one object serves one loop after the other."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from loom.devtools.conformance.logs import INDEX, REFUND, after, appended, first, payloads
from loom.plugins.sqlite import SqliteStorage, sqlite_storage
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Appended, Storage
from tests.plugins.sqlite.processes import finish, start

UNCLOSED = """
import asyncio, sys
from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.plugins.sqlite import sqlite_storage

async def main():
    store = sqlite_storage(sys.argv[1])
    await appended(store, first(REFUND, b"1"))
    print(await payloads(store, REFUND))
    {ending}

asyncio.run(main())
"""
NO_SHUTDOWN = UNCLOSED.replace("asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())")


def test_a_script_that_closes_nothing_ends(tmp_path: Path) -> None:
    script = UNCLOSED.format(ending="")

    assert finish(start("-c", script, tmp_path / "loom.db")) == ["[b'1']"]


def test_a_script_that_leaves_a_feed_open_ends(tmp_path: Path) -> None:
    script = UNCLOSED.format(ending="global feed; feed = store.subscribe(REFUND); await anext(feed)")

    assert finish(start("-c", script, tmp_path / "loom.db")) == ["[b'1']"]


def test_a_script_whose_loop_is_never_shut_down_ends(tmp_path: Path) -> None:
    process = start("-c", NO_SHUTDOWN.format(ending=""), tmp_path / "loom.db")

    output, _ = process.communicate(timeout=20)

    assert (process.returncode, output) == (0, "[b'1']\n")


def test_one_object_serves_two_runs_of_asyncio(tmp_path: Path) -> None:
    store = sqlite_storage(tmp_path / "loom.db")

    asyncio.run(_append(store))

    assert asyncio.run(payloads(store, REFUND)) == [b"1"]


def test_the_end_of_the_loop_leaves_no_thread_and_no_handle(tmp_path: Path) -> None:
    threads, handles = set(threading.enumerate()), _handles()

    asyncio.run(_append(SqliteStorage(tmp_path / "loom.db")))

    assert set(threading.enumerate()) <= threads
    assert _handles() == handles


def test_a_loop_that_ended_without_a_word_does_not_stop_the_next(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_append(store))
    loop.close()

    assert asyncio.run(payloads(store, REFUND)) == [b"1"]


async def test_two_loops_at_once_are_told_to_use_two_objects(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    await _append(store)

    with pytest.raises(StoreUnavailable, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(payloads(store, REFUND)))

    assert await payloads(store, REFUND) == [b"1"]
    await store.close()


def test_making_a_store_opens_nothing(tmp_path: Path) -> None:
    sqlite_storage(tmp_path / "made" / "loom.db")

    assert list(tmp_path.iterdir()) == []


async def test_closing_ends_the_feeds(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    waiting = asyncio.ensure_future(_first_of_feed(store))
    await store.open()

    await store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting


async def test_an_append_whose_caller_gave_up_can_be_asked_for_again(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    begun = await appended(store, first(REFUND, b"1"))
    item = after(begun, REFUND, b"2")
    giving_up = asyncio.ensure_future(store.append([item]))
    await asyncio.sleep(0)

    giving_up.cancel()

    assert await appended(store, item) == Appended(begun.incarnation, 2)
    assert await payloads(store, REFUND) == [b"1", b"2"]
    await store.close()


async def test_opening_goes_on_when_the_first_who_asked_gives_up(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    opening = [asyncio.ensure_future(store.open()) for _ in range(3)]
    await asyncio.sleep(0)

    opening[0].cancel()

    outcomes = await asyncio.gather(*opening, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, type(None), type(None)]
    await store.close()


async def test_a_long_read_holds_up_no_append(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    begun = await appended(store, first(REFUND, *[b"x" * 200] * 20_000))
    finished: list[str] = []

    async def note(name: str, work: Coroutine[Any, Any, object]) -> None:
        await work
        finished.append(name)

    await asyncio.gather(
        note("read", store.read(REFUND)), note("append", store.append([after(begun, REFUND, b"x", index=INDEX)]))
    )

    assert finished[0] == "append"
    await store.close()


async def _append(store: Storage) -> None:
    await appended(store, first(REFUND, b"1"))


async def _first_of_feed(store: Storage) -> None:
    async for _record in store.subscribe(REFUND):
        return


def _handles() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0  # noqa: PTH110, PTH208
