"""Our own kernel in simulations: whatever goes wrong in the store and the processes, the invariants hold.

A budget of seconds here, many seeds in `make test-all`. A finding says how it is had again: its program, its seed, its schedule.
"""

from __future__ import annotations

import os
import time
from typing import Final

import pytest

from loom.devtools.dst.schedule import Schedule
from loom.devtools.dst.searching import normal, shrunk, tried
from tests.devtools.dst.kernel_plays import play_of, program_of

SEEDS_PER_PROGRAM: Final = 8
BUDGET_S: Final = 8.0
SEEDS_MANY: Final = int(os.environ.get("LOOM_DST_SEEDS", "50000"))


def found_among(first: int, last: int, *, budget_s: float = float("inf")) -> tuple[int, str]:
    """Try seeds until one breaks something or the time is over; return how many were tried, and what was found."""
    began = time.monotonic()
    for start in range(first, last, SEEDS_PER_PROGRAM):
        if time.monotonic() - began > budget_s:
            return start - first, ""
        number = start // SEEDS_PER_PROGRAM
        if told := _found_in(number, range(start, min(last, start + SEEDS_PER_PROGRAM))):
            return start - first, told
    return last - first, ""


def _found_in(number: int, seeds: range) -> str:
    play = play_of(number)
    usual, trial = normal(play, seed=number)
    if trial.breaches:
        return f"program {number} {program_of(number)}, with nothing going wrong: {trial.breaches}"
    for seed in seeds:
        schedule = Schedule.of(seed, usual.counts)
        trial = tried(play, seed, schedule, usual)
        if trial.breaches:
            small = shrunk(play, trial, usual)
            again = f"tried(play_of({number}), {seed}, Schedule.parse({str(small.shrunk)!r}))"
            return f"{again}\n{[str(breach) for breach in small.breaches]}\n{program_of(number)}"
    return ""


@pytest.mark.proves("TST-07", "TST-08")
def test_the_invariants_hold_in_the_simulations_of_a_few_seconds() -> None:
    count, found = found_among(0, SEEDS_MANY, budget_s=BUDGET_S)

    assert not found, found
    assert count > 0


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.proves("TST-08")
def test_the_invariants_hold_in_many_simulations() -> None:
    _, found = found_among(0, SEEDS_MANY)

    assert not found, found
