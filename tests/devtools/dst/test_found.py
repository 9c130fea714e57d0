"""What simulations once found in the kernel, each as the smallest schedule that showed it. (Smaller tests stand with the parts.)"""

from __future__ import annotations

import pytest

from loom.devtools.dst.schedule import Schedule
from loom.devtools.dst.searching import tried
from tests.devtools.dst import family_plays, kernel_plays

IN_PROGRAMS = [
    pytest.param(938, 7511, "append.2:fail-after append.3:reject", id="a run that had moved was given up as parked"),
    pytest.param(
        938, 7511, "append.2:fail-after append.3:fail-after append.4:fail-after", id="the same, with no other writer"
    ),
    pytest.param(
        623, 4984, "lease.1:crash-after lease.4:slow:20 step.1:crash-after", id="a drive renewed the lease of another"
    ),
    pytest.param(
        2795,
        22363,
        "append.3:pause-after:20 append.6:fail-before lease.4:fail-before",
        id="a drive waited for a renewal that was not for it",
    ),
    pytest.param(722, 5781, "append.2:pause-after:20", id="a verdict came to a process that had lost the run"),
    pytest.param(272971410, 2183771282, "append.3:pause-after:20", id="an answer came to such a process"),
]

IN_FAMILIES = [
    pytest.param(
        11, 91, "", id="a child's end and the worker took up the parent in one moment: a lease renewed for ever"
    ),
    pytest.param(30, 30, "", id="the same: the worker waited for the drive without a rest"),
    pytest.param(25, 203, "append.15:fail-before step.3:slow:20", id="the same, in a chain"),
    pytest.param(
        112, 900, "append.1:crash-after append.9:pause-after:20", id="a next link was driven that had ended meanwhile"
    ),
    pytest.param(153, 1228, "append.1:fail-before append.7:pause-after:20 step.1:crash-after", id="the same, again"),
    pytest.param(
        121, 975, "append.2:slow:20 lease.2:crash-after", id="a pause took effect that an unpause had come after"
    ),
    pytest.param(25, 204, "append.7:crash-after step.17:crash-before", id="the same, with a crash"),
]


@pytest.mark.parametrize(("program", "seed", "schedule"), IN_PROGRAMS)
def test_what_was_found_in_a_program_is_mended(program: int, seed: int, schedule: str) -> None:
    assert tried(kernel_plays.play_of(program), seed, Schedule.parse(schedule)).breaches == []


@pytest.mark.parametrize(("family", "seed", "schedule"), IN_FAMILIES)
def test_what_was_found_in_a_family_is_mended(family: int, seed: int, schedule: str) -> None:
    assert tried(family_plays.play_of(family), seed, Schedule.parse(schedule)).breaches == []
