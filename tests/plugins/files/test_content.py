"""Contents in files pass the kit, and survive what happens to files and processes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.content_store import (
    ADA,
    FIRST,
    ContentStoreConformance,
    cited,
    got,
    large,
    listed,
    pieces_of,
)
from loom.plugins.files import FileContent, file_content, shelf
from loom.spi.clock import VirtualClock
from loom.spi.content_store import LEFT_BEHIND_MS, Citer, address_of
from loom.spi.errors import StoreUnavailable
from tests.plugins.putter import faults, killed


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(tmp_path: Path, clock: VirtualClock) -> FileContent:
    return FileContent(tmp_path / "content", clock=clock)


@pytest.mark.proves("DAT-09")
class TestFileContent(ContentStoreConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def store(self, tmp_path: Path, clock: VirtualClock) -> FileContent:
        return FileContent(tmp_path / "content", clock=clock)


def files(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


@pytest.mark.proves("DAT-09")
async def test_a_content_is_one_plain_file_and_reading_makes_none(store: FileContent, tmp_path: Path) -> None:
    assert await got(store, address_of(ADA)) is None
    assert files(tmp_path) == []

    ref = await store.put(ADA)
    await store.put_stream(pieces_of(ADA, 2))

    assert files(tmp_path) == [f"content/{ref[:2]}/{ref}", f"content/{ref[:2]}/lock"]
    assert (tmp_path / "content" / ref[:2] / ref).read_bytes() == ADA


@pytest.mark.proves("DAT-09")
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 40))])
async def test_a_process_that_is_killed_in_the_middle_of_a_put_leaves_no_half(seed: int, tmp_path: Path) -> None:
    place = tmp_path / "content"
    acknowledged = [ref for life in range(2) for ref in killed("files", str(place), seed=100 * seed + life)]

    assert await faults(FileContent(place), acknowledged) == [], f"seed {seed}"


async def test_what_a_killed_put_left_is_tidied_away_a_day_later(
    store: FileContent, clock: VirtualClock, tmp_path: Path
) -> None:
    left = shelf.Shelf(tmp_path / "content", clock.now_ms).draft()
    left.write(b"half of ")
    left.close()

    assert await store.tidy() == 0
    clock.advance(LEFT_BEHIND_MS + 1)
    assert await store.tidy() == 1

    assert files(tmp_path) == []


@pytest.mark.parametrize("torn", [b'{"id":"refund-', b'{"id":"refund-{}', b"\x00\x00\x00", b"5"])
async def test_a_line_that_a_crash_has_torn_costs_no_other_citation(
    torn: bytes, store: FileContent, tmp_path: Path
) -> None:
    ref = await store.put(ADA)
    await store.cite([(ref, FIRST)])
    file = tmp_path / "content" / ref[:2] / f"{ref}.cited"
    file.write_bytes(file.read_bytes() + torn)
    second = Citer(ExecutionId("refund-42"), Incarnation(2))

    await store.cite([(ref, second)])

    assert await cited(store, ref) == {(ref, FIRST), (ref, second)}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("size", [0, 3, 40])
async def test_a_content_that_was_cut_short_is_whole_again_once_it_is_put(
    store: FileContent, tmp_path: Path, size: int, streamed: bool
) -> None:
    ref = await store.put(b"a page of words")
    os.truncate(tmp_path / "content" / ref[:2] / ref, size)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a page of words"

    again = (await store.put_stream(pieces())).ref if streamed else await store.put(b"a page of words")

    assert again == ref
    assert await store.get_many([ref]) == {ref: b"a page of words"}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_content_with_other_bytes_of_the_same_size_is_itself_again_once_it_is_put(
    store: FileContent, tmp_path: Path, streamed: bool
) -> None:
    ref = await store.put(b"a page of words")
    (tmp_path / "content" / ref[:2] / ref).write_bytes(b"a page of WORDS")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a page of words"

    again = (await store.put_stream(pieces())).ref if streamed else await store.put(b"a page of words")

    assert again == ref
    assert (tmp_path / "content" / ref[:2] / ref).read_bytes() == b"a page of words"


async def test_the_time_of_a_touch_is_that_of_the_file(store: FileContent, tmp_path: Path) -> None:
    ref = await store.put(ADA)
    file = tmp_path / "content" / ref[:2] / ref
    os.utime(file, (1_600_000_000, 1_600_000_000))

    assert (await listed(store))[ref].touched_at == 1_600_000_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="no POSIX locks")
async def test_a_lock_that_somebody_keeps_is_told_in_words(
    store: FileContent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    ref = await store.put(ADA)
    monkeypatch.setattr(shelf, "LOCK_WAIT_S", 0.01)
    with (tmp_path / "content" / ref[:2] / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(StoreUnavailable, match=r"kept contents locked for 0\.01 s"):
            await store.put(ADA)
        assert await got(store, ref) == ADA


async def test_a_folder_that_cannot_be_written_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "content").write_text("a file")

    with pytest.raises(StoreUnavailable, match="the file system refused") as refused:
        await FileContent(tmp_path / "content").put(ADA)

    assert "free space" in refused.value.hint


async def test_where_nothing_can_be_locked_nothing_is_removed(
    store: FileContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = await store.put(large())
    monkeypatch.setattr(shelf, "CAN_LOCK", False)

    with pytest.raises(StoreUnavailable, match="cannot be removed safely here"):
        await store.remove((await listed(store)).values())

    assert await got(store, ref) == large()


def test_it_needs_a_folder_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match="is empty"):
        file_content("")

    assert file_content(tmp_path / "content").url == f"files:{tmp_path}/content"
    assert files(tmp_path) == []
