"""What `loom bundle` does, and what it says of the bundle that it wrote."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from loom.app.config import content_of
from loom.core.ids import ExecutionId
from loom.driving.chains import lane_of
from loom.plugins.bundle.gathering import Wanted
from loom.plugins.bundle.naming import new_file
from loom.plugins.bundle.redacting import Redaction
from loom.plugins.bundle.writing import Sources, Written, write_bundle
from loom.plugins.sqlite.location import BUNDLE_SUFFIX, archive_name
from loom.spi.content_store import ContentStore
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.errors import AppNotFound, AppNotImportable, Usage
from loom_cli.exits import ExitCode
from loom_cli.ids import meant_id
from loom_cli.screen import Screen
from loom_cli.wording import counted

_STDOUT: Final = Path("-")
_PIECE: Final = 1 << 20
_EVERY_S: Final = 2.0
_NO_NAME: Final = re.compile(r"[^\w.~\-]+")


class Manner(NamedTuple):
    """How a bundle is written: with *forks*, without what *redaction* leaves out, over a file that is there (*force*)."""

    forks: bool
    redaction: Redaction | None
    force: bool


def redaction_given(fields: Sequence[str], patterns: Sequence[str]) -> Redaction | None:
    """Return the redaction that the options ask for, None for none.

    Raises:
        Usage: a field has no name, or a pattern cannot be read.
    """
    if any(not part for field in fields for part in field.split(".")):
        raise Usage("--redact names a field, as in card or args.card", hint="Leave no name between dots empty.")
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise Usage(f"{error.pattern!r} is no regular expression: {error}", hint="See Python's re.") from error
    return Redaction(fields, compiled) if fields or patterns else None


class Bundling:
    """One bundle on its way out of a store; *app*, *store* and *archive* are as on the command line."""

    def __init__(self, cli: Cli, *, app: str | None, store: str | None, archive: str | None) -> None:
        self._cli, self._app, self._store, self._archive = cli, app, store, archive

    def run(self, ids: Sequence[str], out: Path | None, manner: Manner, *, as_json: bool) -> ExitCode:
        """Write it, and say what was written."""
        if out == _STDOUT and as_json:
            raise Usage("--json and a bundle cannot both go to stdout", hint="Name a file: -o FILE.")
        if out == _STDOUT and self._cli.screen.terminal:
            raise Usage("a bundle is no text for a terminal", hint="Name a file: -o FILE, or write it to a pipe.")
        return self._cli.run(self._write(ids, out, manner, as_json=as_json))

    async def _write(self, ids: Sequence[str], out: Path | None, manner: Manner, *, as_json: bool) -> ExitCode:
        cli = self._cli
        async with self._sources() as sources:
            runs = sorted({await _chain_of(sources.storage, text) for text in ids})
            wanted = Wanted(runs, forks=manner.forks)
            told = _Told(cli.screen).written
            unread = sum([await _unread(sources.storage, run_id) for run_id in runs])
            if out == _STDOUT:
                with tempfile.TemporaryFile() as file:
                    written = await write_bundle(file, sources, wanted, redaction=manner.redaction, told=told)
                    self._to_stdout(file)
                self._say_beside(written, unread)
                return ExitCode.DONE
            target = cli.folder / (out or f"{_NO_NAME.sub('-', runs[0])}{BUNDLE_SUFFIX}")
            with new_file(target, replaces=manner.force) as file:
                written = await write_bundle(file, sources, wanted, redaction=manner.redaction, told=told)
        if as_json:
            cli.screen.json(bundle_json(written, target, size=target.stat().st_size, unread=unread))
        else:
            shown = target.name if target.parent == cli.folder else str(target)
            cli.screen.line(f"wrote {_words(written)} to {shown}")
            cli.screen.flush()
            self._say_beside(written, unread)
        return ExitCode.DONE

    def _to_stdout(self, file: BinaryIO) -> None:
        file.seek(0)
        while piece := file.read(_PIECE):
            self._cli.screen.results.write_bytes(piece)

    def _say_beside(self, written: Written, unread: int) -> None:
        """Say what is not in it."""
        if (redacted := written.manifest.redacted) is not None:
            left_out = counted(redacted.values, "value was", "values were")
            self._cli.screen.note(f"{left_out} left out, and all contents: it is for looking only")
        if missing := written.manifest.missing:
            count = counted(len(missing), "content was", "contents were")
            self._cli.screen.note(f"{count} not there any more; the logs say what stood in them only by address")
        if moved := _moved(written):
            count = counted(moved, "event is", "events are")
            self._cli.screen.note(f"{count} in an archive, and not in it: --archive URL puts them in")
        if unread:
            self._cli.screen.note(f"{counted(unread, 'request', 'requests')} not taken up yet stayed in the store")

    @asynccontextmanager
    async def _sources(self) -> AsyncIterator[Sources]:
        """Give the store, where its contents are, and the archive that is named, if one is."""
        cli = self._cli
        logs, contents = self._places()
        named = archive_name(self._archive, folder=cli.folder)
        archive = cli.archive(self._archive, readonly=True) if named is not None else None
        try:
            yield Sources(logs, contents, archive)
        finally:
            for each in (archive, contents, logs):
                if each is not None:
                    await each.close()

    def _places(self) -> tuple[Storage, ContentStore | None]:
        """Return the logs and the contents: the app is asked where it is named, or there and no store is named."""
        from loom_cli.app_location import read_only

        if self._app is not None or self._store is None:
            try:
                loaded = self._cli.app(self._app, store=self._store)
            except (AppNotFound, AppNotImportable):  # a run can be handed on though its code is broken
                if self._app is not None:
                    raise
            else:
                return read_only(loaded.storage), loaded.content
        logs = self._cli.reader(self._store)
        return logs, content_of(logs)


class _Told:
    """Says on a terminal how many events are written, while that takes long."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._events, self._next_s = screen, 0, time.monotonic() + _EVERY_S

    def written(self, events: int) -> None:
        """Note that so many more are."""
        self._events += events
        if self._screen.terminal and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _EVERY_S
            self._screen.note(f"{self._events:,} events so far")


def bundle_json(written: Written, file: Path, *, size: int, unread: int) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    manifest = written.manifest
    return {
        "file": str(file),
        "bytes": size,
        "digest": written.digest,
        "runs": list(manifest.runs),
        "logs": len(manifest.logs),
        "events": manifest.events,
        "contents": len(manifest.contents),
        "missing": list(manifest.missing),
        "unread": unread,
        "redacted": manifest.redacted is not None,
    }


def _words(written: Written) -> str:
    manifest = written.manifest
    held = f"{counted(len(manifest.logs), 'log', 'logs')} ({counted(manifest.events, 'event', 'events')})"
    return f"{held} and {counted(len(manifest.contents), 'content', 'contents')}" if manifest.contents else held


def _moved(written: Written) -> int:
    """Return how many events of the logs are not in the bundle, since compaction has moved them away."""
    return sum(log.row.length for log in written.manifest.logs) - written.manifest.events


async def _chain_of(storage: Storage, text: str) -> ExecutionId:
    row = await storage.row(await meant_id(storage, text))
    assert row is not None
    return ExecutionId(row.index.chain)


async def _unread(storage: Storage, run_id: ExecutionId) -> int:
    row = await storage.row(run_id)
    lane = None if row is None else await lane_of(storage, row)
    return 0 if lane is None else len(await storage.pending(*lane))
