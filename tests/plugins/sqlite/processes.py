"""Running other processes on the same database, within bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]
APPENDER: Final = Path(__file__).with_name("appender.py")
PATIENCE_S: Final = 30


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start Python with *arguments*, able to import what we import; warnings are errors there too."""
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines that the process printed; it must end by itself, well and without a complaint."""
    try:
        output, complaints = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, complaints) == (0, ""), complaints
    return output.splitlines()
