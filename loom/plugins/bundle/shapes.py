"""What a bundle is: a zip whose manifest names every other member, with its size and its digest. Pure.

The logs stand in *parts*, JSON lines as `loom logs --json` prints them; a checkpoint is what stands for events that compaction
has moved away; contents are kept by their address. The manifest is hashed, and its digest, which is in the comment of the zip, is
the name of all that is in it. Nothing says when or where the bundle was made: the same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, NamedTuple, TypeVar, cast

import orjson

from loom.core.ids import ContentRef, ExecutionId, Incarnation, content_ref, execution_id
from loom.core.json import JsonObject
from loom.spi.event_fork import Source
from loom.spi.event_store import ExecutionRow, IndexRow
from loom.spi.limits import ENTRY_BYTES_MAX
from loom.spi.ref_store import RefMove

T = TypeVar("T")

FORMAT: Final = "loombundle"
VERSION: Final = 1
"""Raised with what a reader has to know; a bundle of a later version is refused."""

MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 256 << 20
PART_BYTES: Final = 1 << 20
"""A part ends with the event that takes it past so many bytes."""
PART_BYTES_MAX: Final = PART_BYTES + 3 * ENTRY_BYTES_MAX
CHECKPOINT_BYTES_MAX: Final = 1 << 30


class Part(NamedTuple):
    """A member, of *bytes* when it is unpacked, with so many *events*, the *first* of which has that sequence."""

    name: str
    first: int
    events: int
    bytes: int
    sha256: str


class CheckpointEntry(NamedTuple):
    """The state after the event at *sequence*, as compaction has left it; the member *name* is its body, as JSON text."""

    sequence: int
    fold_version: str
    state_codec_version: str
    at: int
    name: str
    bytes: int
    sha256: str


class LogEntry(NamedTuple):
    """One log: what the index of its store said of it, and where its events are.

    *source* is what it is a fork of, where that is known; *names* are those of its family, where it is the root of one.
    """

    row: ExecutionRow
    parts: Sequence[Part] = ()
    source: Source | None = None
    checkpoint: CheckpointEntry | None = None
    names: Mapping[str, Sequence[RefMove]] = {}


class Redacted(NamedTuple):
    """That values were left out: by the names of fields, and by so many patterns, which would tell what they hide."""

    fields: Sequence[str]
    patterns: int
    values: int


class Manifest(NamedTuple):
    """All that is in a bundle: the *runs* that were asked for, their logs and those below them, and what they cite.

    *contents* are sizes in bytes by address; *missing* was cited, and was not there any more. *redacted* is None where nothing was.
    """

    written_by: str
    runs: Sequence[ExecutionId]
    logs: Sequence[LogEntry]
    contents: Mapping[ContentRef, int]
    missing: Sequence[ContentRef] = ()
    redacted: Redacted | None = None

    @property
    def events(self) -> int:
        """How many events there are in all."""
        return sum(part.events for log in self.logs for part in log.parts)


def content_name(ref: str) -> str:
    """Return the name of the member that is the content *ref*."""
    return f"contents/{ref}"


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the member that *manifest* is."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": manifest.written_by,
        "runs": list(manifest.runs),
        "redacted": None if manifest.redacted is None else manifest.redacted._asdict(),
        "logs": [_log_json(log) for log in manifest.logs],
        "contents": dict(manifest.contents),
        "missing": list(manifest.missing),
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2)


def _log_json(log: LogEntry) -> JsonObject:
    row = log.row
    names = {name: [list(move) for move in moves] for name, moves in log.names.items()}
    return {
        "id": row.execution_id,
        "incarnation": row.incarnation,
        "length": row.length,
        "ended_at": row.ended_at,
        "row": asdict(row.index),
        "source": list(log.source) if log.source is not None else None,
        "names": names,
        "checkpoint": log.checkpoint._asdict() if log.checkpoint is not None else None,
        "parts": [part._asdict() for part in log.parts],
    }


# -- reading: a manifest may come from anybody -----------------------------------------------------------------------------


def manifest_of(text: bytes) -> Manifest:
    """Return the manifest that *text* is, which is of this version.

    Raises:
        ValueError, LoomError: it is none: something is missing, of another type, or names what it must not.
    """
    whole = _object(orjson.loads(text))
    logs = [_log_of(_object(each)) for each in _list(whole, "logs")]
    sizes = _object(whole["contents"])
    redacted = whole["redacted"]
    manifest = Manifest(
        written_by=_text(whole, "written_by"),
        runs=[execution_id(_is(str, each, "a run")) for each in _list(whole, "runs")],
        logs=logs,
        contents={content_ref(ref): _number(sizes, ref) for ref in sizes},
        missing=[content_ref(_is(str, each, "an address")) for each in _list(whole, "missing")],
        redacted=None if redacted is None else _redacted_of(_object(redacted)),
    )
    _refuse_twice([log.row.execution_id for log in logs], "a log")
    _refuse_twice([name for name, _ in members(manifest)], "a member")
    if lacking := set(manifest.runs) - {log.row.execution_id for log in logs}:
        raise ValueError(f"there is no log of {min(lacking)}")
    return manifest


def version_of(text: bytes) -> int:
    """Return the version of the format that a manifest says it has.

    Raises:
        ValueError: it is no manifest.
    """
    whole = _object(orjson.loads(text))
    if whole.get("format") != FORMAT:
        raise ValueError(f"its format is {whole.get('format')!r}")
    return _number(whole, "version")


def members(manifest: Manifest) -> list[tuple[str, int]]:
    """Return the names of all members but the manifest, with their sizes when they are unpacked."""
    found = [(part.name, part.bytes) for log in manifest.logs for part in log.parts]
    found += [(log.checkpoint.name, log.checkpoint.bytes) for log in manifest.logs if log.checkpoint is not None]
    return found + [(content_name(ref), size) for ref, size in manifest.contents.items()]


def _log_of(json: JsonObject) -> LogEntry:
    length, checkpoint, source = _number(json, "length"), json["checkpoint"], json["source"]
    row = ExecutionRow(
        execution_id(_text(json, "id")),
        Incarnation(_number(json, "incarnation")),
        length,
        _index_of(_object(json["row"])),
        ended_at=None if json["ended_at"] is None else _number(json, "ended_at"),
    )
    parts = [_part_of(_object(each)) for each in _list(json, "parts")]
    begin = 0
    for part in parts:
        if part.first < begin or part.events < 1:
            raise ValueError(f"the parts of {row.execution_id} overlap")
        begin = part.first + part.events
    if not 0 < begin <= length:
        raise ValueError(f"the parts of {row.execution_id} do not make up {length} events")
    names = {
        name: [_move_of(move) for move in _is(list, moves, name)] for name, moves in _object(json["names"]).items()
    }
    kept = None if checkpoint is None else _checkpoint_of(_object(checkpoint), length)
    return LogEntry(row, parts, None if source is None else _source_of(_is(list, source, "source")), kept, names)


def _index_of(json: JsonObject) -> IndexRow:
    kinds: dict[str, type[Any]] = {"str": str, "int": int, "bool": bool}
    given: dict[str, Any] = {}
    for each in fields(IndexRow):
        kind = str(each.type)
        optional = kind.endswith(" | None") and json[each.name] is None
        given[each.name] = None if optional else _is(kinds[kind.removesuffix(" | None")], json[each.name], each.name)
    execution_id(given["chain"])
    _object(orjson.loads(given["attributes"]))
    for gate in _is(list, orjson.loads(given["gates"]), "gates"):
        _text(_object(gate), "gate")
        _number(gate, "opened_at")
    return IndexRow(**given)


def _part_of(json: JsonObject) -> Part:
    first, events, size = (_number(json, name) for name in ("first", "events", "bytes"))
    if size > PART_BYTES_MAX:
        raise ValueError(f"the part {json['name']!r} is larger than one may be")
    return Part(_text(json, "name"), first, events, size, _digest(json))


def _checkpoint_of(json: JsonObject, length: int) -> CheckpointEntry:
    entry = CheckpointEntry(
        sequence=_number(json, "sequence"),
        fold_version=_text(json, "fold_version"),
        state_codec_version=_text(json, "state_codec_version"),
        at=_number(json, "at"),
        name=_text(json, "name"),
        bytes=_number(json, "bytes"),
        sha256=_digest(json),
    )
    if entry.sequence >= length or entry.bytes > CHECKPOINT_BYTES_MAX:
        raise ValueError(f"the checkpoint {entry.name!r} is later or larger than one may be")
    return entry


def _source_of(json: Sequence[Any]) -> Source:
    id, incarnation, through = json
    return Source(
        execution_id(_is(str, id, "source")), Incarnation(_is(int, incarnation, "source")), _is(int, through, "")
    )


def _move_of(json: object) -> RefMove:
    number, id, at, principal, reason = _is(list, json, "a name")
    run_id, by, why = execution_id(_is(str, id, "id")), _is(str, principal, "principal"), _is(str, reason, "reason")
    return RefMove(_is(int, number, "number"), run_id, _is(int, at, "at"), by, why)


def _redacted_of(json: JsonObject) -> Redacted:
    names = [_is(str, each, "a field") for each in _list(json, "fields")]
    return Redacted(names, _number(json, "patterns"), _number(json, "values"))


def _object(json: object) -> JsonObject:
    return cast("JsonObject", _is(dict, json, "a part of it"))


def _list(json: JsonObject, name: str) -> list[Any]:
    return _is(list, json[name], name)


def _text(json: JsonObject, name: str) -> str:
    return _is(str, json[name], name)


def _digest(json: JsonObject) -> str:
    return content_ref(_text(json, "sha256"))


def _number(json: JsonObject, name: str) -> int:
    number = _is(int, json[name], name)
    if number < 0:
        raise ValueError(f"{name} is below zero")
    return number


def _is(kind: type[T], value: object, name: str) -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} is {type(value).__name__}, not {kind.__name__}")
    return value


def _refuse_twice(names: Sequence[str], what: str) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"{what} is named twice")
