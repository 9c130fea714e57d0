"""Logs are read once and kept, folded, within bounds; what is new of them is taken as it comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound
from loom.spi.memory import MemoryStorage
from loom_cli.web.kept_runs import KeptRuns
from tests.loom_cli.web.desk import Claim, app_on, refund, tell


class Counting:
    """A store that counts the events that are read of it."""

    def __init__(self, store: MemoryStorage) -> None:
        self._store, self.read_events = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, *arguments: Any, **options: Any) -> Any:
        page = await self._store.read(*arguments, **options)
        self.read_events += len(page)
        return page


async def told() -> Any:
    store = MemoryStorage()
    await tell(store)
    return Counting(store)


RUN = ExecutionId("refund-A-1042")


async def test_a_log_is_read_once_and_then_only_what_is_new_of_it() -> None:
    store = await told()
    kept = KeptRuns(store)

    run = await kept.get(RUN)
    read = store.read_events
    for _ in range(5):
        await kept.get(RUN)

    assert len(run.moments.events) == read == store.read_events
    async with app_on(store) as app:
        await app.runtime.resume(RUN, answer={"approved": False, "amount": 1})
    before, read = len(run.moments.events), store.read_events
    again = await kept.get(RUN)
    assert again is run
    assert store.read_events - read == len(again.moments.events) - before
    assert again.moments.now.status == "completed"
    assert len(again.timeline.rows) == len(again.moments.events)


async def test_what_is_kept_is_bounded_and_the_last_one_always_stays() -> None:
    store = await told()
    kept = KeptRuns(store, events_max=30, runs_max=2)

    for run in ("refund-A-1038", "refund-A-1039", "refund-A-1040", "refund-A-1041"):
        await kept.get(ExecutionId(run))
        assert kept.events <= 30
    tight = KeptRuns(store, events_max=1)
    await tight.get(RUN)

    assert tight.events > 1


async def test_a_run_that_was_deleted_and_begun_anew_is_read_anew() -> None:
    first, second = MemoryStorage(), MemoryStorage()
    for begun, amounts in ((first, [1.0]), (second, [2.0, 3.0])):
        for amount in amounts:  # the second life of the id is another one
            async with app_on(begun) as app:
                claim = Claim(order="x", amount=amount, reason="")
                await app.runtime.start(refund, claim, id="x" if amount != 2.0 else "y")

    store: Any = Counting(first)
    kept = KeptRuns(store)
    one = (await kept.get(ExecutionId("x"))).moments.now.facts.input
    store._store = second
    two = (await kept.get(ExecutionId("x"))).moments.now.facts.input

    assert (one["amount"], two["amount"]) == (1.0, 3.0)


async def test_what_is_not_there_is_not_kept() -> None:
    kept = KeptRuns(MemoryStorage())

    with pytest.raises(ExecutionNotFound):
        await kept.get(ExecutionId("nobody"))
    assert kept.events == 0


async def test_requests_at_once_share_one_reading() -> None:
    store = await told()
    kept = KeptRuns(store)

    runs = await asyncio.gather(*(kept.get(RUN) for _ in range(10)))

    assert store.read_events == len(runs[0].moments.events)
