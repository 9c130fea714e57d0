"""Index rows that are not what their logs say: told, put right, and left alone where somebody drives the run."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import REFUND, appended, first
from loom.plugins.sqlite import SqliteStorage
from loom.services.reindexing import Difference, differences, reindexed
from loom.spi.clock import VirtualClock
from loom.spi.event_store import NOBODY, Append, ExecutionQuery, ExecutionRow, IndexRow, Storage
from loom.spi.memory import MemoryStorage


@loom.flow
async def ask(ctx: loom.Context, order: str) -> Any:
    return await ctx.suspend("approval", expects=bool)


@loom.flow
async def nap(ctx: loom.Context) -> str:
    await ctx.sleep(3_600)
    return "awake"


@loom.flow
async def family(ctx: loom.Context) -> Any:
    return await loom.await_child(ctx, await loom.spawn(ctx, ask, "A"))


FLOWS: Final[dict[str, Any]] = {flow.id: flow for flow in (ask, nap, family)}


async def filled(store: Storage, clock: VirtualClock) -> dict[ExecutionId, ExecutionRow]:
    """Write runs that wait, sleep, have ended and have children, and return their rows."""
    runtime = loom.WorkflowRuntime(store, flows=FLOWS, clock=clock)
    await runtime.start("ask", "A", id="asks", attributes={"order": "A", "sum": 3})
    await runtime.start("ask", "B", id="done")
    await runtime.resume("done", answer=True)
    await runtime.start("nap", id="naps", linger_s=0)
    await runtime.start("family", id="family")
    await runtime.start("ask", "C", id="gone")
    await runtime.cancel("gone")
    await runtime.close()
    return {row.execution_id: row for row in await store.find(ExecutionQuery())}


async def spoil(store: Storage, row: ExecutionRow, **wrong: Any) -> None:
    """Put a row in place that is *wrong*, which the store has no way to know."""
    item = Append(
        execution_id=row.execution_id,
        incarnation=row.incarnation,
        expected=row.length,
        append_id=f"spoil-{wrong}",
        events=(),
        index=replace(row.index, **wrong),
        lease=NOBODY,
    )
    await appended(store, item)


wrongs = st.fixed_dictionaries(
    {},
    optional={
        "flow": st.sampled_from(["other", ""]),
        "status": st.sampled_from(["running", "completed", "failed", "suspended", "nonsense"]),
        "started_at": st.integers(0, 1 << 40),
        "updated_at": st.integers(0, 1 << 40),
        "wake_at": st.none() | st.integers(0, 1 << 40),
        "gates": st.sampled_from(["[]", '[{"gate":"x"}]']),
        "attributes": st.sampled_from(["{}", '{"order":"Z"}', "no json"]),
        "ended": st.booleans(),
    },
)


@settings(max_examples=15)
@given(spoiled=st.dictionaries(st.sampled_from(["asks", "done", "naps", "family", "gone"]), wrongs, min_size=1))
def test_whatever_is_wrong_is_told_and_is_as_it_was_afterwards(spoiled: dict[str, dict[str, Any]]) -> None:
    async def script(store: Storage, clock: VirtualClock) -> None:
        rows = await filled(store, clock)
        for name, wrong in spoiled.items():
            await spoil(store, rows[ExecutionId(name)], **wrong)
        for name, row in rows.items():
            wrong = spoiled.get(name, {})
            differ = {
                key: Difference(each, getattr(row.index, key))
                for key, each in wrong.items()
                if each != getattr(row.index, key)
            }

            told = await reindexed(store, name, dry_run=True)
            found = await reindexed(store, name)
            again = await reindexed(store, name)

            assert told is not None
            assert found is not None
            assert again is not None
            assert (dict(told.differences), dict(found.differences)) == (differ, differ)
            assert (told.became, found.became) == (("wrong", "repaired") if differ else ("right", "right"))
            assert again.became == "right"
        after = {row.execution_id: (row.index, row.ended_at) for row in await store.find(ExecutionQuery())}
        assert after == {name: (row.index, row.ended_at) for name, row in rows.items()}

    with tempfile.TemporaryDirectory() as folder:
        for make in (MemoryStorage, lambda clock: SqliteStorage(Path(folder) / "loom.db", clock=clock)):
            clock = VirtualClock()
            asyncio.run(_with(make(clock=clock), clock, script))


async def _with(store: Any, clock: VirtualClock, script: Any) -> None:
    await script(store, clock)
    await store.close()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[SqliteStorage]:
    store = SqliteStorage(tmp_path / "loom.db", clock=clock)
    yield store
    await store.close()


async def test_a_run_that_was_listed_wrongly_goes_on_once_it_is_put_right(
    store: SqliteStorage, clock: VirtualClock
) -> None:
    rows = await filled(store, clock)
    await spoil(store, rows[ExecutionId("naps")], wake_at=None, ended=True, status="completed")
    clock.advance(7_200_000)
    app = loom.define_config(flows=[ask, nap, family], storage=store, clock=clock)

    async with app:
        await app.worker(until_idle=True).run()
        slept = (await app.runtime.load_state("naps")).status
        await reindexed(store, ExecutionId("naps"))
        await app.worker(until_idle=True).run()

        assert slept == "suspended"
        assert (await app.runtime.load_state("naps")).status == "completed"


async def test_a_run_that_somebody_drives_is_left_to_its_driver(store: SqliteStorage, clock: VirtualClock) -> None:
    row = (await filled(store, clock))[ExecutionId("asks")]
    await spoil(store, row, status="nonsense")
    await store.insert(row.execution_id, row.incarnation, kind="answer", key="x", at=1, body=b"{}")
    assert await store.claim("somebody", lease_ms=1_000, limit=9)

    while_driven = await reindexed(store, row.execution_id)
    clock.advance(2_000)
    afterwards = await reindexed(store, row.execution_id)

    assert while_driven is not None
    assert afterwards is not None
    assert (while_driven.became, afterwards.became) == ("driven", "repaired")
    assert (await store.row(row.execution_id)).driver == "somebody"  # type: ignore[union-attr]


async def test_a_run_that_goes_on_meanwhile_is_looked_at_again(clock: VirtualClock) -> None:
    store = Racing(clock=clock)
    row = (await filled(store, clock))[ExecutionId("asks")]
    await spoil(store, row, status="nonsense")
    runtime = loom.WorkflowRuntime(store, flows=FLOWS, clock=clock)
    store.before = lambda: runtime.resume("asks", answer=True)

    found = await reindexed(store, row.execution_id)

    assert found is not None
    assert found.became == "right"
    assert (await store.row(row.execution_id)).index.status == "completed"  # type: ignore[union-attr]
    await runtime.close()


class Racing(MemoryStorage):
    """A store in which something happens between what the repair sees and what it does."""

    before: Any = None

    async def append(self, batch: Any) -> Any:
        if self.before is not None and batch[0].append_id.startswith("reindex"):
            before, self.before = self.before, None
            await before()
        return await super().append(batch)


async def test_who_spawned_a_run_is_told_and_not_rewritten(
    store: SqliteStorage, clock: VirtualClock, tmp_path: Path
) -> None:
    await filled(store, clock)
    with closing(sqlite3.connect(tmp_path / "loom.db", isolation_level=None)) as raw:
        raw.execute("UPDATE executions SET parent = 'nobody', status = 'nonsense' WHERE id = 'family:ask'")

    found = await reindexed(store, ExecutionId("family:ask"))
    again = await reindexed(store, ExecutionId("family:ask"))

    assert found is not None
    assert again is not None
    assert (found.became, set(found.differences)) == ("wrong", {"parent", "status"})
    assert (again.became, dict(again.differences)) == ("wrong", {"parent": Difference("nobody", "family")})


async def test_a_log_that_cannot_be_read_is_told(store: SqliteStorage) -> None:
    await appended(store, first(REFUND, b"no json"))

    found = await reindexed(store, REFUND)

    assert found is not None
    assert (found.became, found.error is not None) == ("unreadable", True)
    assert await reindexed(store, ExecutionId("nobody")) is None


def test_json_is_compared_by_what_it_says() -> None:
    row = IndexRow(
        flow="f",
        status="s",
        started_at=1,
        updated_at=1,
        wake_at=None,
        gates="[]",
        attributes='{"a":1,"b":2}',
        chain="c",
    )

    assert differences(row, replace(row, attributes='{ "b": 2, "a": 1 }')) == {}
    assert differences(row, replace(row, attributes="broken")) == {
        "attributes": Difference('{"a":1,"b":2}', "broken"),
    }
