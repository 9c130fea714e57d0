"""Whatever is written at once comes to what it comes to one by one: the store in memory says what that is."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import INDEX, events
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, ExecutionQuery, Head, IndexRow, Storage
from loom.spi.memory import MemoryStorage

IDS: Final = [ExecutionId(name) for name in ("ü", 'q"\\')]


class AppendPlan(NamedTuple):
    """An item, but for where its log stands: *off* and *stranger* say how wrong it is about that."""

    execution_id: ExecutionId
    off: int
    stranger: bool
    payloads: list[bytes]
    row: IndexRow
    consumes: list[int]
    lane_above: int | None
    repeats: int | None


class InsertPlan(NamedTuple):
    """A request, but for the life of the execution."""

    execution_id: ExecutionId
    stranger: bool
    key: str
    body: bytes


Plan = list[AppendPlan] | InsertPlan

indexes = st.builds(
    IndexRow,
    flow=st.sampled_from(["f", "g"]),
    status=st.sampled_from(["running", "suspended"]),
    started_at=st.just(7),
    updated_at=st.integers(0, 9),
    wake_at=st.none() | st.integers(0, 2),
    gates=st.sampled_from(["[]", '[{"address":"go"}]']),
    attributes=st.sampled_from(["{}", '{"a":"\\u00fc"}']),
    chain=st.just(""),
)
append_plans = st.builds(
    AppendPlan,
    execution_id=st.sampled_from(IDS),
    off=st.sampled_from([0, 0, 0, 0, 0, 1, 2, -1]),
    stranger=st.sampled_from([False, False, False, False, True]),
    payloads=st.lists(st.sampled_from([b"", b"1", b"\x00\xff", b"x" * 50]), max_size=3),
    row=indexes,
    consumes=st.lists(st.integers(1, 3), max_size=2, unique=True),
    lane_above=st.none() | st.integers(0, 3),
    repeats=st.sampled_from([None, None, None, 1, 2, 3]),
)
insert_plans = st.builds(
    InsertPlan,
    execution_id=st.sampled_from(IDS),
    stranger=st.sampled_from([False, False, False, False, True]),
    key=st.sampled_from(["", "gate:1", "gate:2"]),
    body=st.sampled_from([b"{}", b"", b"\x00"]),
)
plans = st.lists(st.lists(append_plans, min_size=1, max_size=6) | insert_plans, min_size=1, max_size=6)


@pytest.mark.proves("STO-01")
@given(rounds=st.lists(plans, min_size=1, max_size=5))
def test_what_is_written_at_once_comes_to_the_same_as_one_by_one(rounds: Sequence[Sequence[Plan]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_same(SqliteStorage(Path(folder) / "loom.db"), rounds))


async def _same(store: SqliteStorage, rounds: Sequence[Sequence[Plan]]) -> None:
    model, past = MemoryStorage(), list[Append]()
    writer = await store._current().writer()
    await writer.run(lambda database: database.raw.execute("PRAGMA synchronous = OFF").fetchall())
    for writes in rounds:
        known = {name: await _known(model, name) for name in IDS}
        made = [_made(plan, known, past) for plan in writes]
        expected = [await _write(model, each) for each in made]
        assert await asyncio.gather(*(_write(store, each) for each in made)) == expected
        assert await _all_of(store) == await _all_of(model)
    await store.close()


class Known(NamedTuple):
    """Where a log stood before a round, and which of its requests were pending."""

    head: Head | None
    pending: set[int]


async def _known(model: MemoryStorage, name: ExecutionId) -> Known:
    head = await model.head(name)
    pending = await model.pending(name, head.incarnation) if head else ()
    return Known(head, {request.number for request in pending})


Made = list[Append] | tuple[InsertPlan, Incarnation]


def _made(plan: Plan, known: dict[ExecutionId, Known], past: list[Append]) -> Made:
    if isinstance(plan, InsertPlan):
        head = known[plan.execution_id].head
        return plan, Incarnation((head.incarnation if head else 1) + plan.stranger)
    items = [_item(each, known, past) for each in plan]
    past.extend(items)
    return items


def _item(plan: AppendPlan, known: dict[ExecutionId, Known], past: Sequence[Append]) -> Append:
    if plan.repeats is not None and len(past) >= plan.repeats:
        return past[-plan.repeats]
    head, pending = known[plan.execution_id]
    length, incarnation = (head.length, head.incarnation) if head else (0, None)
    expected = max(0, length + plan.off)
    return Append(
        execution_id=plan.execution_id,
        incarnation=Incarnation((incarnation or 0) + 1) if plan.stranger else incarnation,
        expected=expected,
        append_id=f"id{len(past)}{plan.execution_id}{len(plan.payloads)}",
        events=events(*plan.payloads, start=expected),
        index=replace(plan.row, chain=plan.execution_id),
        consumes=[number for number in plan.consumes if number in pending],
        lane_above=plan.lane_above,
    )


async def _write(store: Storage, made: Made) -> Any:
    if isinstance(made, list):
        return list(await store.append(made))
    (execution_id, _, key, body), incarnation = made
    return await store.insert(execution_id, incarnation, kind="answer", key=key, at=5, body=body)


async def _all_of(store: Storage) -> Any:
    rows = await store.find(ExecutionQuery())
    lanes = [await store.pending(row.execution_id, row.incarnation) for row in rows]
    logs = [list(await store.read(row.execution_id)) for row in rows]
    return rows, [list(lane) for lane in lanes], logs, [await store.head(name) for name in IDS]


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
