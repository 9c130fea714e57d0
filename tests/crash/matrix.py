"""Where a process may die, and what must hold whatever became of it. Pure but for reading what the processes left."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from loom.spi.errors import StoreUnavailable
from tests.crash.mortal import Death, Deed, Moment, deeds_in
from tests.crash.nursery import Nursery
from tests.crash.places import Place, Row
from tests.crash.scenarios import RUN

WRITE_MOMENTS: Final[tuple[Moment, ...]] = ("before write", "after write")
EFFECT_MOMENTS: Final[tuple[Moment, ...]] = ("effect begins", "effect is done", "effect ends")

ONCE: Final = frozenset({"charge", "charge#1", "pay", "race/pays/charge"})
"""The steps that are declared `idempotent=False`."""


class Left(NamedTuple):
    """What a process left behind: the log as it stands in the store, and what happened outside."""

    log: list[Row]
    deeds: list[Deed]


class Undisturbed(NamedTuple):
    """A run that nothing disturbed: its report and what it left."""

    report: dict[str, Any]
    left: Left


def left_in(place: Place) -> Left:
    """Read what is in *place*."""
    return Left(place.logs().get(RUN, []), deeds_in(place.folder / "deeds"))


def undisturbed(nursery: Nursery, scenario: str, place: Place) -> Undisturbed:
    """Run *scenario* in a process that lives."""
    report = nursery.bear(scenario, place, Death(), seed="undisturbed")
    assert report is not None
    return Undisturbed(report, left_in(place))


def deaths(report: dict[str, Any]) -> list[Death]:
    """Return every death that a process may die that does as much as the *report* says."""
    writes = [Death(moment, n) for n in range(1, report["writes"] + 1) for moment in WRITE_MOMENTS]
    effects = [Death(moment, n) for n in range(1, report["effects"] + 1) for moment in EFFECT_MOMENTS]
    return writes + effects


def sample(rng: random.Random, scenarios: dict[str, Undisturbed]) -> list[tuple[str, tuple[Death, ...]]]:
    """Return all single deaths, and as many of dying again in the process that went on, in a random order."""
    single = [(name, (death,)) for name, run in scenarios.items() for death in deaths(run.report)]
    double = [(name, (first, rng.choice(deaths(scenarios[name].report)))) for name, (first,) in single]
    both: list[tuple[str, tuple[Death, ...]]] = [*single, *double]
    rng.shuffle(both)
    return both


def crash(nursery: Nursery, scenario: str, place: Place, deaths: Sequence[Death]) -> tuple[dict[str, Any], list[Left]]:
    """Let one process after the other die of *deaths*, and one more live; return its report and what each left.

    Where it is the server that dies, a process may give up.
    """
    lefts = []
    for number, death in enumerate([*deaths, Death()]):
        report = nursery.bear(scenario, place, death, seed=f"{place.folder.name} {number}")
        lefts.append(left_in(place))
        if report is not None and not (death.instead and report["status"] == StoreUnavailable.code):
            return report, lefts
    raise AssertionError("unreachable: the last process is not to die")


def verify(expected: Undisturbed, report: dict[str, Any], lefts: Sequence[Left]) -> None:
    """Hold a run that was crashed to all that was promised."""
    assert {"status": report["status"], "value": report["value"]} == {
        "status": expected.report["status"],
        "value": expected.report["value"],
    }
    final = lefts[-1]
    assert [row[0] for row in final.log] == list(range(len(final.log))), "a gap in the sequences"
    for before, after in pairwise(lefts):
        assert after.log[: len(before.log)] == before.log, "what was durable has changed"
        _never_again(before, after.deeds[len(before.deeds) :])
    for crashed in lefts[:-1]:
        _started_on_disk(crashed)
        _doubted(crashed, final)
    _counts(expected.left.deeds, final)
    received = [_json(row)["number"] for row in final.log if row[1] == "MESSAGE_RECEIVED"]
    assert len(received) == len(set(received)), "a message was received twice"


def _never_again(before: Left, deeds: Sequence[Deed]) -> None:
    settled, failed = outcomes(before.log)
    for deed in deeds:
        assert deed.step not in settled, f"{deed.step} ran again though its outcome was durable"
        assert (deed.step, deed.attempt) not in failed, f"attempt {deed.attempt} of {deed.step} ran again"


def _started_on_disk(crashed: Left) -> None:
    """A step that is not idempotent leaves only with its start on disk (row KER-08)."""
    started = set(starts(crashed.log).values())
    for deed in crashed.deeds:
        assert deed.step not in ONCE or deed.step in started, f"{deed.step} left before its start was on disk"


def _doubted(crashed: Left, final: Left) -> None:
    settled, _ = outcomes(crashed.log)
    lost = [step for step in starts(crashed.log).values() if step in ONCE and step not in settled]
    doubted = [starts(final.log)[_json(row)["start"]] for row in final.log if row[1] == "EFFECT_INDOUBT"]
    assert set(lost) <= set(doubted), f"{lost} may have happened, and nobody was asked"


def _counts(expected: Sequence[Deed], final: Left) -> None:
    done, wanted = _done(final.deeds), _done(expected)
    assert done.keys() == wanted.keys()
    for step, deeds in done.items():
        assert len({(deed.key, json.dumps(deed.args, sort_keys=True)) for deed in deeds}) == 1, (
            f"{step} was asked twice"
        )
        assert _repeatable(deeds[0]) == _repeatable(wanted[step][0])
        assert {deed.attempt for deed in deeds} == {deed.attempt for deed in wanted[step]}
        assert step not in ONCE or len(deeds) == 1, f"{step} happened {len(deeds)} times"
    retried = [
        _json(row)["start"] for row in final.log if row[1] == "EFFECT_RESOLVED" and _json(row)["verdict"] == "retry"
    ]
    begun = Counter(deed.step for deed in final.deeds if deed.phase == "begun" and deed.step in ONCE)
    for step, times in begun.items():
        verdicts = sum(starts(final.log)[start] == step for start in retried)
        assert times <= 1 + verdicts, f"{step} was begun {times} times after {verdicts} verdicts to retry"


def _repeatable(deed: Deed) -> Any:
    """Return what *deed* was asked with, in any run: a ticket is another each time."""
    return {name: value for name, value in deed.args.items() if name != "ticket"} if deed.key else deed.args


def _done(deeds: Sequence[Deed]) -> dict[str, list[Deed]]:
    found: dict[str, list[Deed]] = {}
    for deed in deeds:
        if deed.phase == "done":
            found.setdefault(deed.step, []).append(deed)
    return found


def starts(log: Sequence[Row]) -> dict[int, str]:
    """Return the steps that *log* has begun, by the sequence of their start."""
    return {row[0]: _json(row)["id"] for row in log if row[1] == "STEP_STARTED"}


def outcomes(log: Sequence[Row]) -> tuple[set[str], set[tuple[str, int]]]:
    """Return the steps and decisions that have their outcome in *log*, and the attempts that are on it as failed."""
    begun = starts(log)
    settled, failed = set(), set()
    for row in log:
        fact = _json(row)
        if row[1] in {"STEP_COMPLETED", "STEP_FAILED"} or (row[1] == "EFFECT_RESOLVED" and fact["verdict"] != "retry"):
            settled.add(begun[fact["start"]])
        elif row[1] == "DECISION_RECORDED":
            settled.add(fact["id"])
        elif row[1] == "STEP_ATTEMPT_FAILED":
            failed.add((begun[fact["start"]], fact["attempt"]))
    return settled, failed


def _json(row: Row) -> dict[str, Any]:
    fact: dict[str, Any] = json.loads(row[3])
    return fact
