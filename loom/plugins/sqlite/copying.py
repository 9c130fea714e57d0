"""Copying a database that others are writing to: all that was committed at one moment, and nothing of what came after.

SQLite copies page by page within one read transaction, which holds up no writer. The contents of runs that lie in files beside the
database are copied before it and after it: those that its logs name were there at its moment, and a content never changes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from loom.core.errors import InvalidDeclaration
from loom.plugins.sqlite import schema
from loom.plugins.sqlite.connection import behind_links
from loom.spi.errors import StoreCorrupt, StoreNotFound, StoreUnavailable

CONTENT_SUFFIX: Final = ".content"
"""What the folder of the contents is called, after the database."""

_LOCK: Final = "lock"
_CITED: Final = ".cited"
_COUNTS: Final = "SELECT (SELECT count(*) FROM executions), (SELECT coalesce(sum(length), 0) FROM executions)"


class Copied(NamedTuple):
    """What a copy holds: so many *executions*, with *events* in all, in a file of so many *bytes*, and *contents* beside it."""

    executions: int
    events: int
    bytes: int
    contents: int


def copy_database(source: Path, target: Path) -> Copied:
    """Copy the database *source*, with the contents beside it, to *target*, which appears when all of it is on disk.

    The copy is read through before it is given its name. What fails leaves nothing; what is killed, hidden files beside *target*
    (`.*.part`, `.*.part.content`).

    Raises:
        InvalidDeclaration: *target* is there already, or its folder is not.
        StoreNotFound, StoreCorrupt, StoreNewer: as when it is opened; what was copied is damaged, too.
        StoreUnavailable: it cannot be read, or the copy cannot be written. There is no copy.
    """
    _refuse_target(target)
    if not source.exists():
        raise StoreNotFound("there is no database", store=f"sqlite:{source}", hint="Name another file: --store.")
    part = target.with_name(f".{uuid.uuid4().hex}.part")
    folders = _content_of(behind_links(source)), _content_of(part)
    try:
        copied = _copy_contents(*folders)
        counts = _copied(source, part)
        copied += _copy_contents(*folders)
        size = part.stat().st_size
        _name(part, target)
    except (sqlite3.Error, OSError) as error:
        hint = "Look at the room on the disk, and who may write there."
        raise StoreUnavailable(f"it could not be copied: {error}", store=f"sqlite:{source}", hint=hint) from error
    finally:
        shutil.rmtree(_content_of(part), ignore_errors=True)
        for leftover in (part, *(Path(f"{part}{end}") for end in ("-wal", "-shm", "-journal"))):
            leftover.unlink(missing_ok=True)
    return Copied(*counts, size, copied)


def _refuse_target(target: Path) -> None:
    for there in (target, _content_of(target)):
        if os.path.lexists(there):  # a link that leads nowhere is there as well
            hint = "Name a file that is not there; nothing is written over."
            raise InvalidDeclaration(f"{there} is there already", hint=hint)
    if not os.path.isdir(target.parent):  # noqa: PTH112  # which says no, too, of a name that is too long
        raise InvalidDeclaration(f"there is no folder {target.parent}", hint="Make it, or name a file elsewhere.")


def _copied(source: Path, part: Path) -> tuple[int, int]:
    url = f"sqlite:{source}"
    with (
        contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)) as reading,
        contextlib.closing(sqlite3.connect(part, isolation_level=None)) as writing,
    ):
        try:
            is_empty = schema.accept(
                reading, url=url
            ).empty  # of an earlier schema it may be: it is copied before it is changed
        except sqlite3.DatabaseError as error:
            raise StoreCorrupt(f"it cannot be read: {error}", store=url) from error
        if is_empty:
            raise StoreNotFound("the database is empty", store=url, hint="Name another file: --store.")
        shutil.copymode(source, part)
        writing.execute("PRAGMA synchronous = FULL")
        reading.backup(writing)
        [found] = writing.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            hint = "Go back to an earlier copy, or save what can be read: sqlite3 DATABASE .recover"
            raise StoreCorrupt(f"the database is damaged: {found}", store=url, hint=hint)
        executions, events = writing.execute(_COUNTS).fetchone()
        return executions, events


def _name(part: Path, target: Path) -> None:
    """Give *part*, once it is on disk, the name *target*, unless that is taken meanwhile; its contents are there before it is."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    _refuse_target(target)
    has_contents = _content_of(part).exists()
    if has_contents:
        _content_of(part).rename(_content_of(target))
    try:
        _link(part, target)
    except BaseException:
        if has_contents:
            _content_of(target).rename(_content_of(part))
        raise
    _sync(target.parent)


def _link(part: Path, target: Path) -> None:
    try:
        os.link(part, target)
    except FileExistsError:
        hint = "Name a file that is not there; nothing is written over."
        raise InvalidDeclaration(f"{target} is there already", hint=hint) from None
    except OSError:  # a file system without links
        part.rename(target)


def _content_of(database: Path) -> Path:
    return database.with_name(database.name + CONTENT_SUFFIX)


def _copy_contents(source: Path, target: Path) -> int:
    """Copy what is not there yet, a content before its citations; return how many contents those were."""
    copied = 0
    for file in _files(source):
        into = target / file.relative_to(source)
        if into.exists() and not file.name.endswith(_CITED):
            continue
        into.parent.mkdir(parents=True, exist_ok=True)
        part = into.with_name(f".{into.name}.part")
        with contextlib.suppress(FileNotFoundError):  # it was swept meanwhile, so no log names it
            shutil.copy2(file, part)  # with its time, which is its touch
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            part.replace(into)
            copied += not file.name.endswith(_CITED)
        _sync(into.parent)
    return copied


def _files(folder: Path) -> Iterator[Path]:
    for shelf in sorted(folder.glob("??")):
        yield from (file for file in sorted(shelf.iterdir()) if file.name != _LOCK)


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a folder cannot be opened everywhere
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
