"""Two processes drive one run: the one that was overtaken writes nothing and does nothing more."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.crash.matrix import left_in
from tests.crash.mortal import Death
from tests.crash.nursery import Nursery

PATIENCE_S = 20


@pytest.mark.proves("PRN-01")
def test_a_driver_that_was_overtaken_stops_with_a_conflict_and_goes_no_further(nursery: Nursery, folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(nursery.bear, "held", folder, Death(), seed="first")
        _wait_for(folder / "held")
        second = nursery.bear("held", folder, Death(), seed="second")
        overtaken_at = left_in(folder)
        (folder / "go").touch()
        late = first.result(timeout=PATIENCE_S)

    assert second is not None
    assert late is not None
    assert (second["status"], second["value"]) == ("completed", 4)
    assert late["status"] == "sequence-conflict"
    assert "somebody else appended" in late["value"]
    left = left_in(folder)
    assert left.log == overtaken_at.log
    assert [deed.step for deed in left.deeds if deed.phase == "begun"] == ["hold", "hold", "mail"]


def _wait_for(path: Path) -> None:
    """Return once the other process has made *path*."""
    looks = threading.Event()
    for _ in range(PATIENCE_S * 200):
        if path.exists():
            return
        looks.wait(0.005)
    raise AssertionError(f"{path.name} was never made")
