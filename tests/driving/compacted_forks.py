"""What a fork of a compacted run is, in every store: served from a snapshot exactly there, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import orjson
import pytest

from loom.core.ids import ExecutionId
from loom.driving.edits import Edit
from loom.driving.errors import CompactedForkPoint, ForkRefused
from loom.driving.loading import load
from loom.driving.snapshots import state_of
from loom.lenses.folding import state_json
from loom.services.compacting import Compactable
from loom.services.snapshot_pruning import prune_snapshots
from loom.services.snapshot_taking import take_snapshot
from loom.spi.event_fork import EventFork, Forked, Source, SourceLacking
from loom.spi.event_store import Append, EventRecord, Storage
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import Snapshot
from tests.driving.long_runs import RUN, climber, stairs
from tests.services.compacted import compacted, here, numbered, row_of, told

SORTED = orjson.OPT_SORT_KEYS
POINT = 7
FORK = ExecutionId("fork")


class ForkedStorage(Compactable, EventFork, Protocol):
    """A store that compacts, and forks."""


async def climbed(store: Storage, *, taken: Sequence[int] = (POINT,)) -> int:
    """Bring a run to its first gate, with snapshots *taken*, and return the number of its events."""
    outcome = await climber(store).start(stairs, 5, id=RUN)
    for at in taken:
        await take_snapshot(store, await row_of(store, RUN), at=at)
    return outcome.length


async def whole(store: ForkedStorage, run: ExecutionId = RUN) -> tuple[Sequence[EventRecord], list[Snapshot | None]]:
    """Return all that the store has of a log: its events and its snapshots, as stored."""
    life = (await row_of(store, run)).incarnation
    heads = await store.snapshots(run, life)
    return await store.read(run), [await store.latest_snapshot(run, life, upto=head.sequence) for head in heads]


async def answered(store: Storage, run: ExecutionId) -> Any:
    """Bring a run to its end."""
    await climber(store).resume(run)
    outcomes = [await climber(store).resume(run, answer=answer) for answer in "abc"]
    return outcomes[-1].result()


async def state_text(store: Storage, run: ExecutionId) -> str:
    """Return the state of a run, but for what is another in each fork."""
    state = state_json((await load(store, run)).state)
    return (
        orjson.dumps({name: state[name] for name in state.keys() - {"at", "facts"}}, option=SORTED)
        .decode()
        .replace(f'"{run}"', '"it"')
    )


class CompactedForks:
    """Inherit it, and give the fixture *store*."""

    @pytest.mark.proves("LIF-06")
    async def test_a_fork_where_a_snapshot_stands_is_what_it_was_before_the_log_was_compacted(
        self, store: ForkedStorage
    ) -> None:
        await climbed(store)
        await climber(store).fork(RUN, at=POINT, id="before")
        await compacted(store, MemoryStorage(), RUN)
        left = await whole(store)

        forked = await climber(store).fork(RUN, at=POINT, id=FORK, principal="ann", reason="what if")

        assert (forked.status, forked.length) == ("forked", POINT + 2)
        assert await here(store, FORK) == [0, POINT + 1]
        assert await state_text(store, FORK) == await state_text(store, ExecutionId("before"))
        [event] = [event for event in await climber(store).events(FORK) if event.type == "EXECUTION_FORKED"]
        assert event.payload.source == {"execution_id": RUN, "incarnation": left_life(left), "sequence": POINT}
        assert await answered(store, FORK) == await answered(store, ExecutionId("before")) == ["up", 5, "a", "b", "c"]
        assert await whole(store) == left

    @pytest.mark.proves("LIF-06")
    @pytest.mark.parametrize("times", [1, 2])
    async def test_one_that_a_compaction_overtakes_is_made_of_what_is_there_then(
        self, store: ForkedStorage, monkeypatch: pytest.MonkeyPatch, times: int
    ) -> None:
        await climbed(store)
        fork, through = store.fork, iter([POINT - 2, None][-times:])

        async def overtaken(source: Source, item: Append, *, checkpoint: Snapshot | None = None) -> Forked:
            if (last := next(through, 0)) != 0:
                await compacted(store, MemoryStorage(), RUN, through=last)
            return await fork(source, item, checkpoint=checkpoint)

        monkeypatch.setattr(store, "fork", overtaken)
        forked = await climber(store).fork(RUN, at=POINT, id=FORK)

        assert (forked.status, forked.length) == ("forked", POINT + 2)
        assert await answered(store, FORK) == ["up", 5, "a", "b", "c"]

    async def test_one_that_is_overtaken_again_and_again_says_to_ask_again(
        self, store: ForkedStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await climbed(store)

        async def overtaken(*_: object, **__: object) -> Forked:
            return SourceLacking()

        monkeypatch.setattr(store, "fork", overtaken)
        with pytest.raises(ForkRefused, match="its log has changed meanwhile") as refused:
            await climber(store).fork(RUN, at=POINT, id=FORK)

        assert refused.value.hint == "Ask again, once nobody compacts it any more."
        assert await store.head(FORK) is None

    async def test_anywhere_else_it_is_refused_and_told_where_it_can_be(self, store: ForkedStorage) -> None:
        length = await climbed(store, taken=(3, POINT))
        await compacted(store, MemoryStorage(), RUN)
        left = await whole(store)

        for at in (2, POINT - 1, POINT + 1, length - 3):
            with pytest.raises(CompactedForkPoint, match=f"cannot be forked at event {at}$") as refused:
                await climber(store).fork(RUN, at=at, id=FORK)
            assert refused.value.points == (3, POINT)
            assert (
                refused.value.hint
                == f"It can be forked at event 3, {POINT}, and at any from {refused.value.through} on."
            )

        assert await store.head(FORK) is None
        assert await whole(store) == left

    async def test_without_a_snapshot_it_can_be_forked_behind_the_checkpoint_only(self, store: ForkedStorage) -> None:
        length = await climbed(store, taken=())
        done = await compacted(store, MemoryStorage(), RUN, through=length - 4)
        assert done.through is not None

        with pytest.raises(CompactedForkPoint) as refused:
            await climber(store).fork(RUN, at=POINT)
        forks = [(await climber(store).fork(RUN, at=at)).execution_id for at in range(done.through, length)]

        assert refused.value.hint == f"It can be forked at any event from {done.through} on."
        assert [await answered(store, ExecutionId(fork)) for fork in forks] == 4 * [["up", 5, "a", "b", "c"]]

    async def test_a_snapshot_that_is_damaged_is_none(self, store: ForkedStorage) -> None:
        await climbed(store)
        good = await store.latest_snapshot(RUN, (await row_of(store, RUN)).incarnation, upto=POINT)
        assert good is not None
        await store.put_snapshot(good._replace(body=good.body.replace(b'"at"', b'"ta"', 1)))
        await compacted(store, MemoryStorage(), RUN)

        with pytest.raises(CompactedForkPoint, match="a snapshot that cannot be used: it is damaged") as refused:
            await climber(store).fork(RUN, at=POINT)

        assert refused.value.points == ()

    async def test_a_fork_point_is_not_pruned_once_the_log_is_compacted(self, store: ForkedStorage) -> None:
        await climbed(store, taken=(3, POINT))
        await compacted(store, MemoryStorage(), RUN)

        await prune_snapshots(store)

        assert (await climber(store).fork(RUN, at=3)).length == 5
        assert (await climber(store).fork(RUN, at=POINT)).length == POINT + 2

    @pytest.mark.proves("LIF-06", "LIF-12")
    @pytest.mark.parametrize(
        "way", [(POINT, None), tuple(range(1, POINT + 4))], ids=["exactly there", "event by event"]
    )
    async def test_a_fork_point_outlives_compaction_up_to_it_and_then_beyond(
        self, store: ForkedStorage, way: Sequence[int | None]
    ) -> None:
        await climbed(store, taken=(POINT - 1, POINT))
        await climber(store).fork(RUN, at=POINT, id="before")

        for through in way:
            await compacted(store, MemoryStorage(), RUN, through=through)

        await climber(store).fork(RUN, at=POINT - 1)
        await climber(store).fork(RUN, at=POINT, id=FORK)
        assert await state_text(store, FORK) == await state_text(store, ExecutionId("before"))

    async def test_a_snapshot_of_what_is_compacted_can_be_taken_where_it_is_known_only(
        self, store: ForkedStorage
    ) -> None:
        length = await climbed(store)
        done = await compacted(store, MemoryStorage(), RUN, through=length - 3)
        row, through = await row_of(store, RUN), done.through
        assert through is not None

        with pytest.raises(CompactedForkPoint):
            await take_snapshot(store, row, at=2)
        kept = [await take_snapshot(store, row, at=at) for at in (POINT, through, length - 2)]

        assert [head.is_checkpoint for head in kept] == [False, True, False]
        await compacted(store, MemoryStorage(), RUN)
        assert await answered(store, ExecutionId((await climber(store).fork(RUN, at=length - 2)).execution_id))

    async def test_a_fork_is_compacted_and_forked_like_any_log_and_the_archive_has_its_story(
        self, store: ForkedStorage
    ) -> None:
        await climbed(store)
        before, archive = await told(store, MemoryStorage(), RUN), MemoryStorage()
        await compacted(store, archive, RUN)
        await climber(store).fork(RUN, at=POINT, id=FORK)
        await climber(store).resume(FORK)
        events = await told(store, archive, FORK)
        await compacted(store, archive, FORK)
        [at] = {(await row_of(store, FORK)).length - 2}
        await climber(store).fork(FORK, at=at, id="deep")

        assert events[: POINT + 1] == before[: POINT + 1]
        assert numbered(events) == list(range(len(events)))
        assert await told(store, archive, FORK) == events
        assert (await told(store, archive, "deep"))[: at + 1] == events[: at + 1]
        assert await answered(store, ExecutionId("deep")) == ["up", 5, "a", "b", "c"]

    async def test_an_edit_is_placed_where_the_log_is_known(self, store: ForkedStorage) -> None:
        await climbed(store, taken=())
        way = next(e.sequence for e in await climber(store).events(RUN) if e.type == "DECISION_RECORDED")
        await take_snapshot(store, await row_of(store, RUN), at=way - 1)
        await compacted(store, MemoryStorage(), RUN)

        with pytest.raises(CompactedForkPoint):
            await climber(store).fork(RUN, edit=Edit("climb", "output", 70))
        await climber(store).fork(RUN, edit=Edit("way", "output", "down"), id=FORK)

        assert await answered(store, FORK) == ["down", 5, "a", "b", "c"]

    async def test_the_checkpoint_of_a_fork_is_its_own(self, store: ForkedStorage) -> None:
        await climbed(store)
        await compacted(store, MemoryStorage(), RUN)
        await climber(store).fork(RUN, at=POINT, id=FORK)

        _, [checkpoint] = await whole(store, FORK)

        assert checkpoint is not None
        assert checkpoint.head.is_checkpoint
        assert checkpoint.head.incarnation == (await row_of(store, FORK)).incarnation
        assert {event.execution_id for event in events_of(checkpoint)} == {FORK}


def events_of(snapshot: Snapshot) -> list[Any]:
    state = state_of(snapshot)
    return [event for settled in state.settled for event in settled]


def left_life(left: tuple[Sequence[EventRecord], list[Snapshot | None]]) -> int:
    [life] = {snapshot.head.incarnation for snapshot in left[1] if snapshot is not None}
    return life
