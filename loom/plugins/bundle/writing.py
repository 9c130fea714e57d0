"""Writing a bundle: log after log, a part at a time, so that little of it is in memory however long the logs are.

A store goes on while it is read. Each log is written as far as its row said that it went; where compaction has moved events away
meanwhile, the checkpoint that it left stands for them, and where that is beyond what is written, all is written anew.
"""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from typing import BinaryIO, Final, NamedTuple

from loom.core.ids import ContentRef
from loom.core.state import empty_state
from loom.driving.errors import ExecutionNotFound, LogCompacted
from loom.driving.snapshot_codecs import unpacked
from loom.driving.stored_log import checkpoint_of
from loom.kernel.codec import decode_events
from loom.kernel.fold import evolve
from loom.plugins.bundle import lines, shapes
from loom.plugins.bundle.file import comment_of
from loom.plugins.bundle.gathering import Wanted, gathered
from loom.plugins.bundle.redacting import Redaction
from loom.plugins.bundle.shapes import CheckpointEntry, LogEntry, Manifest, Part
from loom.rings.citing import named_in
from loom.services.archived import read_archived
from loom.spi.archive_store import ArchiveStore
from loom.spi.content_store import ContentMissing, ContentStore
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import EventRecord, ExecutionRow, Storage
from loom.spi.indexing import gates_text, index_row

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_UNIX: Final = 3
_READABLE: Final = 0o100600 << 16
_TRIES: Final = 5


class Sources(NamedTuple):
    """Where what goes into a bundle is: the store, where its contents are, and the archive of what compaction has moved away."""

    storage: Storage
    contents: ContentStore | None = None
    archive: ArchiveStore | None = None


class Written(NamedTuple):
    """A bundle that was written: its manifest, and the digest of that."""

    manifest: Manifest
    digest: str


class _Moved(Exception):
    """While it was read, a log was compacted past what is written of it, or a content was swept."""


async def write_bundle(
    file: BinaryIO,
    sources: Sources,
    wanted: Wanted,
    *,
    redaction: Redaction | None = None,
    told: Callable[[int], None] = lambda events: None,
) -> Written:
    """Write a bundle of what is *wanted* to *file*, which is empty and can be sought in; *told* is told of events as they are written.

    With a *redaction* values are left out, and all contents.

    Raises:
        ExecutionNotFound: a run is not there, or was deleted meanwhile.
        RedactionRefused: a pattern is found in a name.
        LogCompacted: what is to be redacted is in an archive, which is not at hand.
        StoreError: something cannot be read. Whatever is raised, what is in *file* is no bundle then.
    """
    for _ in range(_TRIES):
        file.seek(0)
        file.truncate()
        logs = await gathered(sources.storage, wanted)
        try:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                return await _Writing(archive, sources, redaction, told).write(wanted, logs)
        except _Moved:
            continue
    raise StoreUnavailable("its logs are compacted while they are read", store=sources.storage.url, hint="Try again.")


class Pen:
    """Writes members, each as it would be written on any machine, and gathers what they cite."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.cited: set[ContentRef] = set()

    def member(self, name: str, pieces: Iterable[bytes]) -> tuple[int, str]:
        """Write a member, and return its size and digest."""
        hashed, size = sha256(), 0
        with self._archive.open(self._info(name), "w", force_zip64=True) as out:
            for piece in pieces:
                out.write(piece)
                hashed.update(piece)
                size += len(piece)
        return size, hashed.hexdigest()

    async def stream(self, name: str, pieces: AsyncIterator[bytes]) -> int:
        """Write a member as its bytes come, and return its size."""
        size = 0
        with self._archive.open(self._info(name), "w", force_zip64=True) as out:
            async for piece in pieces:
                out.write(piece)
                size += len(piece)
        return size

    def cite(self, text: bytes) -> None:
        """Note which contents *text* names."""
        self.cited.update(named_in(text))

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, _UNIX, _READABLE
        return info


class _Writing:
    """One pass over the logs of a bundle."""

    def __init__(
        self, archive: zipfile.ZipFile, sources: Sources, redaction: Redaction | None, told: Callable[[int], None]
    ) -> None:
        self._archive, self._pen = archive, Pen(archive)
        self._sources, self._redaction, self._told = sources, redaction, told

    async def write(self, wanted: Wanted, logs: Sequence[LogEntry]) -> Written:
        """Write everything, and the manifest at the end."""
        entries = [await self._log(log, number) for number, log in enumerate(logs, 1)]
        contents = await self._contents()
        redacted = self._redaction.summary() if self._redaction is not None else None
        manifest = Manifest(
            written_by=f"loom {version('loom-runtime')}",
            runs=wanted.runs,
            logs=entries,
            contents=contents,
            missing=sorted(self._pen.cited - contents.keys()),
            redacted=redacted,
        )
        text = shapes.manifest_bytes(manifest)
        self._pen.member(shapes.MANIFEST, [text])
        digest = sha256(text).hexdigest()
        self._archive.comment = comment_of(digest)
        return Written(manifest, digest)

    async def _log(self, log: LogEntry, number: int) -> LogEntry:
        row, parts = log.row, list[Part]()
        seen, redacting = 0, _Redacting(self._redaction, row) if self._redaction is not None else None
        async for found in _in_parts(self._records(row)):
            name = f"logs/{number:05}/{found[0].sequence:010}.jsonl"
            records = found if redacting is None else redacting.records(found)
            for record in records if redacting is None else ():
                self._pen.cite(record.payload)
            size, digest = self._pen.member(name, [lines.line_of(row.execution_id, record) for record in records])
            parts.append(Part(name, records[0].sequence, len(records), size, digest))
            seen += len(records)
            self._told(len(records))
        if not parts:
            raise ExecutionNotFound(execution_id=row.execution_id, store=self._sources.storage.url)
        if redacting is not None:
            return log._replace(parts=parts, row=redacting.row(), names={})
        return log._replace(parts=parts, checkpoint=None if seen == row.length else await self._checkpoint(row, number))

    async def _records(self, row: ExecutionRow) -> AsyncIterator[EventRecord]:
        """Yield the events of a log as far as its row knows of them: from the store, and from the archive."""
        storage, archive = self._sources.storage, self._sources.archive
        if archive is not None:
            async for found in read_archived(storage, archive, row.execution_id):
                if found.record.sequence >= row.length:
                    return
                yield found.record
            return
        start = 0
        while start < row.length and (page := await storage.read(row.execution_id, start=start, stop=row.length)):
            for record in page:
                yield record
            start = page[-1].sequence + 1

    async def _checkpoint(self, row: ExecutionRow, number: int) -> CheckpointEntry | None:
        """Write what stands for the events that are not there; None where nothing does, and the log is written as it stands."""
        storage = self._sources.storage
        head = await storage.head(row.execution_id)
        if head is None or head.incarnation != row.incarnation:
            raise ExecutionNotFound(execution_id=row.execution_id, store=storage.url)
        snapshot = await checkpoint_of(storage, row.execution_id, row.incarnation)
        if snapshot is None:
            return None
        if snapshot.head.sequence >= row.length:
            raise _Moved
        name, found = f"logs/{number:05}/checkpoint.json", snapshot.head
        body = unpacked(snapshot.body, found.codec)
        size, digest = self._pen.member(name, [body])
        self._pen.cite(body)
        return CheckpointEntry(
            found.sequence, found.fold_version, found.state_codec_version, found.at, name, size, digest
        )

    async def _contents(self) -> dict[ContentRef, int]:
        """Write the contents that the logs cite and that are there, by their addresses."""
        contents = self._sources.contents
        if contents is None or not self._pen.cited:
            return {}
        there = await contents.sizes(self._pen.cited)
        try:
            return {
                ref: await self._pen.stream(shapes.content_name(ref), contents.stream(ref)) for ref in sorted(there)
            }
        except ContentMissing as swept:
            raise _Moved from swept


class _Redacting:
    """One log on its way out without some of its values: what listings show of it is what is left."""

    def __init__(self, redaction: Redaction, row: ExecutionRow) -> None:
        redaction.refuse_name(row.execution_id)
        self._redaction, self._row, self._state = redaction, row, empty_state(row.execution_id)

    def records(self, found: Sequence[EventRecord]) -> list[EventRecord]:
        """Return the events without what is left out."""
        run_id = self._row.execution_id
        records = [self._redaction.record(run_id, record) for record in found]
        for event in decode_events(run_id, records):
            if event.sequence != self._state.length:
                raise LogCompacted(execution_id=run_id, through=event.sequence - 1, what="the log cannot be redacted")
            self._state = evolve(self._state, event)
        return records

    def row(self) -> ExecutionRow:
        """Return the row of the log as it is now."""
        return replace(self._row, index=index_row(self._state, gates_text(self._state)))


async def _in_parts(records: AsyncIterator[EventRecord]) -> AsyncIterator[list[EventRecord]]:
    part, size = list[EventRecord](), 0
    async for record in records:
        part.append(record)
        size += len(record.payload) + len(record.metadata)
        if size >= shapes.PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
