from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import appended, first, insert
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.gathering import Gathering
from loom.spi.errors import StoreUnavailable
from tests.plugins.postgres.pooler import Pooler
from tests.plugins.postgres.server import Server


class Answers:
    """Answers with the double, once it may; and remembers what it was asked for together."""

    def __init__(self) -> None:
        self.asked: list[Sequence[int]] = []
        self.may = asyncio.Event()

    async def __call__(self, keys: Sequence[int]) -> Sequence[int]:
        self.asked.append(keys)
        await self.may.wait()
        if 13 in keys:
            raise StoreUnavailable("away", store="here")
        return [2 * key for key in keys]


async def test_those_who_ask_at_once_are_answered_together_and_later_ones_after_them() -> None:
    answers = Answers()
    gathering = Gathering(answers)
    early = [asyncio.ensure_future(gathering.get(key)) for key in (1, 2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = [asyncio.ensure_future(gathering.get(key)) for key in (3, 1)]
    await asyncio.sleep(0)

    answers.may.set()

    assert await asyncio.gather(*early, *late) == [2, 4, 6, 2]
    assert answers.asked == [[1, 2], [3, 1]]


async def test_an_error_is_raised_to_each_who_asked_and_the_next_is_answered() -> None:
    answers = Answers()
    answers.may.set()
    gathering = Gathering(answers)

    errors = await asyncio.gather(gathering.get(13), gathering.get(1), return_exceptions=True)

    assert [type(error) for error in errors] == [StoreUnavailable] * 2
    assert errors[0] is not errors[1]
    assert await gathering.get(1) == 2


async def test_who_gives_up_leaves_the_others_their_answers() -> None:
    answers = Answers()
    gathering = Gathering(answers)
    asking = [asyncio.ensure_future(gathering.get(key)) for key in (1, 2)]
    await asyncio.sleep(0)

    asking[0].cancel()
    answers.may.set()

    assert await asking[1] == 4
    with pytest.raises(asyncio.CancelledError):
        await asking[0]


def test_nobody_waits_for_a_loop_that_has_ended() -> None:
    answered: list[asyncio.Task[int]] = []

    async def ends() -> None:
        gathering = Gathering(Answers())
        answered.append(asyncio.ensure_future(gathering.get(1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answered.append(asyncio.ensure_future(gathering.get(2)))
        await asyncio.sleep(0)

    asyncio.run(ends())

    assert [task.cancelled() for task in answered] == [True, True]


async def test_many_that_look_into_their_lanes_at_once_cost_one_round_trip(server: Server, dsn: str) -> None:
    async with Pooler(server.home) as between:
        store, names = PostgresStorage(between.dsn(dsn)), [ExecutionId(f"run-{number}") for number in range(30)]
        heads = [await appended(store, first(name)) for name in names]
        for name, head in zip(names, heads, strict=True):
            await insert(store, head, key="gate:1", execution_id=name)
        await store.pending(names[0], heads[0].incarnation)
        before = between.round_trips

        looked = [store.pending(name, head.incarnation) for name, head in zip(names, heads, strict=True)]
        stranger = store.pending(names[0], Incarnation(99))
        found = await asyncio.gather(*looked, stranger)

        assert between.round_trips - before == 1
        assert [[request.number for request in lane] for lane in found] == [[1]] * 30 + [[]]
        await store.close()
