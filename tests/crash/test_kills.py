"""A process that is killed anywhere is a run that is resumed: nothing durable is lost, nothing recorded happens again."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.crash.matrix import Left, Undisturbed, crash, deaths, sample, undisturbed, verify
from tests.crash.mortal import Death
from tests.crash.nursery import Nursery
from tests.crash.places import Ground
from tests.crash.scenarios import KILLED

PATIENCE_S = 8.0
CANCELLED_S = 3.0


@pytest.fixture
def expected(nursery: Nursery, ground: Ground) -> dict[str, Undisturbed]:
    return {name: undisturbed(nursery, name, ground.place(name)) for name in KILLED}


@pytest.mark.proves("LIF-01", "KER-08", "PRN-01", "STO-14")
def test_a_killed_run_comes_to_the_end_it_would_have_come_to(
    nursery: Nursery, ground: Ground, expected: dict[str, Undisturbed], seed: int
) -> None:
    until = time.monotonic() + PATIENCE_S * ground.share

    for number, (name, ends) in enumerate(sample(random.Random(seed), expected)):
        report, lefts = crash(nursery, name, ground.place(str(number)), ends)

        verify(expected[name], report, lefts)
        if time.monotonic() > until:
            break


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.proves("LIF-01", "KER-08", "PRN-01", "STO-14")
def test_wherever_it_is_killed_and_killed_again_it_comes_to_the_same_end(
    nursery: Nursery, ground: Ground, expected: dict[str, Undisturbed], seed: int
) -> None:
    killed = 0

    for number, (name, ends) in enumerate(sample(random.Random(seed), expected)):
        report, lefts = crash(nursery, name, ground.place(str(number)), ends)

        verify(expected[name], report, lefts)
        killed += len(lefts) - 1

    assert killed > 200


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.proves("CMP-14")
def test_a_saga_that_is_killed_while_it_undoes_undoes_nothing_twice(
    nursery: Nursery, ground: Ground, seed: int
) -> None:
    expected = undisturbed(nursery, "trip", ground.place("trip"))

    for number, (name, ends) in enumerate(sample(random.Random(seed), {"trip": expected})):
        report, lefts = crash(nursery, name, ground.place(str(number)), ends)

        verify(expected, report, lefts)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.proves("SYS-06", "SYS-10")
def test_a_race_is_won_by_who_is_on_the_log_and_a_block_ends_in_time_wherever_it_is_killed(
    nursery: Nursery, ground: Ground, seed: int
) -> None:
    expected = undisturbed(nursery, "market", ground.place("market"))

    for number, (name, ends) in enumerate(sample(random.Random(seed), {"market": expected})):
        report, lefts = crash(nursery, name, ground.place(str(number)), ends)

        verify(expected, report, lefts)


@pytest.mark.proves("RNG-11", "CMP-14")
def test_a_cancellation_that_is_killed_anywhere_is_not_lost_and_cleans_up_once(
    nursery: Nursery, ground: Ground, seed: int
) -> None:
    until = time.monotonic() + CANCELLED_S * ground.share
    expected = undisturbed(nursery, "given_up", ground.place("given_up"))
    assert expected.report["status"] == "cancelled"

    for number, (name, ends) in enumerate(sample(random.Random(seed), {"given_up": expected})):
        report, lefts = crash(nursery, name, ground.place(str(number)), ends)

        _cancelled_once(expected, report, lefts)
        if time.monotonic() > until:
            break


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.proves("RNG-11", "CMP-14")
def test_wherever_a_cancellation_is_killed_and_killed_again_it_comes_to_its_end(
    nursery: Nursery, ground: Ground, seed: int
) -> None:
    expected = undisturbed(nursery, "given_up", ground.place("given_up"))

    for number, (name, ends) in enumerate(sample(random.Random(seed), {"given_up": expected})):
        _cancelled_once(expected, *crash(nursery, name, ground.place(str(number)), ends))


def _cancelled_once(expected: Undisturbed, report: dict[str, Any], lefts: list[Left]) -> None:
    verify(expected, report, lefts)
    types = [row[1] for row in lefts[-1].log]
    assert types[-1] == "EXECUTION_CANCELLED"
    assert types.count("EXECUTION_CANCEL_REQUESTED") == types.count("EXECUTION_CANCELLED") == 1


def test_each_moment_of_each_write_and_effect_is_a_death() -> None:
    found = deaths({"writes": 2, "effects": 1})

    assert found == [
        Death("before write", 1),
        Death("after write", 1),
        Death("before write", 2),
        Death("after write", 2),
        Death("effect begins", 1),
        Death("effect is done", 1),
        Death("effect ends", 1),
    ]


@pytest.mark.proves("KER-08")
def test_a_process_that_dies_inside_an_effect_that_must_not_be_repeated_leaves_a_doubt(
    nursery: Nursery, ground: Ground
) -> None:
    charge = 4  # after the choice, the reservation and the ticket

    report, lefts = crash(nursery, "order", ground.place("order"), [Death("effect is done", charge)])

    assert report["doubts"] == 1
    assert [deed.step for deed in lefts[-1].deeds if deed.phase == "done"].count("charge") == 1
