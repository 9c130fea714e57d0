"""Reading a run through its snapshot: only the tail is read, and a snapshot that cannot be used is told of and not believed."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from loom.core.errors import SnapshotIgnored
from loom.core.ids import ExecutionId, Incarnation
from loom.driving import snapshot_codecs, snapshots
from loom.driving.errors import SnapshotUnusable
from loom.driving.loading import load
from loom.driving.snapshot_codecs import CodecNotAvailable
from loom.driving.snapshots import snapshot_of, state_of
from loom.driving.state_codec import decode, encode
from loom.kernel.errors import LogCorrupt, LogNewerThanCode
from loom.lenses.folding import state_digest
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import Snapshot, snapshot_digest
from tests.driving.long_runs import RUN, CountedMemory, CountedSqlite, climber, sequences, stairs, written

LENGTH = 300
CODECS = ("json", "zstd")


async def snapped(storage: Any, *, length: int = LENGTH, **options: Any) -> int:
    """Write a long run and have it parked once, so that it has a snapshot; return how long its log is."""
    await written(storage, length)
    outcome = await climber(storage, **options).resume(RUN, answer="a")
    assert await sequences(storage) == [outcome.length - 1]
    return outcome.length


async def newest(storage: Any) -> Snapshot:
    row = await storage.row(RUN)
    found: Snapshot = await storage.latest_snapshot(RUN, row.incarnation)
    return found


def signed(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with the digest of what it is now."""
    return Snapshot(snapshot.head._replace(digest=snapshot_digest(*snapshot)), snapshot.body)


# The tail alone


@pytest.mark.proves("LIF-02")
@pytest.mark.parametrize("codec", CODECS)
async def test_resuming_a_long_run_reads_what_is_after_its_snapshot(codec: str, tmp_path: Path) -> None:
    storage = CountedSqlite(tmp_path / "loom.db")
    await snapped(storage, snapshot_codec=codec)
    storage.read_events = 0

    outcome = await climber(storage).resume(RUN, answer="b")

    assert outcome.status == "suspended"
    assert storage.read_events == 0
    await climber(storage).resume(RUN, answer="c")
    assert storage.read_events == outcome.length - 1 - (await sequences(storage))[0]
    assert (await climber(storage).load_state(RUN)).facts.result == ["up", (LENGTH - 4) // 2, "a", "b", "c"]
    await storage.close()


async def test_the_state_is_that_of_the_whole_log_at_every_snapshot_and_every_length() -> None:
    storage = MemoryStorage()
    over = climber(storage, snapshot_every=1)
    await over.start(stairs, 100, id=RUN)
    await over.resume(RUN, answer="a")
    whole = await load(Forgetting(storage), RUN)

    assert whole.state.length > 200
    for sequence in await sequences(storage):
        found = await load(Upto(storage, sequence), RUN)
        assert found.snapshot == sequence
        assert found.state == whole.state
        assert state_digest(found.state) == state_digest(whole.state)


@pytest.mark.parametrize("at", [LENGTH + 3, LENGTH + 1])
async def test_a_fork_of_a_long_run_reads_what_is_after_its_snapshot(at: int, tmp_path: Path) -> None:
    storage = CountedSqlite(tmp_path / "loom.db")
    await snapped(storage)
    [sequence] = await sequences(storage)
    await climber(storage).resume(RUN, answer="b")
    storage.read_events = 0

    await climber(storage).fork(RUN, at=at, id="fork")

    assert storage.read_events == (at - sequence if at >= sequence else at + 1)
    assert await load(storage, "fork") == (await load(cast(Any, Forgetting(storage)), "fork"))
    await storage.close()


async def test_a_fork_of_a_run_whose_snapshot_is_damaged_reads_its_log() -> None:
    storage = CountedMemory()
    length = await snapped(storage)
    kept = await newest(storage)
    await storage.put_snapshot(Snapshot(kept.head, kept.body + b" "))
    storage.read_events = 0

    with pytest.warns(SnapshotIgnored, match="damaged"):
        await climber(storage).fork(RUN, at=length - 1, id="fork")

    assert storage.read_events == length
    assert (await load(storage, "fork")).state.status == "forked"


class Forgetting:
    """A store whose snapshots nobody sees."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        if "snapshot" in name:
            raise AttributeError(name)
        return getattr(self._kept, name)


class Upto(MemoryStorage):
    """A store whose latest snapshot is that at *sequence*."""

    def __init__(self, kept: MemoryStorage, sequence: int) -> None:
        super().__init__()
        self._kept, self._logs, self._sequence = kept._kept, kept._logs, sequence

    async def latest_snapshot(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, upto: int | None = None
    ) -> Snapshot | None:
        return await super().latest_snapshot(execution_id, incarnation, upto=self._sequence)


@pytest.mark.proves("KER-14")
async def test_decisions_have_the_order_and_the_sequences_that_were_recorded() -> None:
    storage = MemoryStorage()
    await snapped(storage)

    def decisions(state: Any) -> list[tuple[int, str]]:
        outcomes = [settled.outcome for settled in state.settled]
        return [(event.sequence, event.payload.id) for event in outcomes if event.type == "DECISION_RECORDED"]

    through, whole = await load(storage, RUN), await load(Forgetting(storage), RUN)

    assert (through.snapshot, whole.snapshot) == (through.state.sequence, -1)
    assert decisions(through.state) == decisions(whole.state) == [(1, "way")]


async def test_a_short_run_is_read_without_looking_for_a_snapshot() -> None:
    storage = CountedMemory()
    await climber(storage).start(stairs, 50, id=RUN)

    await climber(storage).resume(RUN, answer="a")

    assert storage.calls == []


async def test_waiting_for_a_run_reads_no_more_of_it() -> None:
    storage = CountedMemory()
    await snapped(storage)
    storage.read_events = 0

    outcome = await climber(storage).wait_for_suspend(RUN)

    assert outcome.status == "suspended"
    assert storage.read_events == 0


# What cannot be used


def flipped(snapshot: Snapshot, bit: int) -> Snapshot:
    body = bytearray(snapshot.body)
    body[bit // 8] ^= 1 << bit % 8
    return snapshot._replace(body=bytes(body))


def _lies(**changes: Any) -> Callable[[Snapshot], Snapshot]:
    return lambda snapshot: snapshot._replace(head=snapshot.head._replace(**changes))


def _of_another(snapshot: Snapshot) -> Snapshot:
    """A whole snapshot whose state is that of another run."""
    other = decode(snapshot.body)._replace(execution_id=ExecutionId("other"))
    body = encode(other)
    return signed(Snapshot(snapshot.head._replace(size=len(body)), body))


def _of_another_place(snapshot: Snapshot) -> Snapshot:
    body = encode(decode(snapshot.body)._replace(sequence=3))
    return signed(Snapshot(snapshot.head._replace(size=len(body)), body))


SPOILED: dict[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "cut short": (lambda s: s._replace(body=s.body[:-1]), "its digest"),
    "empty": (lambda s: s._replace(body=b""), "its digest"),
    "another digest": (_lies(digest="0" * 64), "its digest"),
    "another codec in the head": (_lies(codec="zstd"), "its digest"),
    "a checkpoint in the head": (_lies(is_checkpoint=True), "its digest"),
    "signed, and no JSON": (lambda s: signed(s._replace(body=b"{")), "JSONDecodeError"),
    "signed, and no state": (lambda s: signed(s._replace(body=b"[]")), "TypeError"),
    "signed, and no frame": (lambda s: signed(_lies(codec="zstd")(s)), "no zstd frame"),
    "of a codec to come": (lambda s: signed(_lies(codec="brotli")(s)), "'brotli' is not known"),
    "of another run": (_of_another, "it holds other"),
    "of another place": (_of_another_place, "at 3"),
    "of another fold": (lambda s: signed(_lies(fold_version="0.9.0")(s)), "fold 0.9.0"),
    "of a fold to come": (lambda s: signed(_lies(fold_version="2.0.0")(s)), "fold 2.0.0"),
    "of another codec of states": (lambda s: signed(_lies(state_codec_version="1.1.0")(s)), "codec 1.1.0"),
}


@pytest.mark.proves("LIF-04")
@pytest.mark.parametrize("kind", SPOILED)
async def test_one_that_cannot_be_used_is_told_of_and_the_log_folded(kind: str) -> None:
    spoil, why = SPOILED[kind]
    storage = CountedMemory()
    length = await snapped(storage)
    whole = (await load(storage, RUN)).state
    await storage.put_snapshot(spoil(await newest(storage)))
    storage.read_events = 0

    with pytest.warns(SnapshotIgnored, match=why) as told:
        found = await load(storage, RUN)

    assert f"the snapshot of {RUN} at {length - 1} cannot be used" in str(told[0].message)
    assert "the log is folded instead" in str(told[0].message)
    assert (found.state, found.snapshot, storage.read_events) == (whole, -1, length)


@pytest.mark.proves("LIF-04")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", [20, 21])
async def test_any_flipped_bit_is_seen(codec: Any, seed: int) -> None:
    storage = MemoryStorage()
    await snapped(storage, snapshot_codec=codec)
    snapshot = await newest(storage)
    chance = random.Random(seed)

    for bit in (0, len(snapshot.body) * 8 - 1, *(chance.randrange(len(snapshot.body) * 8) for _ in range(200))):
        with pytest.raises(SnapshotUnusable, match="its digest"):
            state_of(flipped(snapshot, bit))


@pytest.mark.proves("LIF-04")
async def test_a_flipped_bit_is_mended_at_the_next_park() -> None:
    storage = CountedMemory()
    length = await snapped(storage)
    await storage.put_snapshot(flipped(await newest(storage), 999))

    with pytest.warns(SnapshotIgnored):
        outcome = await climber(storage).resume(RUN, answer="b")

    assert await sequences(storage) == [length - 1, outcome.length - 1]
    storage.read_events = 0
    assert (await climber(storage).resume(RUN, answer="c")).result()[-3:] == ["a", "b", "c"]
    assert storage.read_events == 0


async def test_one_is_told_of_once_though_it_is_read_again_and_again() -> None:
    storage = MemoryStorage()
    await snapped(storage)
    await storage.put_snapshot(flipped(await newest(storage), 5))

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            await load(storage, RUN)

    assert len(told) == 1


@pytest.mark.proves("LIF-13")
async def test_a_store_may_hold_both_codecs_and_nothing_is_written_anew() -> None:
    storage = MemoryStorage()
    for count, codec in enumerate(("json", "zstd", "json", "zstd")):
        over = climber(storage, snapshot_codec=codec, snapshot_every=1)
        if not count:
            await over.start(stairs, 120, id=RUN)
        else:
            await over.resume(RUN, answer="a")
    row = await storage.row(RUN)
    assert row is not None
    heads = list(await storage.snapshots(RUN, row.incarnation))

    assert {head.codec for head in heads} == {"json", "zstd"}
    whole = (await load(Forgetting(storage), RUN)).state
    for head in heads[:40]:
        assert (await load(Upto(storage, head.sequence), RUN)).state == whole
    assert list(await storage.snapshots(RUN, row.incarnation)) == heads


@pytest.fixture
def without_zstd(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setitem(sys.modules, snapshot_codecs._MODULE, None)


@pytest.mark.proves("LIF-13")
async def test_without_what_decompresses_it_is_told_in_words_and_the_log_folded(
    without_zstd: Callable[[], None],
) -> None:
    storage = MemoryStorage()
    length = await snapped(storage, snapshot_codec="zstd")
    without_zstd()

    with pytest.warns(SnapshotIgnored, match="which is not installed"):
        found = await load(storage, RUN)

    assert (found.state.length, found.snapshot) == (length, -1)


@pytest.mark.proves("LIF-13")
def test_without_what_compresses_an_app_is_refused_in_words(without_zstd: Callable[[], None]) -> None:
    without_zstd()

    with pytest.raises(CodecNotAvailable, match="which is not installed") as refused:
        climber(snapshot_codec="zstd")

    assert "pip install 'loom-runtime[zstd]'" in refused.value.hint
    climber(snapshot_codec="json")


async def test_a_run_under_newer_rules_is_not_driven_from_a_snapshot_either() -> None:
    storage = MemoryStorage()
    await snapped(storage)
    state = (await load(storage, RUN)).state
    newer = state._replace(facts=state.facts._replace(rules={**state.facts.rules, "delivery": 2}))
    head = await storage.head(RUN)
    assert head is not None
    await storage.put_snapshot(snapshot_of(newer, head.incarnation, at=0))

    with pytest.raises(LogNewerThanCode, match="delivery"):
        await load(storage, RUN)


# Where events were taken out of the log


class Compacted(CountedMemory):
    """A store out of whose log the events up to *upto* were taken, but for the first."""

    upto = 0

    async def read(self, *args: Any, **kwargs: Any) -> Sequence[EventRecord]:
        return [each for each in await super().read(*args, **kwargs) if each.sequence == 0 or each.sequence > self.upto]


async def compacted(length: int = LENGTH) -> Compacted:
    """Return a store with a run that stands, up to its park, in a checkpoint alone, and has gone on since."""
    storage = Compacted()
    await snapped(storage, length=length)
    head = await storage.head(RUN)
    assert head is not None
    state = (await load(storage, RUN)).state
    await climber(storage).resume(RUN, answer="b")
    await storage.put_snapshot(snapshot_of(state, head.incarnation, at=0, is_checkpoint=True))
    storage.upto = state.sequence
    return storage


async def test_a_compacted_run_goes_on_from_its_checkpoint() -> None:
    storage = await compacted()

    assert (await climber(storage).resume(RUN, answer="c")).result()[-3:] == ["a", "b", "c"]


async def test_a_compacted_run_goes_on_from_its_checkpoint_though_a_later_snapshot_is_damaged() -> None:
    storage = await compacted()
    later = snapshot_of((await load(storage, RUN)).state, (await newest(storage)).head.incarnation, at=0)
    await storage.put_snapshot(flipped(later, 7))

    with pytest.warns(SnapshotIgnored):
        found = await load(storage, RUN)

    assert found.snapshot == storage.upto


async def test_a_short_run_that_was_compacted_is_found_in_its_checkpoint() -> None:
    storage = Compacted()
    await climber(storage).start(stairs, 10, id=RUN)
    state, row, _ = await load(storage, RUN)
    await storage.put_snapshot(snapshot_of(state, row.incarnation, at=0, is_checkpoint=True))
    storage.upto = state.sequence

    assert (await load(storage, RUN)).state == state


@pytest.mark.parametrize(
    ("present", "is_read"),
    [
        (("1.1.0", "1.0.0"), True),
        (("1.0.0", "1.10.3"), True),
        (("2.0.0", "1.0.0"), False),
        (("1.0.0", "0.9.0"), False),
    ],
)
async def test_a_checkpoint_of_an_earlier_minor_version_is_read(
    present: tuple[str, str], is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await compacted()
    monkeypatch.setattr(snapshots, "_PRESENT", present)

    if is_read:
        assert (await load(storage, RUN)).snapshot == storage.upto
    else:
        with pytest.raises(SnapshotUnusable, match=r"it was made by fold 1\.0\.0"), pytest.warns(SnapshotIgnored):
            await load(storage, RUN)


async def test_a_snapshot_of_an_earlier_version_is_not_used_where_the_log_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = MemoryStorage()
    await snapped(storage)
    monkeypatch.setattr(snapshots, "_PRESENT", ("1.1.0", "1.0.0"))

    with pytest.warns(SnapshotIgnored, match="this code has 1.1.0 and 1.0.0"):
        assert (await load(storage, RUN)).snapshot == -1


@pytest.mark.filterwarnings("ignore::loom.core.errors.SnapshotIgnored")
@pytest.mark.parametrize("kind", ["cut short", "of a fold to come", "of another codec of states", "of another run"])
async def test_a_checkpoint_that_cannot_be_used_is_refused_in_words(kind: str) -> None:
    storage = await compacted()
    await storage.put_snapshot(SPOILED[kind][0](await newest(storage)))

    with pytest.raises(SnapshotUnusable) as refused:
        await climber(storage).resume(RUN, answer="c")

    assert refused.value.sequence == storage.upto
    assert "read the events before it back" in refused.value.hint


async def test_events_that_are_missing_without_a_checkpoint_are_damage() -> None:
    storage = Compacted()
    await written(storage, LENGTH)
    storage.upto = 250

    with pytest.raises(LogCorrupt, match="without a gap") as refused:
        await load(storage, RUN)

    assert refused.value.sequence == 1
