"""Pruning snapshots: what may go, that a dry run says just that, and that every run goes on as before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.snapshot_store import SnappedStorage, log_of, put, snapshot
from loom.plugins.sqlite import SqliteStorage
from loom.services.snapshot_pruning import Pruned, prunable, prune_snapshots
from loom.spi.event_store import Appended
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import SnapshotHead
from tests.driving.long_runs import RUN, climber, sequences, stairs

LOG = Appended(Incarnation(1), 1_000)


def head(sequence: int, *, is_checkpoint: bool = False) -> SnapshotHead:
    return snapshot(LOG, sequence, is_checkpoint=is_checkpoint).head


@given(
    st.sets(st.integers(0, 50)).flatmap(lambda all_: st.tuples(st.just(all_), st.sets(st.sampled_from([*all_, 99])))),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_what_may_go_is_all_but_the_newest_and_what_stands_in_compacted_history(
    made: tuple[set[int], set[int]], keep: int, chance: Any
) -> None:
    sequences_, checkpoints = made
    heads = [head(at, is_checkpoint=at in checkpoints) for at in sequences_]
    chance.shuffle(heads)

    gone = [each.sequence for each in prunable(heads, keep=keep)]

    newest = sorted(sequences_)[-keep:]
    compacted = max(checkpoints & sequences_, default=-1)
    assert gone == sorted(at for at in sequences_ - set(newest) if at > compacted)


def test_the_newest_cannot_be_given_up() -> None:
    with pytest.raises(InvalidDeclaration, match="keep=0"):
        prunable([head(1)], keep=0)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SnappedStorage]:
    store = MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


@pytest.mark.proves("LIF-12")
async def test_a_dry_run_says_exactly_what_is_removed_then(store: SnappedStorage) -> None:
    for number in range(5):
        run = ExecutionId(f"run-{number}")
        log = await log_of(store, 20, run)
        made = [snapshot(log, at, run=run, is_checkpoint=at == 2, body=b"x" * at) for at in range(number * 2)]
        await put(store, *made)
    for keep in (3, 1):
        before = await _all(store)

        told = await prune_snapshots(store, keep=keep, dry_run=True)
        assert await _all(store) == before
        done = await prune_snapshots(store, keep=keep)

        assert told == done
        assert done.snapshots == sum(map(len, before.values())) - sum(map(len, (await _all(store)).values())) > 0
        assert await prune_snapshots(store, keep=keep) == Pruned()
    assert await _all(store) == {"run-1": [1], "run-2": [3, 2, 1, 0], "run-3": [5, 2, 1, 0], "run-4": [7, 2, 1, 0]}


async def _all(store: SnappedStorage) -> dict[str, list[int]]:
    return {
        latest.execution_id: [each.sequence for each in await store.snapshots(latest.execution_id, latest.incarnation)]
        for latest in await store.executions_with_snapshots()
    }


@pytest.mark.proves("LIF-12")
async def test_runs_and_their_forks_go_on_after_it() -> None:
    over = climber(snapshot_every=50)
    parked = await over.start(stairs, 150, id=RUN)
    await over.fork(RUN, at=parked.length - 3, id="fork")
    assert len(await sequences(over.storage)) > 1

    pruned = await prune_snapshots(over.storage)

    assert pruned.snapshots == 5
    assert len(await sequences(over.storage)) == 1
    for run in (RUN, "fork"):
        await climber(over.storage).resume(run)
        outcomes = [await climber(over.storage).resume(run, answer=answer) for answer in "abc"]
        assert outcomes[-1].result() == ["up", 150, "a", "b", "c"]


async def test_a_store_that_keeps_none_is_told_so() -> None:
    class Bare:
        url = "bare:"

    bare: Any = Bare()
    with pytest.raises(InvalidDeclaration, match="keeps no snapshots"):
        await prune_snapshots(bare)
