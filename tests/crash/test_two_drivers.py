"""Two processes and one run: who comes second is told who drives it, and does nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.matrix import left_in
from tests.crash.mortal import Death
from tests.crash.nursery import Nursery
from tests.crash.places import Ground

PATIENCE_S = 20


@pytest.mark.proves("PRN-01", "SUS-06")
def test_a_run_that_is_being_driven_is_driven_by_nobody_else(nursery: Nursery, ground: Ground) -> None:
    place = ground.place("held")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(nursery.bear, "held", place, Death(), seed="first")
        _until((place.folder / "held").exists, "the step was never begun")
        _until(lambda: len(left_in(place).log) == 2, "that it was begun was never written")  # nobody waits for that
        before = left_in(place)
        second = nursery.bear("held", place, Death(), seed="second")
        meanwhile = left_in(place)
        (place.folder / "go").touch()
        ended = first.result(timeout=PATIENCE_S)

    assert second is not None
    assert ended is not None
    assert second["status"] == "accepted"
    assert meanwhile.log == before.log
    assert (ended["status"], ended["value"]) == ("completed", 4)
    assert [deed.step for deed in left_in(place).deeds if deed.phase == "begun"] == ["hold", "mail"]


def _until(holds: Callable[[], bool], never: str) -> None:
    """Return once the other process has come so far."""
    looks = threading.Event()
    for _ in range(PATIENCE_S * 200):
        if holds():
            return
        looks.wait(0.005)
    raise AssertionError(never)
