"""Reading a bundle, which may be damaged, or made to do harm: nothing in it is believed before it is checked.

No member is ever written to a file, so no name in it leads anywhere. No more is unpacked at once than a part may hold, whatever a
member claims, and all that is claimed must be less than what a file of that size can hold.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn

from loom.core.errors import LoomError
from loom.core.ids import ContentRef
from loom.plugins.bundle import lines, shapes
from loom.plugins.bundle.refusing import NotABundle
from loom.plugins.bundle.shapes import LogEntry, Manifest, Part
from loom.spi.content_store import PIECE_BYTES_MAX
from loom.spi.errors import StoreCorrupt, StoreNewer, StoreNotFound
from loom.spi.event_store import EventRecord
from loom.spi.snapshot_store import Snapshot, SnapshotHead, snapshot_digest

_DEFLATE_MOST: Final = 1_032
"""No deflated byte unpacks to more than so many."""
_BEGINS: Final = b"PK"
_ENCRYPTED: Final = 1
_DAMAGED: Final = "Ask for it anew, or make it again: loom bundle ID. Nothing was changed."
_UNREADABLE: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError)


def comment_of(digest: str) -> bytes:
    """Return the comment of the zip whose manifest has that digest."""
    return f"{shapes.FORMAT} {shapes.VERSION} sha256:{digest}".encode()


class BundleFile:
    """A bundle that is open, and whose manifest was checked; its other members are when they are read.

    Raises:
        StoreNotFound: there is no such file.
        NotABundle: it is none.
        StoreCorrupt: it was cut off, or is not what its manifest says.
        StoreNewer: a later Loom has written it.
    """

    def __init__(self, path: Path, *, url: str) -> None:
        self._path, self._url = path, url
        self._zip = self._opened()
        try:
            self.digest, self.manifest = self._checked()
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()

    def records(self, log: LogEntry, part: Part) -> Sequence[EventRecord]:
        """Return the events of a part of *log*."""
        run_id, records = log.row.execution_id, list[EventRecord]()
        for line in self._read(part.name, part.bytes, part.sha256).splitlines():
            try:
                records.append(lines.record_of(run_id, line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                self._damaged(f"line {len(records) + 1} of {part.name} is no event: {error}", error)
        sequences = [record.sequence for record in records]
        rising = all(before < after for before, after in pairwise(sequences))
        span = range(part.first, self._end(log, part))
        if len(records) != part.events or sequences[0] != part.first or sequences[-1] not in span or not rising:
            self._damaged(f"{part.name} does not hold the events that the manifest says")
        return records

    def pages(self, log: LogEntry) -> Iterator[Sequence[EventRecord]]:
        """Yield the events of *log*, part by part."""
        for part in log.parts:
            yield self.records(log, part)

    def checkpoint(self, log: LogEntry) -> Snapshot | None:
        """Return the checkpoint of *log*, None where it has none."""
        entry = log.checkpoint
        if entry is None:
            return None
        body = self._read(entry.name, entry.bytes, entry.sha256)
        head = SnapshotHead(
            execution_id=log.row.execution_id,
            incarnation=log.row.incarnation,
            sequence=entry.sequence,
            fold_version=entry.fold_version,
            state_codec_version=entry.state_codec_version,
            codec="json",
            is_checkpoint=True,
            at=entry.at,
            size=len(body),
            digest="",
        )
        return Snapshot(head._replace(digest=snapshot_digest(head, body)), body)

    def content(self, ref: ContentRef) -> Iterator[bytes]:
        """Yield a content that the manifest names, in pieces of `PIECE_BYTES_MAX` at most; its address is checked at the end."""
        name, size = shapes.content_name(ref), self.manifest.contents[ref]
        hashed, length = sha256(), 0
        try:
            with self._zip.open(name) as member:
                while piece := member.read(PIECE_BYTES_MAX):
                    hashed.update(piece)
                    length += len(piece)
                    if length > size:
                        self._damaged(f"{name} is larger than the manifest says")
                    yield piece
        except _UNREADABLE as error:
            self._damaged(f"{name} cannot be read: {error}", error)
        if hashed.hexdigest() != ref:
            self._damaged(f"{name} is not what its address says")

    def _opened(self) -> zipfile.ZipFile:
        if not self._path.exists():
            hint = "Look at its name; loom bundle ID writes one."
            raise StoreNotFound("there is no such bundle", store=self._url, hint=hint)
        try:
            if not self._path.is_file():  # to read a pipe would be to wait for whoever writes to it
                self._damaged("it is no file")
            with self._path.open("rb") as file:
                if not file.read(len(_BEGINS)).startswith(_BEGINS):
                    self._no_bundle()
            return zipfile.ZipFile(self._path)
        except _UNREADABLE as error:
            self._damaged(f"it is no bundle, or was cut off: {error}", error)

    def _checked(self) -> tuple[str, Manifest]:
        told, _, digest = self._zip.comment.partition(b" sha256:")
        if told.split(b" ")[0] != shapes.FORMAT.encode():
            self._no_bundle()
        infos = {info.filename: info for info in self._zip.infolist()}
        if len(infos) < len(self._zip.infolist()):
            self._damaged("it holds a member twice")
        info = infos.pop(shapes.MANIFEST, None)
        if info is None or info.file_size > shapes.MANIFEST_BYTES_MAX:
            self._damaged("its manifest is not there, or larger than one may be")
        text = self._read(shapes.MANIFEST, info.file_size, digest.decode("ascii", "replace"))
        manifest = self._parsed(text)
        claimed = dict(shapes.members(manifest))
        if other := sorted(claimed.keys() ^ infos.keys()):
            lacking = "is not there" if other[0] in claimed else "is not in the manifest"
            self._damaged(f"the member {other[0]!r} {lacking}")
        if wrong := [name for name, size in claimed.items() if infos[name].file_size != size]:
            self._damaged(f"the member {wrong[0]!r} has not the size that the manifest says")
        if sum(claimed.values()) > self._path.stat().st_size * _DEFLATE_MOST:
            self._damaged("it claims to hold more than a file of its size can")
        return digest.decode("ascii"), manifest

    def _parsed(self, text: bytes) -> Manifest:
        try:
            version = shapes.version_of(text)
            if version <= shapes.VERSION:
                return shapes.manifest_of(text)
        except (ValueError, LookupError, TypeError, LoomError) as error:
            self._damaged(f"its manifest cannot be read: {error}", error)
        what = f"it has version {version} of the format, and this Loom reads {shapes.VERSION}"
        raise StoreNewer(what, store=self._url, hint="Open it with the Loom that wrote it, or a later one.")

    def _read(self, name: str, size: int, digest: str) -> bytes:
        """Return a member, of which no more is unpacked than *size* and one byte."""
        try:
            with self._zip.open(name) as member:
                data = member.read(size + 1)
        except _UNREADABLE as error:
            self._damaged(f"{name} cannot be read: {error}", error)
        if len(data) != size or sha256(data).hexdigest() != digest:
            self._damaged(f"{name} is damaged: its digest is another")
        return data

    def _end(self, log: LogEntry, part: Part) -> int:
        """Return the sequence at which what follows *part* begins."""
        after = (each.first for each in log.parts if each.first > part.first)
        return min(after, default=log.row.length)

    def _no_bundle(self) -> NoReturn:
        raise NotABundle("it is no bundle", store=self._url, hint="Name a file that `loom bundle` has written.")

    def _damaged(self, what: str, cause: BaseException | None = None) -> NoReturn:
        raise StoreCorrupt(what, store=self._url, hint=_DAMAGED) from cause
