"""Whatever is written at once comes to what it comes to one by one: the store in memory says what that is."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.devtools.conformance.logs import INDEX, events
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Append
from loom.spi.memory import MemoryStorage
from tests.plugins.writes import ALL, IDS, DeletePlan, Made, Plan, all_of, known_of, made_of, one_plan, plans, write


@pytest.mark.proves("STO-01")
@given(rounds=st.lists(plans, min_size=1, max_size=5))
def test_what_is_written_at_once_comes_to_the_same_as_one_by_one(rounds: Sequence[Sequence[Plan]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = VirtualClock(0)
        asyncio.run(_same(SqliteStorage(Path(folder) / "loom.db", clock=clock), clock, rounds))


@pytest.mark.proves("STO-01")
@given(plans=st.lists(one_plan, min_size=3, max_size=20))
def test_what_drivers_do_one_after_the_other_comes_to_the_same(plans: Sequence[Plan]) -> None:
    """One chain, one write at a time, nearly all of them fitting: so that leases, calls and links get far."""
    with tempfile.TemporaryDirectory() as folder:
        clock = VirtualClock(0)
        asyncio.run(_same(SqliteStorage(Path(folder) / "loom.db", clock=clock), clock, [[plan] for plan in plans]))


def _at_once(made: Sequence[Made]) -> list[list[Made]]:
    """Return what is asked together: a dry run of a deletion is read beside what is written, and so is asked alone."""
    asked: list[list[Made]] = [[]]
    for each in made:
        asked += [[each], []] if isinstance(each, tuple) and isinstance(each[0], DeletePlan) else []
        if not (isinstance(each, tuple) and isinstance(each[0], DeletePlan)):
            asked[-1].append(each)
    return asked


async def _written(store: SqliteStorage, made: Sequence[Made]) -> list[Any]:
    return await asyncio.gather(*(write(store, each) for each in made))


async def _same(store: SqliteStorage, clock: VirtualClock, rounds: Sequence[Sequence[Plan]]) -> None:
    model, past = MemoryStorage(clock=clock), list[Append]()
    writer = await store._sessions.current().writer()
    await writer.run(lambda database: database.raw.execute("PRAGMA synchronous = OFF").fetchall())
    for writes in rounds:
        clock.advance(1)
        known = {name: await known_of(model, name) for name in ALL}
        made = [made_of(plan, known, past) for plan in writes]
        expected = [await write(model, each) for each in made]
        assert [result for some in _at_once(made) for result in await _written(store, some)] == expected
        assert await all_of(store) == await all_of(model)
    clock.advance(99)
    claims = [list(await each.claim("c", lease_ms=1, limit=99)) for each in (store, model)]
    assert claims[0] == claims[1]
    await store.close()


def test_a_log_that_is_written_in_pieces_of_one_transaction_is_whole(tmp_path: Path) -> None:
    """Each piece of the blob that carries the payloads is cut where it should be."""

    async def script() -> None:
        store = SqliteStorage(tmp_path / "loom.db")
        large = [bytes([number]) * (3 << 20) for number in range(5)]
        batch = [
            Append(
                execution_id=name,
                incarnation=None,
                expected=0,
                append_id=name,
                events=events(*large[: 1 + place]),
                index=replace(INDEX, started_at=place, chain=name),
            )
            for place, name in enumerate(IDS)
        ]
        await store.append(batch)
        for place, name in enumerate(IDS):
            page = await store.read(name, limit_bytes=1 << 30)
            assert [record.payload for record in page] == large[: 1 + place]
        await store.close()

    asyncio.run(script())
