"""The processor time of the `loom` command, against that of a Python which does nothing."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.flows import make_app, ticks
from tests.benchmarks.report import Line, Pair, Target, compared
from tests.benchmarks.scale import Scale, Unavailable, folder

NOTHING: Final = (sys.executable, "-c", "pass")
REPEATS_FACTOR: Final = 3
"""These are short and noisy, so each is repeated more often than other benchmarks."""


def command_help(scale: Scale) -> Iterator[Line]:
    yield _measured("command-help", "--help", scale=scale, limit=9)


def command_ps(scale: Scale) -> Iterator[Line]:
    yield _measured("command-ps", "ps", scale=scale, limit=14)


def command_version(scale: Scale) -> Iterator[Line]:
    yield _measured("command-version", "--version", scale=scale, limit=2)


def _measured(name: str, argument: str, *, scale: Scale, limit: float) -> Line:
    loom = (*_loom(), argument)
    with folder() as at:
        asyncio.run(_some_runs(at / ".loom" / "loom.db"))
        _cpu_ms(loom, at)  # the first run writes compiled modules
        pairs = [Pair(_cpu_ms(loom, at), _cpu_ms(NOTHING, at)) for _ in range(scale.repeats * REPEATS_FACTOR)]
    return compared(name, pairs, of="python -c pass", unit="ms", target=Target(bound="at most", limit=limit))


async def _some_runs(database: Path) -> None:
    async with make_app(database) as app:
        for count in range(1, 6):
            (await app.runtime.start(ticks, count)).result()


def _loom() -> Sequence[str]:
    script = Path(sys.executable).with_name("loom")
    return (str(script),) if script.exists() else (sys.executable, "-m", "loom_cli")


def _cpu_ms(arguments: Sequence[str], at: Path) -> float:
    """Return the user and system time of a process.

    Raises:
        Unavailable: it did not end with 0.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # As after an installation, whose modules are compiled, whatever this shell says of writing them.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(at / "compiled")
    done = subprocess.run(arguments, cwd=at, env=env, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise Unavailable(f"{' '.join(arguments)}: {last[0]}")
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
