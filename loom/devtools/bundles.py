"""A bundle: a folder of exported logs, one file a run, one JSON object a line, as `loom logs ID --json` prints them.

A file may hold several logs, one after the other: those of a run that continues as new. What is written is what is read: a
bundle made from a store gives, byte for byte, the records of that store, as far as Loom wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from loom.core.errors import LoomError
from loom.core.ids import execution_id
from loom.devtools.deploying import StoredRun
from loom.spi.event_store import EventRecord

SUFFIX: Final = ".jsonl"


class BundleUnreadable(LoomError):
    """A folder that is no bundle, or a line of one that is no event."""

    code = "bundle-unreadable"
    hint = "A bundle is a folder of .jsonl files, one a run, as `loom logs ID --json` prints them."

    def __init__(self, message: str, *, where: str) -> None:
        self.where = where
        super().__init__(f"{message} ({where})")


def runs_of(folder: Path) -> Iterator[StoredRun]:
    """Yield the runs of the bundle at *folder*, by file name.

    Raises:
        BundleUnreadable: it is no bundle. A run whose file is damaged is yielded with its fault.
    """
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not files:
        raise BundleUnreadable(
            "there are no logs in it" if folder.is_dir() else "there is no such folder", where=str(folder)
        )
    for file in files:
        yield from _runs_in(file)


def _runs_in(file: Path) -> Iterator[StoredRun]:
    run_id, records = "", list[EventRecord]()
    try:
        lines = _lines(file)
    except OSError as refused:
        yield StoredRun(file.stem, (), fault=f"{file.name} cannot be read: {refused.strerror or refused}")
        return
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            id, record = _event(line)
        except (ValueError, KeyError, TypeError, LoomError) as error:
            yield StoredRun(run_id or file.stem, (), fault=f"{file.name}:{number} is no event: {error}")
            return
        if id != run_id and records:
            yield StoredRun(run_id, records)
            records = []
        run_id = id
        records.append(record)
    if records:
        yield StoredRun(run_id, records)
    else:
        yield StoredRun(file.stem, (), fault=f"{file.name} holds no event")


def _lines(file: Path) -> list[bytes]:
    """Return the lines of *file*.

    Raises:
        OSError: it cannot be read, or is none: to read a pipe would be to wait for whoever writes to it.
    """
    if file.exists() and not file.is_file():
        raise OSError("it is no file")
    return file.read_bytes().split(b"\n")


def _event(line: bytes) -> tuple[str, EventRecord]:
    whole: dict[str, Any] = orjson.loads(line)
    if not isinstance(whole, dict):
        raise TypeError("it is no JSON object")
    metadata = whole.get("metadata")
    sequence, type_, at = whole["sequence"], whole["type"], whole["at"]
    if not (type(sequence) is int and isinstance(type_, str) and type(at) is int):
        raise TypeError("its sequence and at are whole numbers, its type is a name")
    about = orjson.dumps(metadata) if metadata else b""
    return execution_id(whole["execution_id"]), EventRecord(sequence, type_, at, orjson.dumps(whole["payload"]), about)


def lines_of(run_id: str, records: Sequence[EventRecord]) -> bytes:
    """Return a log as the lines of a bundle."""
    return b"".join(_line(run_id, record) for record in records)


def _line(run_id: str, record: EventRecord) -> bytes:
    json: dict[str, Any] = {"execution_id": run_id, "sequence": record.sequence, "type": record.type, "at": record.at}
    json["payload"] = orjson.loads(record.payload)
    if record.metadata:
        json["metadata"] = orjson.loads(record.metadata)
    return orjson.dumps(json) + b"\n"
