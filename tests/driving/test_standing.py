"""Whether a run is free, driven or left behind: decided by its row, its log, and who is known to be gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.driving.standing import Standing, standing
from loom.spi.event_store import ExecutionRow, IndexRow

RUN = ExecutionId("run")
INDEX = IndexRow(
    flow="f", status="running", started_at=0, updated_at=0, wake_at=None, gates="[]", attributes="{}", chain=RUN
)
ROW = ExecutionRow(RUN, Incarnation(1), 1, INDEX)


def stands(row: ExecutionRow, status: Any = "running", *, holds: bool = False) -> Standing:
    return standing(status, row, me="me", holds=holds, is_gone=lambda name: name == "dead")


@pytest.mark.proves("SUS-06")
@pytest.mark.parametrize("status", ["running", "suspended"])
def test_what_nobody_holds_is_free(status: str) -> None:
    assert stands(ROW, status) == Standing()


@pytest.mark.proves("SUS-07")
@pytest.mark.parametrize("status", ["running", "suspended", "paused"])
def test_a_lease_that_runs_keeps_others_away(status: str) -> None:
    found = stands(replace(ROW, driver="other", lease_ms=1), status)

    assert (found, found.is_driven) == (Standing("other"), True)


@pytest.mark.proves("SUS-07")
@pytest.mark.parametrize(
    ("held", "found"),
    [
        ({"driver": "other"}, "lapsed"),
        ({"driver": "dead", "lease_ms": 9}, "gone"),
        ({"driver": "dead"}, "gone"),
        ({"driver": "other", "released": True}, "released"),
        ({"driver": "dead", "released": True}, "released"),
        ({"driver": "me", "lease_ms": 9}, "released"),
    ],
)
def test_what_its_driver_left_in_the_middle_has_to_be_taken_over(held: dict[str, Any], found: Any) -> None:
    row = replace(ROW, **held)

    assert stands(row) == Standing(row.driver, found)
    assert not stands(row).is_driven
    assert stands(row, "suspended") == Standing()  # it never began, so to append first is enough


def test_what_this_process_holds_and_has_not_begun_is_driven_by_it() -> None:
    assert stands(replace(ROW, driver="me"), "suspended", holds=True).is_driven
