"""What `loom check` says of the zoo, and of whatever else stands in this repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from loom.devtools.checking.checker import Report, check
from tests.house import ROOT


def checked(paths: Iterable[Path], root: Path = ROOT) -> Report:
    """Return the report on *paths*, modules of the project at *root*."""

    def read(path: str) -> bytes | None:
        file = root / path
        return file.read_bytes() if file.is_file() else None

    return check([path.relative_to(root).as_posix() for path in paths], read)
