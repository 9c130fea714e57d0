"""The examples raise no alarm: their own tests pass with every app watched, and every body run twice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PLUGIN: Final = "tests.devtools.strict.everywhere"


def watched(example: str, *tests: str) -> tuple[int, int]:
    """Run tests of an example with every app watched; return how many bodies were, and how often one was rehearsed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", *tests]
    folder, environ = ROOT / "examples" / example, {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    [(bodies, rehearsals)] = re.findall(r"watched (\d+) bodies, rehearsed (\d+) times", done.stdout)
    return int(bodies), int(rehearsals)


def test_the_refund_desk() -> None:
    bodies, rehearsals = watched("refund_desk", "tests/test_refund.py")

    assert bodies >= 5
    assert rehearsals >= 5


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("example", ["refund_desk", "on_call"])
def test_all_of_an_example(example: str) -> None:
    bodies, _ = watched(example, "tests")

    assert bodies >= 100
