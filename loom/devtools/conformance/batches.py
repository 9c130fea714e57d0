"""What every store must do with much at once: starts, parks, answers and steps of many runs, and some of it refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import (
    INDEX,
    NOBODY,
    after,
    first,
    insert,
    ok,
    payloads,
    row_of,
)
from loom.spi.event_store import Append, Appended, Conflict, LaneNotEmpty, RequestTaken, Storage


class BatchConformance:
    """One result each, as if each were alone."""

    async def test_in_one_batch_each_is_taken_or_refused_on_its_own(self, store: Storage) -> None:
        heads = await _begun(store, "done", "parks", "asked", "answered", "behind", "strange")
        await insert(store, heads["asked"], execution_id=ExecutionId("asked"))
        await insert(store, heads["answered"], execution_id=ExecutionId("answered"))
        strange = replace(_on(heads, "strange"), incarnation=Incarnation(heads["strange"].incarnation + 99))

        results = await store.append(
            [
                first(ExecutionId("new"), b"new"),
                _on(heads, "parks", lane_above=0),
                _on(heads, "asked", lane_above=0),
                _on(heads, "answered", lane_above=0, consumes=[1]),
                replace(_on(heads, "behind"), expected=0),
                strange,
                first(ExecutionId("done"), b"again"),
                after(Appended(Incarnation(1), 4), NOBODY, b"goes on"),
                first(ExecutionId("newer"), b"newer"),
            ]
        )

        new, newer = ok(results[0]), ok(results[8])
        assert list(results) == [
            Appended(new.incarnation, 1),
            Appended(heads["parks"].incarnation, 2),
            LaneNotEmpty(1),
            Appended(heads["answered"].incarnation, 2),
            Conflict(1, heads["behind"].incarnation),
            Conflict(1, heads["strange"].incarnation),
            Conflict(1, heads["done"].incarnation),
            Conflict(0, None),
            Appended(newer.incarnation, 1),
        ]
        assert new.incarnation != newer.incarnation
        for name in ("asked", "behind", "strange", "done"):
            assert await payloads(store, ExecutionId(name)) == [b"begun"]
        for name in ("parks", "answered"):
            assert await payloads(store, ExecutionId(name)) == [b"begun", b"on"]

    async def test_many_parks_are_taken_but_for_those_that_are_asked_something(self, store: Storage) -> None:
        heads = await _begun(store, *_names(60))
        for name in _names(60)[::7]:
            await insert(store, heads[name], execution_id=ExecutionId(name))

        results = await store.append([_on(heads, name, lane_above=0) for name in _names(60)])

        asked = set(_names(60)[::7])
        assert [isinstance(result, LaneNotEmpty) for result in results] == [name in asked for name in _names(60)]
        assert [len(await payloads(store, ExecutionId(name))) for name in _names(60)] == [
            1 if name in asked else 2 for name in _names(60)
        ]

    async def test_many_answers_are_consumed_each_in_its_own_lane(self, store: Storage) -> None:
        heads = await _begun(store, *_names(40))
        for name in _names(40):
            await insert(store, heads[name], execution_id=ExecutionId(name))
            await insert(store, heads[name], execution_id=ExecutionId(name))
        batch = [_on(heads, name, consumes=[1 + place % 2]) for place, name in enumerate(_names(40))]

        await store.append([replace(item, expected=9) if place % 5 == 0 else item for place, item in enumerate(batch)])

        left = [
            [request.number for request in await store.pending(ExecutionId(name), heads[name].incarnation)]
            for name in _names(40)
        ]
        assert left == [[1, 2] if place % 5 == 0 else [2 - place % 2] for place in range(40)]

    async def test_many_beginnings_have_their_own_rows(self, store: Storage) -> None:
        batch = [
            first(ExecutionId(name), name.encode(), index=replace(INDEX, started_at=place, wake_at=place or None))
            for place, name in enumerate(_names(30))
        ]

        results = await store.append([*batch, *batch[:3], replace(batch[3], append_id="a rival")])

        assert results[30:33] == results[:3]
        assert results[33] == Conflict(1, ok(results[3]).incarnation)
        assert len({ok(result).incarnation for result in results[:30]}) == 30
        for item, result in zip(batch, results[:30], strict=True):
            row = await row_of(store, item.execution_id)
            assert (row.incarnation, row.length, row.index) == (ok(result).incarnation, 1, item.index)

    async def test_a_log_may_begin_without_events_and_go_on(self, store: Storage) -> None:
        name = ExecutionId("quiet")
        [begun] = await store.append([replace(first(name), events=[])])

        [result] = await store.append([after(ok(begun), name, b"1")])

        assert (ok(begun).length, ok(result).length) == (0, 1)
        assert await payloads(store, name) == [b"1"]

    async def test_inserts_at_once_into_many_lanes_each_have_their_own_result(self, store: Storage) -> None:
        heads = await _begun(store, *_names(20))
        stranger = Appended(Incarnation(heads["run-00"].incarnation + 99), 1)
        await insert(store, heads["run-01"], execution_id=ExecutionId("run-01"), key="gate:0")

        results = await asyncio.gather(
            *(insert(store, heads[name], execution_id=ExecutionId(name), key="gate:0") for name in _names(20)),
            *(insert(store, heads[name], execution_id=ExecutionId(name), key="gate:0") for name in _names(20)),
            insert(store, stranger, execution_id=ExecutionId("run-00")),
            insert(store, stranger, execution_id=NOBODY),
        )

        taken = RequestTaken(1, pending=True)
        rivals = [{one, other} for one, other in zip(results[:20], results[20:40], strict=True)]
        assert rivals == [{1, taken}, {taken}, *[{1, taken}] * 18]
        assert results[40:] == [None, None]

    async def test_what_is_asked_at_once_happens_in_some_order(self, store: Storage) -> None:
        heads = await _begun(store, *_names(30))

        parks, numbers = await asyncio.gather(
            asyncio.gather(*(store.append([_on(heads, name, lane_above=0)]) for name in _names(30))),
            asyncio.gather(*(insert(store, heads[name], execution_id=ExecutionId(name)) for name in _names(30))),
        )

        assert set(numbers) == {1}
        for name, [park] in zip(_names(30), parks, strict=True):
            length = len(await payloads(store, ExecutionId(name)))
            assert park in (Appended(heads[name].incarnation, 2), LaneNotEmpty(1))
            assert length == (2 if isinstance(park, Appended) else 1)


def _names(count: int) -> list[str]:
    return [f"run-{number:02}" for number in range(count)]


async def _begun(store: Storage, *names: str) -> dict[str, Appended]:
    """Begin a log for each name, and return their heads."""
    results = await store.append([first(ExecutionId(name), b"begun") for name in names])
    return {name: ok(result) for name, result in zip(names, results, strict=True)}


def _on(
    heads: dict[str, Appended], name: str, *, consumes: list[int] | None = None, lane_above: int | None = None
) -> Append:
    """Return an item that goes on with the log *name*."""
    return after(heads[name], ExecutionId(name), b"on", consumes=consumes or (), lane_above=lane_above)
