"""Who drives a run, in words."""

from __future__ import annotations

from typing import Any

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import ExecutionRow, IndexRow
from loom_cli.drivers import driver_words, held_words

DRIVER = "vm%3A3d1219/boot/space/17/99/ab12"
INDEX = IndexRow(
    flow="refund", status="running", started_at=0, updated_at=0, wake_at=None, gates="[]", attributes="{}", chain="r"
)


@pytest.mark.parametrize(
    ("name", "words"),
    [(DRIVER, "process 17 on vm"), ("/b/s/17/9/ab", "process 17"), ("virtual/1", "virtual/1")],
)
def test_a_driver_is_known_by_its_process(name: str, words: str) -> None:
    assert driver_words(name) == words


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({}, ""),
        ({"driver": DRIVER, "lease_ms": 5}, "process 17 on vm"),
        ({"driver": DRIVER}, "a driver: the lease of process 17 on vm has lapsed"),
        ({"driver": DRIVER, "released": True}, "a driver: process 17 on vm let it go"),
    ],
)
def test_a_row_says_who_has_the_run_or_what_became_of_who_had_it(held: dict[str, Any], words: str) -> None:
    assert held_words(ExecutionRow(ExecutionId("r"), Incarnation(1), 3, INDEX, **held)) == words
