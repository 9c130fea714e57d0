"""Our own kernel in simulations: whatever goes wrong in the store and the processes, the invariants hold.

A budget of seconds here, many seeds in `make test-all`. A finding says how it is had again: its program, its seed, its schedule.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Final

import pytest

from loom.devtools.dst.schedule import Schedule
from loom.devtools.dst.searching import normal, shrunk, tried
from tests.devtools.dst import family_plays, kernel_plays

SEEDS_PER_PLAY: Final = 8
BUDGET_S: Final = 5.0
SEEDS_MANY: Final = int(os.environ.get("LOOM_DST_SEEDS", "50000"))

each_kind = pytest.mark.parametrize("plays", [kernel_plays, family_plays], ids=["programs", "families"])


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """A simulation tells many times over what went wrong in it; a finding is told by itself."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def found_among(plays: ModuleType, seeds: range, *, budget_s: float = float("inf")) -> tuple[int, str]:
    """Try *seeds* until one breaks something or the time is over; return how many were tried, and what was found."""
    began = time.monotonic()
    for start in seeds[::SEEDS_PER_PLAY]:
        if time.monotonic() - began > budget_s:
            return start - seeds.start, ""
        if told := _found_in(plays, start // SEEDS_PER_PLAY, range(start, min(seeds.stop, start + SEEDS_PER_PLAY))):
            return start - seeds.start, told
    return len(seeds), ""


def _found_in(plays: ModuleType, number: int, seeds: range) -> str:
    play = plays.play_of(number)
    usual, trial = normal(play, seed=number)
    if trial.breaches:
        return f"tried(play_of({number}), {number}, Schedule()): {trial.breaches}\n{play.input}"
    for seed in seeds:
        trial = tried(play, seed, Schedule.of(seed, usual.counts), usual)
        if trial.breaches:
            small = shrunk(play, trial, usual)
            again = f"tried(play_of({number}), {seed}, Schedule.parse({str(small.shrunk)!r}))"
            return f"{plays.__name__}: {again}\n{[str(breach) for breach in small.breaches]}\n{play.input}"
    return ""


@each_kind
@pytest.mark.proves("TST-07", "TST-08")
def test_the_invariants_hold_in_the_simulations_of_a_few_seconds(plays: ModuleType) -> None:
    count, found = found_among(plays, range(SEEDS_MANY), budget_s=BUDGET_S)

    assert not found, found
    assert count > 0


@each_kind
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.proves("TST-08")
def test_the_invariants_hold_in_many_simulations(plays: ModuleType) -> None:
    _, found = found_among(plays, range(SEEDS_MANY // 2))

    assert not found, found
