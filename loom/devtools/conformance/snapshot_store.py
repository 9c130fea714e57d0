"""What every `SnapshotStore` must do: inherit the class and give the fixture *store*, which is a `Storage` too, empty and open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.event_trim import TrimmedStorage, ended
from loom.devtools.conformance.logs import CLAIM, REFUND, after, appended, first
from loom.spi.event_store import Appended, Storage
from loom.spi.event_trim import Deleted
from loom.spi.snapshot_store import Snapshot, SnapshotHead, SnapshotStore, snapshot_digest

BYTES = bytes(range(256)) * 3


class SnappedStorage(SnapshotStore, Storage, Protocol):
    """A store of logs that keeps snapshots of them as well."""


def snapshot(log: Appended, sequence: int, *, body: bytes = BYTES, run: ExecutionId = REFUND, **more: Any) -> Snapshot:
    """Return a snapshot of a life after the event at *sequence*; *more* are other fields of its head."""
    head = SnapshotHead(run, log.incarnation, sequence, "1.0.0", "1.2.0", "json", False, 5_000, len(body), "")
    head = head._replace(**more)
    return Snapshot(head._replace(digest=snapshot_digest(head, body)), body)


async def log_of(store: Storage, length: int, run: ExecutionId = REFUND) -> Appended:
    """Return a log of *length* events that was just begun."""
    return await appended(store, first(run, *([b"{}"] * length)))


async def put(store: SnapshotStore, *snapshots: Snapshot) -> Sequence[Snapshot]:
    """Put snapshots, each of which must be kept."""
    for each in snapshots:
        assert await store.put_snapshot(each)
    return snapshots


async def kept(store: SnapshotStore, log: Appended, run: ExecutionId = REFUND) -> list[int]:
    """Return the sequences of the snapshots that there are, the newest first."""
    return [head.sequence for head in await store.snapshots(run, log.incarnation)]


class SnapshotStoreConformance:
    """Folded states beside their logs."""

    async def test_it_is_a_snapshot_store(self, store: SnappedStorage) -> None:
        assert isinstance(store, SnapshotStore)

    async def test_a_run_without_snapshots_has_none(self, store: SnappedStorage) -> None:
        log = await log_of(store, 3)

        assert await store.latest_snapshot(REFUND, log.incarnation) is None
        assert list(await store.snapshots(REFUND, log.incarnation)) == []
        assert list(await store.executions_with_snapshots()) == []

    async def test_a_snapshot_comes_back_as_it_was_put(self, store: SnappedStorage) -> None:
        log = await log_of(store, 3)
        plain, packed = snapshot(log, 0), snapshot(log, 2, codec="zstd", is_checkpoint=True, body=b"\x00\xff" * 9)

        await put(store, plain, packed)

        assert await store.latest_snapshot(REFUND, log.incarnation) == packed
        assert await store.latest_snapshot(REFUND, log.incarnation, upto=1) == plain
        assert list(await store.snapshots(REFUND, log.incarnation)) == [packed.head, plain.head]

    async def test_what_comes_back_has_the_types_it_was_put_with(self, store: SnappedStorage) -> None:
        """The digest is of the head as well: a number where there was a truth value would be another."""
        log = await log_of(store, 1)
        await put(store, snapshot(log, 0, is_checkpoint=True))

        found = await store.latest_snapshot(REFUND, log.incarnation)

        assert found is not None
        assert snapshot_digest(*found) == found.head.digest
        assert type(found.body) is bytes

    async def test_a_snapshot_is_never_ahead_of_its_log(self, store: SnappedStorage) -> None:
        log = await log_of(store, 3)

        assert not await store.put_snapshot(snapshot(log, 3))
        assert not await store.put_snapshot(snapshot(log, -1))
        assert await kept(store, log) == []
        await appended(store, after(log, REFUND, b"{}"))
        assert await store.put_snapshot(snapshot(log, 3))

    async def test_a_snapshot_of_another_life_or_of_no_run_is_not_kept(self, store: SnappedStorage) -> None:
        log = await log_of(store, 3)
        other = log._replace(incarnation=Incarnation(log.incarnation + 1))

        assert not await store.put_snapshot(snapshot(other, 0))
        assert not await store.put_snapshot(snapshot(log, 0, run=CLAIM))
        assert await kept(store, log) == await kept(store, other) == []

    async def test_a_later_one_for_the_same_place_takes_it(self, store: SnappedStorage) -> None:
        log = await log_of(store, 3)
        damaged, mended = snapshot(log, 1, body=b"?"), snapshot(log, 1, body=b"{}", codec="zstd")

        await put(store, damaged, mended)

        assert await store.latest_snapshot(REFUND, log.incarnation) == mended
        assert await kept(store, log) == [1]

    async def test_a_checkpoint_gives_its_place_to_a_checkpoint_only(self, store: SnappedStorage) -> None:
        log = await log_of(store, 3)
        checkpoint, mended = snapshot(log, 1, is_checkpoint=True), snapshot(log, 1, is_checkpoint=True, body=b"{}")
        await put(store, checkpoint)

        assert not await store.put_snapshot(snapshot(log, 1))
        assert await store.latest_snapshot(REFUND, log.incarnation) == checkpoint
        await put(store, mended)
        assert await store.latest_snapshot(REFUND, log.incarnation) == mended

    async def test_the_latest_is_by_sequence_and_not_by_when_it_came(self, store: SnappedStorage) -> None:
        log = await log_of(store, 9)

        await put(store, *(snapshot(log, at) for at in (4, 8, 2)))

        assert await kept(store, log) == [8, 4, 2]
        assert [head.sequence for head in await store.snapshots(REFUND, log.incarnation, limit=2)] == [8, 4]
        for upto, at in ((8, 8), (7, 4), (4, 4), (3, 2)):
            found = await store.latest_snapshot(REFUND, log.incarnation, upto=upto)
            assert found is not None
            assert found.head.sequence == at
        assert await store.latest_snapshot(REFUND, log.incarnation, upto=1) is None

    async def test_each_run_has_its_own(self, store: SnappedStorage) -> None:
        refund, claim = await log_of(store, 3), await log_of(store, 3, CLAIM)

        await put(store, snapshot(refund, 1), snapshot(claim, 2, run=CLAIM), snapshot(claim, 0, run=CLAIM))

        assert (await kept(store, refund), await kept(store, claim, CLAIM)) == ([1], [2, 0])
        assert await kept(store, claim, REFUND) == []
        found = await store.executions_with_snapshots()
        assert [(head.execution_id, head.sequence) for head in found] == [(CLAIM, 2), (REFUND, 1)]
        assert [head.execution_id for head in await store.executions_with_snapshots(limit=1)] == [CLAIM]
        assert [head.execution_id for head in await store.executions_with_snapshots(after=CLAIM)] == [REFUND]
        assert list(await store.executions_with_snapshots(after=REFUND)) == []

    async def test_deleting_spares_the_latest_checkpoints_and_what_is_not_there(self, store: SnappedStorage) -> None:
        log = await log_of(store, 9)
        await put(store, *(snapshot(log, at, is_checkpoint=at == 2) for at in (1, 2, 3, 5, 8)))

        gone = await store.delete_snapshots(REFUND, log.incarnation, [8, 5, 4, 2, 1, 1])

        assert list(gone) == [1, 5]
        assert await kept(store, log) == [8, 3, 2]
        assert list(await store.delete_snapshots(REFUND, log.incarnation, [])) == []

    async def test_nothing_of_another_life_is_deleted(self, store: SnappedStorage) -> None:
        log, claim = await log_of(store, 3), await log_of(store, 3, CLAIM)
        await put(store, snapshot(log, 0), snapshot(log, 1))

        assert list(await store.delete_snapshots(REFUND, claim.incarnation, [0])) == []
        assert list(await store.delete_snapshots(CLAIM, log.incarnation, [0])) == []
        assert await kept(store, log) == [1, 0]

    async def test_many_at_once_are_all_kept(self, store: SnappedStorage) -> None:
        log = await log_of(store, 40)

        done = await asyncio.gather(*(store.put_snapshot(snapshot(log, at)) for at in range(0, 80, 2)))

        assert done == [True] * 20 + [False] * 20
        assert await kept(store, log) == list(range(38, -1, -2))

    async def test_a_large_body_comes_back_whole(self, store: SnappedStorage) -> None:
        log = await log_of(store, 1)
        large = snapshot(log, 0, body=BYTES * 3_000)

        await put(store, large)

        assert await store.latest_snapshot(REFUND, log.incarnation) == large
        assert [head.size for head in await store.snapshots(REFUND, log.incarnation)] == [len(BYTES) * 3_000]


class TrimmedSnapshots(TrimmedStorage, SnapshotStore, Protocol):
    """A store of logs that can be deleted, with snapshots of them."""


class TrimmedSnapshotsConformance:
    """What becomes of snapshots when runs are deleted, for a store that has both."""

    async def test_the_snapshots_of_a_deleted_run_go_with_it(self, store: TrimmedSnapshots) -> None:
        head, other = await ended(store), await log_of(store, 3, CLAIM)
        log = Appended(head.incarnation, head.length)
        await put(store, snapshot(log, 0, is_checkpoint=True), snapshot(log, 1), snapshot(other, 1, run=CLAIM))

        assert await store.delete([[head]]) == [Deleted(1, 2)]

        assert await store.latest_snapshot(REFUND, head.incarnation) is None
        assert not await store.put_snapshot(snapshot(log, 1))
        assert [each.execution_id for each in await store.executions_with_snapshots()] == [CLAIM]

    async def test_an_id_that_is_used_again_has_no_snapshots(self, store: TrimmedSnapshots) -> None:
        head = await ended(store)
        await put(store, snapshot(Appended(head.incarnation, head.length), 1))
        await store.delete([[head]])

        log = await log_of(store, 2)

        assert await kept(store, log) == []
        assert list(await store.executions_with_snapshots()) == []
        assert not await store.put_snapshot(snapshot(Appended(head.incarnation, head.length), 1))
