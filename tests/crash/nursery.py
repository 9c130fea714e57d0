"""Processes that bear mortal ones: each has imported everything, runs no thread, and forks a child for every job.

As a script it is the parent: a job is a line of JSON on its standard input, the answer a line on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, Final, Self

from tests.crash.mortal import Death, Fate, mortal
from tests.crash.places import Place
from tests.crash.scenarios import CarryingOn, warm_up
from tests.plugins.postgres.server import PowerCut

ROOT: Final = Path(__file__).parents[2]
LIFE_MAX_S: Final = 30
"""A child that lives longer has hung: an alarm ends it."""


class Nursery:
    """The parents, one for each seed of Python's hashing; a run that crashed goes on under another seed."""

    def __init__(self, hash_seeds: tuple[int, ...] = (1, 2)) -> None:
        self._parents = [_parent(seed) for seed in hash_seeds]
        self._born = 0

    def bear(self, scenario: str, place: Place, death: Death, *, seed: str) -> dict[str, Any] | None:
        """Carry on with the run in *place* in a fresh process; return its report, None when it died as it was to."""
        self._born += 1
        parent, told = self._parents[self._born % len(self._parents)], place.folder / f"report-{self._born}"
        folder, store, power_cut = place
        job: dict[str, Any] = {"scenario": scenario, "folder": str(folder), "store": store, "power_cut": power_cut}
        job |= {"death": death, "seed": seed, "report": str(told)}
        ended = _ask(parent, job)
        if ended == -signal.SIGKILL and death.moment != "never":
            return None
        report: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        assert ended == 0, report.get("error", ended)
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for parent in self._parents:
            parent.communicate(timeout=LIFE_MAX_S)


def _ask(parent: subprocess.Popen[str], job: dict[str, Any]) -> int:
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(json.dumps(job) + "\n")
    parent.stdin.flush()
    return int(parent.stdout.readline())


def _parent(hash_seed: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.crash.nursery"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _serve() -> None:
    asyncio.run(warm_up())
    for line in sys.stdin:
        assert threading.active_count() == 1, "a process with threads is not to be forked"
        child = os.fork()
        if child == 0:
            _live(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _live(job: dict[str, Any]) -> None:
    signal.alarm(LIFE_MAX_S)
    power_cut = PowerCut(*job["power_cut"]) if job["power_cut"] else None
    place, death = Place(Path(job["folder"]), job["store"], power_cut), Death(*job["death"])
    code = 1
    try:
        fate = Fate(death, deeds=place.folder / "deeds", seed=job["seed"], power_cut=power_cut)
        run = CarryingOn(job["scenario"], place.folder, fate, mortal(place.storage(), fate))
        report = asyncio.run(run.to_the_end())
        code = 0
    except BaseException:  # noqa: BLE001  # a child must not come back from here into its parent's loop
        report = {"error": traceback.format_exc()}
    Path(job["report"]).write_text(json.dumps(report), encoding="utf-8")
    os._exit(code)


if __name__ == "__main__":
    _serve()
