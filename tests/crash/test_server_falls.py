"""The server falls while runs are driven, and comes back: whoever drives goes on, or gives up and is taken over from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.matrix import crash, sample, undisturbed, verify
from tests.crash.mortal import Death
from tests.crash.nursery import Nursery
from tests.crash.places import Ground, on_postgres
from tests.crash.scenarios import KILLED
from tests.plugins.postgres.server import Server

SOME = 6
"""So often it falls where there is little time."""


@pytest.fixture
def ground(folder: Path, server: Server) -> Iterator[Ground]:
    with on_postgres(folder, server) as ground:
        yield ground


@pytest.mark.proves("LIF-01", "KER-08", "STO-03")
@pytest.mark.parametrize("falls", [SOME, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_wherever_the_server_falls_a_run_comes_to_its_end_and_does_nothing_twice(
    nursery: Nursery, ground: Ground, seed: int, falls: int
) -> None:
    rng = random.Random(seed)
    names = KILLED if falls > SOME else ("order", rng.choice([name for name in KILLED if name != "order"]))
    expected = {name: undisturbed(nursery, name, ground.place(name)) for name in names}

    for number, (name, ends) in enumerate(sample(rng, expected)[:falls]):
        report, lefts = crash(nursery, name, ground.place(str(number)), [_of_the_server(rng, end) for end in ends])

        verify(expected[name], report, lefts)


def _of_the_server(rng: random.Random, death: Death) -> Death:
    """Return *death*, of the server three times in four."""
    return death._replace(instead=rng.random() < 0.75)
