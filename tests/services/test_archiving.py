"""What compaction moves to an archive: each event and each request is told once, whoever is cut off, and by no other life."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from loom.services.archived import read_archived, read_lane_with_archive
from loom.services.archiving import ArchiveIsTheStore
from loom.services.retention import Retention
from loom.spi.errors import ArchiveConflict, StoreUnavailable
from loom.spi.event_store import Append, Lane
from loom.spi.memory import MemoryStorage
from tests.golden import logs
from tests.golden.make import INDEX
from tests.kernel.running import RUN, incarnation_of, runtime
from tests.services.compacted import compacted, here, many, stored, story, told


@pytest.fixture
def archive() -> MemoryStorage:
    return MemoryStorage()


# -- the lane


@pytest.mark.proves("LIF-08")
async def test_what_the_lane_has_consumed_moves_and_each_message_is_told_once(archive: MemoryStorage) -> None:
    storage = MemoryStorage()
    over = runtime(many, storage=storage)
    await over.start(many, 120, id=RUN)
    await over.send(RUN, "more", 1, key="first")
    for number in range(3):
        await over.send(RUN, "other", number)
    lane = Lane(ExecutionId(RUN), incarnation_of(storage))
    before = [request async for request in read_lane_with_archive(storage, archive, lane)]

    done = await compacted(storage, archive, RUN)

    assert [each.key for each in before] == ["message:first", "", "", ""]
    assert done.requests == 1
    assert [request async for request in read_lane_with_archive(storage, archive, lane)] == before
    assert [request.number for request in await storage.pending(*lane)] == [2, 3, 4]
    assert list(await storage.consumed(lane)) == []
    again = await over.send(RUN, "more", 1, key="first")  # the key stays taken
    assert again.status == "accepted"
    assert [request.number for request in await storage.pending(*lane)] == [2, 3, 4]


@pytest.mark.proves("LIF-08")
async def test_the_links_of_a_chain_share_the_lane_that_is_archived(archive: MemoryStorage) -> None:
    @loom.flow
    async def rolling(ctx: loom.Context, lap: int) -> int:
        got: int = await ctx.receive("laps", expects=int)
        if lap < 2:
            await ctx.continue_as_new(lap + 1)
        return lap + got

    storage = MemoryStorage()
    over = runtime(rolling, storage=storage)
    await over.start(rolling, 0, id=RUN)
    for number in range(2):
        await over.send(RUN, "laps", number)

    moved = [(await compacted(storage, archive, run)).requests for run in (RUN, f"{RUN}~2", f"{RUN}~3")]
    outcome = await over.send(RUN, "laps", 5)

    assert moved == [2, 0, 0]
    assert outcome.result() == 7
    lives = {life.execution_id: life.requests for life in await archive.archived_lives()}
    assert lives == {RUN: 2, f"{RUN}~2": 0, f"{RUN}~3": 0}


# -- an archive, and other lives


async def test_of_a_run_that_was_deleted_the_archive_tells_what_it_has(archive: MemoryStorage) -> None:
    golden = logs.read("hello")
    storage = await stored(golden)
    await compacted(storage, archive, golden.run)
    gone = [event.record for event in await story(storage, archive, golden.run) if event.is_archived]

    left = [event async for event in read_archived(MemoryStorage(), archive, golden.run)]

    assert [(event.record, event.is_archived) for event in left] == [(record, True) for record in gone]
    assert [event async for event in read_archived(MemoryStorage(), archive, ExecutionId("nobody"))] == []


async def test_an_id_that_is_used_again_is_not_mixed_with_what_went_before(archive: MemoryStorage) -> None:
    golden, other = logs.read("hello"), logs.read("loops")
    storage = await stored(golden)
    await compacted(storage, archive, golden.run)
    storage._kept.forget(storage._logs[golden.run])
    again = replace(INDEX, chain=golden.run)
    item = Append(
        execution_id=golden.run, incarnation=None, expected=0, append_id="again", events=other.log, index=again
    )
    await storage.append([item])

    await compacted(storage, archive, golden.run)

    assert await told(storage, archive, golden.run) == other.log
    assert [life.incarnation for life in await archive.archived_lives(prefix=golden.run)] == [1, 2]


async def test_the_archive_of_another_store_is_refused_and_nothing_is_removed(archive: MemoryStorage) -> None:
    golden, other = logs.read("hello"), logs.read("loops")
    await compacted(await stored(golden), archive, golden.run)
    storage = await stored(golden, other.log)

    with pytest.raises(ArchiveConflict, match="another"):
        await compacted(storage, archive, golden.run)

    assert await here(storage, golden.run) == list(range(len(other.log)))


def failing(work: Any, *, after: bool) -> Any:
    """Return what fails instead of *work*, or once that is done."""

    async def fail(*args: Any, **kwargs: Any) -> Any:
        if after:
            await work(*args, **kwargs)
        raise StoreUnavailable("away", store="memory:")

    return fail


@pytest.mark.proves("LIF-07")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("method", ["archive", "archive_requests", "trim", "trim_lane"])
async def test_cut_off_at_any_call_nothing_is_lost_and_the_next_one_goes_on(
    method: str, after: bool, archive: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemoryStorage()
    over = runtime(many, storage=storage)
    await over.start(many, 80, id=RUN)
    await over.send(RUN, "more", 1)
    whole, lane = await told(storage, archive, RUN), Lane(ExecutionId(RUN), incarnation_of(storage))
    requests = [request async for request in read_lane_with_archive(storage, archive, lane)]
    state = await over.load_state(RUN)
    failed = archive if method.startswith("archive") else storage

    with monkeypatch.context() as patched:
        patched.setattr(failed, method, failing(getattr(failed, method), after=after))
        with pytest.raises(StoreUnavailable):
            await compacted(storage, archive, RUN)

    for _ in range(2):
        assert await told(storage, archive, RUN) == whole
        assert [request async for request in read_lane_with_archive(storage, archive, lane)] == requests
        assert await over.load_state(RUN) == state
        await compacted(storage, archive, RUN)
    assert (await over.send(RUN, "more", 1)).result() == sum(range(80)) + 2


async def test_many_that_compact_one_run_at_once_leave_it_whole(tmp_path: Path) -> None:
    stores = [SqliteStorage(tmp_path / "loom.db") for _ in range(4)]
    archives = [SqliteStorage(tmp_path / "archive.db") for _ in stores]
    over = runtime(many, storage=stores[0], write_behind=True)
    await over.start(many, 80, id=RUN)
    whole, archive = await told(stores[0], archives[0], RUN), archives[0]
    throughs = [3, 40, 17, None, len(whole) - 2, 25, None, 60]

    done = await asyncio.gather(
        *(compacted(stores[n % 4], archives[n % 4], RUN, through=through) for n, through in enumerate(throughs))
    )

    assert {each.through for each in done} <= set(range(3, len(whole) - 1))
    assert await told(stores[0], archive, RUN) == whole
    assert await here(stores[0], RUN) == [0, len(whole) - 1]
    assert (await over.send(RUN, "more", 1)).status == "suspended"
    for each in (*stores, *archives):
        await each.close()


async def test_a_store_that_is_its_own_archive_is_refused(archive: MemoryStorage) -> None:
    over = runtime(many, storage=archive)
    await over.start(many, 5, id="run")
    before = await told(archive, MemoryStorage(), "run")

    with pytest.raises(ArchiveIsTheStore):
        await compacted(archive, archive, "run")
    with pytest.raises(ArchiveIsTheStore):
        await Retention(archive, ttl_ms=0, archive=archive).run()

    assert await told(archive, MemoryStorage(), "run") == before
