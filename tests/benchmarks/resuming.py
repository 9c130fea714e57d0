"""Cold resume: a new process takes up a run of 10,000 recorded steps and finds again that it waits at a gate."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.floors import decode_seconds, written
from tests.benchmarks.flows import gated, make_app
from tests.benchmarks.report import Line, Pair, Target, compared
from tests.benchmarks.scale import Scale, folder

RUN: Final = "cold"
ROOT: Final = Path(__file__).resolve().parent.parent.parent


def cold_resume(scale: Scale) -> Iterator[Line]:
    with folder() as at:
        asyncio.run(_parked(at / "run.db", scale.of(10_000)))
        pairs = [_in_a_new_process(at / "run.db") for _ in range(scale.repeats)]
    target = Target(bound="at most", limit=15)
    yield compared("cold-resume", pairs, of="decode", unit="ms", target=target)


async def _parked(database: Path, count: int) -> None:
    async with make_app(database, write_behind=True) as app:
        outcome = await app.runtime.start(gated, count, id=RUN)
        assert outcome.status == "suspended"


def _in_a_new_process(database: Path) -> Pair:
    command = [sys.executable, "-m", __name__, str(database)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    resumed, decoded = json.loads(done.stdout)
    return Pair(resumed * 1000, decoded * 1000)


async def _resume_seconds(database: Path) -> float:
    make_app(database)  # loads what is imported when it is first used: not part of the figure
    begun = time.perf_counter()
    async with make_app(database) as app:
        outcome = await app.runtime.resume(RUN)
        took = time.perf_counter() - begun
    assert outcome.status == "suspended"
    return took


def _main(database: Path) -> None:
    took = asyncio.run(_resume_seconds(database))
    gc.collect()
    print(json.dumps([took, decode_seconds(written(database).texts)]))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
