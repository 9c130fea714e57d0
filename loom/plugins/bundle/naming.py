"""Giving a bundle its name: it is written beside that, and is there under it only once all of it is on disk."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from loom.core.errors import InvalidDeclaration
from loom.spi.errors import StoreUnavailable


class FileThere(InvalidDeclaration):
    """What is to be written is there already, and was not to be replaced."""

    code = "file-there"


@contextlib.contextmanager
def new_file(target: Path, *, replaces: bool = False) -> Iterator[BinaryIO]:
    """Give a file to write to, which becomes *target* when the block ends, and is gone when it raises.

    Raises:
        FileThere: *target* is there already, and nothing is to be replaced.
        InvalidDeclaration: its folder is not there.
        StoreUnavailable: it cannot be written.
    """
    _refuse(target, replaces=replaces)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            part.replace(target)
        else:
            _link(part, target)
        _sync(target.parent)
    except OSError as error:
        hint = "Look at the room on the disk, and who may write there."
        raise StoreUnavailable(f"it cannot be written: {error}", store=str(target), hint=hint) from error
    finally:
        part.unlink(missing_ok=True)


def _refuse(target: Path, *, replaces: bool) -> None:
    if not target.parent.is_dir():
        raise InvalidDeclaration(f"there is no folder {target.parent}", hint="Make it, or name a file elsewhere.")
    if target.is_dir() or (target.exists() and not replaces):
        hint = "Name a file that is not there, or say --force."
        raise FileThere(f"{target} is there already", hint=hint)


def _link(part: Path, target: Path) -> None:
    """Give *part* the name *target*, unless that is taken meanwhile."""
    try:
        os.link(part, target)
    except FileExistsError:
        _refuse(target, replaces=False)
    except OSError:  # a file system without links
        part.rename(target)


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a folder cannot be opened everywhere
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
