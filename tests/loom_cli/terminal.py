"""A command run in this process on a screen of the test's own, and one run as a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loom_cli.cli import Cli
from loom_cli.main import main
from loom_cli.screen import Screen
from tests.forked import Forks


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error that `--json` printed."""
        return json.loads(self.err)["error"]


def loom(
    *arguments: str,
    folder: Path,
    now_ms: int = 0,
    width: int = 80,
    terminal: bool = False,
    colour: bool = False,
) -> Ended:
    """Run the command line in this process, in *folder*; a *terminal* is *width* cells wide."""
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, width=width, terminal=terminal, colour=colour)
    status = main(arguments, cli=Cli(screen, folder=folder, now_ms=lambda: now_ms))
    return Ended(status, out.getvalue(), err.getvalue())


def process(
    *arguments: str, folder: Path, environ: Mapping[str, str] | None = None, forks: Forks | None = None
) -> Ended:
    """Run `python -m loom_cli` in *folder*, or what does the same by *forks*."""
    command = [sys.executable, "-m", "loom_cli"] if forks is None else [str(forks.programs / "loom")]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment(environ or {}),
        capture_output=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return what a child process is given: this one's, without what would change how Loom or Python behaves."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("LOOM_", "_LOOM", "PYTHON"))}
    return {**ours, **more}
