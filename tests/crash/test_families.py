"""A parent, its children and theirs, in one process that is killed anywhere: all of them come to the ends they had to."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from tests.crash.matrix import deaths
from tests.crash.mortal import Death, Deed, deeds_in
from tests.crash.nursery import Nursery
from tests.crash.places import Ground, Place

ENDS: Final = {
    "run-1": "EXECUTION_COMPLETED",
    "run-1:map/0/child": "EXECUTION_COMPLETED",
    "run-1:map/0/child:grandchild": "EXECUTION_COMPLETED",
    "run-1:map/1/child": "EXECUTION_FAILED",
}
VALUE: Final = [
    ["hello abel", "hello the child of abel"],
    "run-1:map/1/child failed: LookupError: no child of his is known",
]
SOME: Final = 12
"""So many deaths are died where there is little time."""


class Fact(NamedTuple):
    """One event of one run."""

    type: str
    payload: dict[str, Any]


class Left(NamedTuple):
    """What a process left behind: the log of each run, and what happened outside."""

    logs: dict[str, list[Fact]]
    deeds: list[Deed]

    def greeted(self) -> Iterator[str]:
        """Yield who was greeted for good, by the logs."""
        for log in self.logs.values():
            for fact in log:
                if fact.type == "STEP_COMPLETED" and "who" in log[fact.payload["start"]].payload.get("args", {}):
                    yield log[fact.payload["start"]].payload["args"]["who"]


def left_in(place: Place) -> Left:
    logs = {run: [Fact(row[1], json.loads(row[3])) for row in log] for run, log in place.logs().items()}
    return Left(logs, deeds_in(place.folder / "deeds"))


def die_and_go_on(nursery: Nursery, place: Place, death: Death) -> bool:
    """Let a process die, and another go on, and hold what they leave to all that was promised; False: it lived.

    Who is beside whom decides how many writes are one, so the last of them may not come.
    """
    if nursery.bear("family", place, death, seed=place.folder.name) is not None:
        return False
    crashed = left_in(place)

    report = nursery.bear("family", place, Death(), seed=place.folder.name)

    final = left_in(place)
    assert report is not None
    assert (report["status"], report["value"]) == ("completed", VALUE), death
    assert {run: log[-1].type for run, log in final.logs.items()} == ENDS
    for run, log in crashed.logs.items():
        assert final.logs[run][: len(log)] == log, "what was durable has changed"
    again = [deed.args["who"] for deed in final.deeds[len(crashed.deeds) :] if deed.step.startswith("greet")]
    assert set(again).isdisjoint(crashed.greeted()), "a recorded step ran again"
    for log in final.logs.values():
        heard = [log[fact.payload["start"]].payload["topic"] for fact in log if fact.type == "MESSAGE_RECEIVED"]
        assert len(heard) == len(set(heard)), "a child ended twice"
    return True


def all_deaths(nursery: Nursery, ground: Ground) -> list[Death]:
    report = nursery.bear("family", ground.place("whole"), Death(), seed="whole")
    assert report is not None
    assert report["value"] == VALUE
    return deaths(report) + [Death("child has ended", n) for n in (1, 2, 3)]


@pytest.mark.proves("CMP-13", "LIF-01")
def test_a_family_that_is_killed_somewhere_goes_on(nursery: Nursery, ground: Ground, seed: int) -> None:
    for number, death in enumerate(random.Random(seed).sample(all_deaths(nursery, ground), ground.few(SOME))):
        die_and_go_on(nursery, ground.place(str(number)), death)


@pytest.mark.proves("CMP-13")
@pytest.mark.parametrize("end", [1, 2])
def test_a_process_that_dies_between_the_end_of_a_child_and_the_waking_of_its_parent(
    nursery: Nursery, ground: Ground, end: int
) -> None:
    assert die_and_go_on(nursery, ground.place("family"), Death("child has ended", end))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.proves("CMP-13", "LIF-01")
def test_wherever_a_family_is_killed_it_comes_to_the_same_ends(nursery: Nursery, ground: Ground) -> None:
    every = all_deaths(nursery, ground)

    died = [die_and_go_on(nursery, ground.place(str(number)), death) for number, death in enumerate(every)]

    assert sum(died) > 15
