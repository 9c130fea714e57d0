"""A process that is killed while its run rolls over to a fresh log: the chain has every link once, and does nothing twice."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.matrix import crash, sample, undisturbed
from tests.crash.nursery import Nursery

PATIENCE_S = 15.0


@pytest.mark.parametrize(
    "patience_s", [PATIENCE_S, pytest.param(600.0, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
@pytest.mark.proves("SYS-11", "KER-08")
def test_a_chain_whose_process_is_killed_anywhere_comes_to_the_same_end(
    nursery: Nursery, folder: Path, seed: int, patience_s: float
) -> None:
    expected = undisturbed(nursery, "laps", folder / "laps")
    links = _links(folder / "laps")
    until = time.monotonic() + patience_s

    for number, (name, ends) in enumerate(sample(random.Random(seed), {"laps": expected})):
        report, lefts = crash(nursery, name, folder / str(number), ends)

        assert (report["status"], report["value"]) == ("completed", expected.report["value"])
        assert [name for name, _ in _links(folder / str(number))] == [name for name, _ in links]
        for _, sequences in _links(folder / str(number)):
            assert sequences == list(range(len(sequences)))
        done = [deed.step for deed in lefts[-1].deeds if deed.phase == "done"]
        assert sorted(done) == ["lap-1", "lap-2", "lap-3"]
        if time.monotonic() > until:
            break


def _links(folder: Path) -> list[tuple[str, list[int]]]:
    """Return each link of the chain with the sequences of its log."""
    with closing(sqlite3.connect(folder / "loom.db")) as database:
        runs = database.execute("SELECT id, run FROM executions ORDER BY id").fetchall()
        rows = "SELECT sequence FROM events WHERE run = ? ORDER BY sequence"
        return [(name, [sequence for (sequence,) in database.execute(rows, (run,))]) for name, run in runs]
