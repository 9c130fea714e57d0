"""Whoever watches a run is given its state now and after each event, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.driving.errors import ExecutionNotFound
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.fold import fold
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Storage


@loom.step
async def weigh(grams: int) -> int:
    return grams


@loom.flow
async def parcel(ctx: loom.Context, grams: int) -> int:
    weight = await ctx.run(weigh, grams)
    return weight + await ctx.suspend("stamp", expects=int)


def runtime(storage: Storage | None = None) -> WorkflowRuntime:
    return loom.define_config(flows=[parcel], storage=storage).runtime


async def seen(watched: Any) -> list[tuple[int, str]]:
    return [(state.sequence, state.status) async for state in watched]


@pytest.mark.proves("CMP-15")
async def test_a_watcher_is_given_the_present_state_and_one_after_each_event_until_the_run_has_ended() -> None:
    over = runtime()
    await over.start(parcel, 20, id="p")
    watching = asyncio.ensure_future(seen(loom.watch(over, "p")))
    await asyncio.sleep(0)  # it has looked once

    await over.resume("p", answer=5)

    assert await watching == [
        (4, "suspended"),
        (5, "running"),
        (6, "running"),
        (7, "completed"),
    ]


@pytest.mark.proves("CMP-15")
async def test_each_state_is_the_fold_of_the_log_so_far() -> None:
    over = runtime()
    watching: list[loom.ExecutionState] = []

    async def watch() -> None:
        watching.extend([state async for state in loom.watch(over, "p")])

    started = asyncio.Event()
    running = asyncio.ensure_future(over.start(parcel, 20, id="p", started=lambda _: started.set()))
    await started.wait()
    watcher = asyncio.ensure_future(watch())
    await running
    await over.resume("p", answer=5)
    await watcher

    events = await over.events("p")
    assert watching == [fold(events[: state.length], empty_state(ExecutionId("p"))) for state in watching]
    assert [state.length for state in watching] == list(range(watching[0].length, len(events) + 1))


@pytest.mark.proves("CMP-15")
async def test_a_run_that_has_ended_gives_its_last_state_alone() -> None:
    over = runtime()
    await over.start(parcel, 20, id="p")
    await over.resume("p", answer=5)

    assert await seen(loom.watch(over, "p")) == [(7, "completed")]


@pytest.mark.proves("CMP-15")
async def test_a_run_that_another_process_drives_is_seen_through_the_store(tmp_path: Path) -> None:
    theirs, ours = runtime(SqliteStorage(tmp_path / "loom.db")), runtime(SqliteStorage(tmp_path / "loom.db"))
    await theirs.start(parcel, 20, id="p")
    watching = asyncio.ensure_future(seen(loom.watch(ours, "p")))

    await theirs.resume("p", answer=5)

    assert (await watching)[-1] == (7, "completed")
    await theirs.close()
    await ours.close()


async def test_a_run_that_does_not_exist_is_refused_in_words() -> None:
    with pytest.raises(ExecutionNotFound, match="no execution 'p'"):
        await seen(loom.watch(runtime(), "p"))


class Feeds(loom.MemoryStorage):
    """A store that can tell how many follow it."""

    @property
    def followers(self) -> int:
        return sum(map(len, self._wakes._waiting.values()))


@pytest.mark.parametrize("left", ["by break", "by an error", "by cancelling"])
async def test_a_watch_that_is_left_half_way_leaves_nothing_open(left: str, asyncio_is_quiet: None) -> None:
    """Field fault 43."""
    storage = Feeds()
    over = runtime(storage)
    await over.start(parcel, 20, id="p")
    before = asyncio.all_tasks()
    watched = loom.watch(over, "p")  # it is kept: nothing is done by collecting it

    if left == "by break":
        async for _ in watched:
            break
    elif left == "by an error":
        with contextlib.suppress(ZeroDivisionError):
            async for state in watched:
                _ = 1 // (state.sequence - 4)
    else:
        watching = asyncio.ensure_future(seen(watched))
        while not storage.followers:
            await asyncio.sleep(0)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching

    assert storage.followers == 0
    assert asyncio.all_tasks() == before


async def test_a_watch_that_was_left_can_be_gone_on_with() -> None:
    over = runtime()
    await over.start(parcel, 20, id="p")
    watched = loom.watch(over, "p")
    async for _ in watched:
        break

    await over.resume("p", answer=5)

    assert await seen(watched) == [(5, "running"), (6, "running"), (7, "completed")]
