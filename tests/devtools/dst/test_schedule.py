"""What goes wrong is a short text, the same for the same seed, and can be made simpler."""

from __future__ import annotations

import pytest

from loom.core.errors import InvalidDeclaration
from loom.devtools.dst.schedule import KINDS, Fault, Places, Schedule, simpler, words

COUNTS = {"append": 9, "insert": 2, "lease": 4, "line": 0, "read": 12, "step": 3}


def test_a_schedule_is_read_as_it_is_written() -> None:
    text = "append.3:crash-after insert.1:twice append.5:pause-before:60"

    schedule = Schedule.parse(text)

    assert schedule.faults[2] == Fault("append", 5, "pause-before", 60.0)
    assert str(schedule) == text
    assert Schedule.parse("") == Schedule()


@pytest.mark.parametrize("seed", range(200))
def test_the_schedule_of_a_seed_is_always_the_same_and_reads_back(seed: int) -> None:
    schedule = Schedule.of(seed, COUNTS)

    assert Schedule.of(seed, COUNTS) == schedule == Schedule.parse(str(schedule))
    assert 1 <= len(schedule.faults) <= 6
    assert all(fault.kind in KINDS[fault.place] and COUNTS[fault.place] for fault in schedule.faults)


@pytest.mark.parametrize(
    "text",
    [
        "append.3",
        "append.0:crash-after",
        "append.-1:crash-after",
        "append.3:burn",
        "step.1:reject",
        "elsewhere.1:crash-after",
        "append.3:crash-after:5",
        "append.3:slow",
        "append.3:slow:x",
        "append.3:slow:nan",
    ],
)
def test_what_is_no_fault_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="is no fault") as refused:
        Schedule.parse(f"append.1:crash-after {text}")

    assert text in str(refused.value)
    assert "PLACE.NUMBER:KIND" in refused.value.hint


def test_places_are_counted_and_each_has_its_fault_once() -> None:
    places = Places(Schedule.parse("append.2:reject step.1:crash-before"))

    found = [places.next("append"), places.next("step"), places.next("append"), places.next("append")]

    assert [each and each.kind for each in found] == [None, "crash-before", "reject", None]
    assert (places.counts["append"], places.counts["step"]) == (3, 1)


def test_a_simpler_fault_leads_nowhere_twice() -> None:
    """Shrinking comes to an end: each simpler fault is less than the one it was made from."""
    for place, kinds in KINDS.items():
        for kind in kinds:
            seen, left = set[Fault](), [Fault(place, 5, kind, 60.0 if kind.startswith(("pause", "slow")) else 0.0)]
            while left:
                fault = left.pop()
                assert words(fault)
                left += [each for each in simpler(fault) if each not in seen]
                seen.update(left)
            assert len(seen) < 200
