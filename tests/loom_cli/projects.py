"""What the tests of `loom new` and `loom gen` share: the command in this process, and a project's own tools."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom_cli.cli import Cli
from loom_cli.main import main
from loom_cli.screen import Screen

_TYPES: Final = tempfile.TemporaryDirectory(prefix="loom-types-")
"""What a checker has learned of Loom's own types, which are the same for every project."""


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def loom(*arguments: str, folder: Path) -> Ended:
    """Run the command line in this process, in *folder*, on a screen that is no terminal."""
    out, err = io.StringIO(), io.StringIO()
    status = main(arguments, cli=Cli(Screen(out, err), folder=folder))
    return Ended(status, out.getvalue(), err.getvalue())


def python(*arguments: str, folder: Path) -> Ended:
    """Run the interpreter of these tests in *folder*."""
    environ = {**os.environ, "MYPY_CACHE_DIR": _TYPES.name}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below *folder*, hidden ones too, and every link as what it leads to."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[path.relative_to(folder).as_posix()] = b"-> " + str(path.readlink()).encode()
        elif path.is_file():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def assert_clean(project: Path) -> None:
    """The project's own tests, types, lint, format and generated module all hold."""
    for tool in (["pytest", "-q"], ["mypy", "--no-error-summary"], ["ruff", "check"], ["ruff", "format", "--check"]):
        done = python("-m", *tool, folder=project)
        assert done.status == 0, f"{tool}\n{done.out}{done.err}"
    assert loom("gen", "--check", folder=project).status == 0
