"""A bundle that is damaged, or was made to do harm, is refused in words, and nothing else happens."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import appended, first
from loom.driving.stored_log import stored_records
from loom.plugins.bundle import BundleStorage
from loom.plugins.bundle.shapes import MANIFEST, PART_BYTES_MAX
from loom.spi.errors import StoreCorrupt, StoreError, StoreNewer
from loom.spi.memory import MemoryStorage
from tests.plugins.bundle.packing import Members, changed, members_of, packed, sealed

RUN = ExecutionId("refund-42")
PART = "logs/00001/0000000000.jsonl"


async def bundle_with_a_content() -> bytes:
    store = MemoryStorage()
    ref = await store.content_store().put(b"page" * 1000)
    envelope = b'{"result":{"ref":"%s","size":4000}}' % ref.encode()
    await appended(store, first(RUN, b'{"a":1}', envelope, b'{"b":"%s"}' % (b"x" * 500)))
    return (await packed(store, RUN))[0]


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*")]


async def everything(path: Path) -> Any:
    """Read all that is in a bundle."""
    bundle = BundleStorage(path)
    try:
        await bundle.open()
        records = {run: await stored_records(bundle, run) for run in await bundle.ids()}
        contents = bundle.content_store()
        return records, await contents.get_many([each.ref for each in await contents.contents()])
    finally:
        await bundle.close()


async def test_wherever_it_is_cut_off_it_is_refused(tmp_path: Path) -> None:
    whole, path = await bundle_with_a_content(), tmp_path / "cut.loombundle"

    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreCorrupt):
            await everything(path)


async def test_whichever_byte_is_another_it_is_refused_or_says_the_same(tmp_path: Path) -> None:
    whole, path = await bundle_with_a_content(), tmp_path / "bent.loombundle"
    path.write_bytes(whole)
    says = await everything(path)

    refused = 0
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            assert await everything(path) == says, place  # a date, say, that nobody looks at
        except StoreError:
            refused += 1

    assert refused > len(whole) / 3 * 0.8


def _without(name: str) -> Callable[[Members], Members]:
    return lambda members: {each: data for each, data in members.items() if each != name}


def _with(name: str, data: bytes = b"x") -> Callable[[Members], Members]:
    return lambda members: {**members, name: data}


def _saying(change: Callable[[Any], None]) -> Callable[[Members], Members]:
    return lambda members: changed(members, change)


def _part(manifest: Any) -> Any:
    return manifest["logs"][0]["parts"][0]


HARMFUL: dict[str, tuple[Callable[[Members], Members], str]] = {
    "a path that climbs": (_with("../../etc/passwd"), "is not in the manifest"),
    "an absolute path": (_with("/etc/passwd"), "is not in the manifest"),
    "a part less": (_without(PART), "is not there"),
    "a part of another run": (_with(PART, b'{"execution_id":"other"}\n'), "has not the size"),
    "no manifest's shape": (_with(MANIFEST, b"[]"), "cannot be read"),
    "no JSON": (_with(MANIFEST, b"{"), "cannot be read"),
    "a huge part": (_saying(lambda m: _part(m).update(bytes=PART_BYTES_MAX + 1)), "larger than one may be"),
    "an id that is none": (_saying(lambda m: m["logs"][0].update(id="a b")), "cannot be read"),
    "a length that is none": (_saying(lambda m: m["logs"][0].update(length="7")), "length is str"),
    "events below zero": (_saying(lambda m: _part(m).update(first=-1)), "below zero"),
    "too many events": (_saying(lambda m: m["logs"][0].update(length=1)), "do not make up"),
    "fewer events": (_saying(lambda m: _part(m).update(events=2)), "does not hold the events"),
    "the log twice": (_saying(lambda m: m["logs"].append(m["logs"][0])), "named twice"),
    "an address that is none": (_saying(lambda m: m["contents"].update(x=1)), "cannot be read"),
    "another digest": (_saying(lambda m: _part(m).update(sha256="0" * 64)), "its digest is another"),
    "a run without a log": (_saying(lambda m: m["runs"].append("nobody")), "there is no log of nobody"),
    "gates without an end": (_saying(lambda m: m["logs"][0]["row"].update(gates="[" * 5_000)), "cannot be read"),
    "a gate that is none": (_saying(lambda m: m["logs"][0]["row"].update(gates="[1]")), "cannot be read"),
    "attributes that are none": (_saying(lambda m: m["logs"][0]["row"].update(attributes="[")), "cannot be read"),
    "more than the row knows": (_saying(lambda m: m["logs"][0]["row"].update(wake_at="soon")), "wake_at is str"),
}


@pytest.mark.parametrize("harm", HARMFUL)
async def test_what_was_made_to_do_harm_is_refused_in_words(harm: str, tmp_path: Path) -> None:
    change, words = HARMFUL[harm]
    path = sealed(tmp_path / "harm.loombundle", change(members_of(await bundle_with_a_content())))

    with pytest.raises(StoreCorrupt, match=words):
        await everything(path)

    assert names_in(tmp_path) == ["harm.loombundle"]


async def test_what_claims_to_hold_more_than_it_can_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """Members that overlap: their data is the same, so that each kilobyte of the file stands for a gigabyte."""
    members = members_of(await bundle_with_a_content())
    bomb = bytes(60 << 20)
    manifest = changed(members, lambda m: _claim(m, len(bomb)))
    path = sealed(tmp_path / "bomb.loombundle", {**manifest, PART: bomb})
    small = path.read_bytes()

    with pytest.raises(StoreCorrupt, match=r"its digest is another|more than a file of its size"):
        await everything(path)

    assert len(small) < len(bomb) / 500


def _claim(manifest: Any, size: int) -> None:
    _part(manifest).update(bytes=size)


async def test_a_later_format_is_told_of_as_such(tmp_path: Path) -> None:
    members = members_of(await bundle_with_a_content())
    newer = changed(members, lambda m: m.update(version=2, logs="of another shape"))
    path = sealed(tmp_path / "newer.loombundle", newer)

    with pytest.raises(StoreNewer, match="version 2 of the format, and this Loom reads 1"):
        await everything(path)


async def test_a_zip_a_folder_and_a_text_are_no_bundles(tmp_path: Path) -> None:
    other = sealed(tmp_path / "other.loombundle", {MANIFEST: b"{}"}, comment=b"a holiday")
    text = tmp_path / "text.loombundle"
    text.write_text("hello")
    (tmp_path / "folder.loombundle").mkdir()

    for path in (other, text, tmp_path / "folder.loombundle"):
        with pytest.raises(StoreCorrupt, match="it is no"):
            await everything(path)


async def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO(await bundle_with_a_content())
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(PART, b"x")
    path = tmp_path / "twice.loombundle"
    path.write_bytes(file.getvalue())

    with pytest.raises(StoreCorrupt, match="holds a member twice"):
        await everything(path)


async def test_a_content_that_is_not_what_its_address_says_is_refused(tmp_path: Path) -> None:
    members = members_of(await bundle_with_a_content())
    [name] = [name for name in members if name.startswith("contents/")]
    path = sealed(tmp_path / "harm.loombundle", {**members, name: b"evil" * 1000})

    with pytest.raises(StoreCorrupt, match="not what its address says"):
        await everything(path)
