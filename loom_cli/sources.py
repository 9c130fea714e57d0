"""The sources of a project's convention folders, read; and watched, which asks for `watchfiles`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from loom.devtools.codegen import FOLDERS
from loom.devtools.projects import is_scanned
from loom_cli.exits import ExitCode
from loom_cli.files import told

LOOK_AGAIN_MS = 1000
"""How often a watch looks whether a convention folder has come or gone."""


def convention_folders(root: Path) -> list[Path]:
    """Return the convention folders that are there."""
    return [root / name for name in FOLDERS if (root / name).is_dir()]


def read_sources(root: Path) -> dict[str, bytes]:
    """Return what `loom gen` reads below *root*, by path.

    Raises:
        FileNotUsable: a folder or file cannot be read. What is skipped would be missing from the app without a word.
    """
    found: dict[str, bytes] = {}
    for folder in convention_folders(root):
        for at, _, names in os.walk(folder, onerror=_raise):
            for name in names:
                path = Path(at, name).relative_to(root).as_posix()
                if is_scanned(path):
                    with told(root / path):
                        found[path] = (root / path).read_bytes()
    return found


def _raise(error: OSError) -> NoReturn:
    with told(Path(error.filename or ".")):
        raise error
    raise AssertionError  # told raises


def watch_sources(root: Path, changed: Callable[[dict[str, bytes]], object]) -> ExitCode:
    """Call *changed* with the sources of *root* now and whenever they are others, until Ctrl-C."""
    from watchfiles import PythonFilter, watch

    seen: dict[str, bytes] | None = None
    try:
        while True:
            folders = convention_folders(root)
            looks = watch(
                *(folders or [root]),
                watch_filter=PythonFilter(),
                recursive=bool(folders),
                rust_timeout=LOOK_AGAIN_MS,
                yield_on_timeout=True,
            )
            first = True
            for changes in looks:
                if first or changes:
                    seen = _called_if_new(changed, seen, read_sources(root))
                first = False
                if convention_folders(root) != folders:
                    break
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _called_if_new(
    changed: Callable[[dict[str, bytes]], object], seen: dict[str, bytes] | None, sources: dict[str, bytes]
) -> dict[str, bytes]:
    if sources != seen:
        changed(sources)
    return sources
