"""Upgrades by processes of their own: killed at a moment of a seed's, or several at once."""

from __future__ import annotations

import subprocess
import sys
import time
from random import Random

from tests.plugins import upgrader
from tests.plugins.sqlite.processes import ROOT

TOGETHER = 5


def upgrading(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", upgrader.__name__, url],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(url: str, chance: Random, *, steps: int) -> None:
    """Have the store upgraded by a process that is killed within, or just after, one of so many *steps*."""
    process = upgrading(url)
    assert process.stdout is not None
    for _ in range(chance.randint(1, steps)):
        process.stdout.readline()
    time.sleep(chance.uniform(0, 0.02))  # somewhere in the step
    process.kill()
    _, complaints = process.communicate()
    assert not complaints, complaints


def together(url: str) -> list[int]:
    """Have several processes start on the store at once; return how many steps each of them ran. All must get it open."""
    processes = [upgrading(url) for _ in range(TOGETHER)]
    ran = []
    for process in processes:
        said, complaints = process.communicate(timeout=60)
        assert (process.returncode, complaints) == (0, ""), complaints
        assert said.splitlines()[-1] == "open"
        ran.append(len(said.splitlines()) - 1)
    return ran
