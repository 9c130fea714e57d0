"""A process that is killed while its run rolls over to a fresh log: the chain has every link once, and does nothing twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.crash.matrix import crash, sample, undisturbed
from tests.crash.nursery import Nursery
from tests.crash.places import Ground, Place

PATIENCE_S = 5.0


@pytest.mark.parametrize(
    "patience_s", [PATIENCE_S, pytest.param(1_800.0, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
@pytest.mark.proves("SYS-11", "KER-08")
def test_a_chain_whose_process_is_killed_anywhere_comes_to_the_same_end(
    nursery: Nursery, ground: Ground, seed: int, patience_s: float
) -> None:
    whole = ground.place("laps")
    expected = undisturbed(nursery, "laps", whole)
    links = _links(whole)
    until = time.monotonic() + patience_s * ground.share

    for number, (name, ends) in enumerate(sample(random.Random(seed), {"laps": expected})):
        place = ground.place(str(number))
        report, lefts = crash(nursery, name, place, ends)

        assert (report["status"], report["value"]) == ("completed", expected.report["value"])
        assert _links(place).keys() == links.keys()
        for sequences in _links(place).values():
            assert sequences == list(range(len(sequences)))
        done = [deed.step for deed in lefts[-1].deeds if deed.phase == "done"]
        assert sorted(done) == ["lap-1", "lap-2", "lap-3"]
        if time.monotonic() > until:
            break


def _links(place: Place) -> dict[str, list[int]]:
    """Return each link of the chain with the sequences of its log."""
    return {name: [row[0] for row in log] for name, log in place.logs().items()}
