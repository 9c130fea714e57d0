"""An old payload is read as the present version has it, step by step, and is never guessed at."""

from __future__ import annotations

import pytest

from loom.core.json import JsonObject
from loom.core.upcasting import UPCASTERS, upcast
from loom.kernel.fold import EVENTS


def renamed(fields: JsonObject) -> JsonObject:
    return {"result": fields.pop("value"), **fields}


def with_unit(fields: JsonObject) -> JsonObject:
    return {**fields, "unit": "s"}


STEPS = {"STEP_TIMED": {1: renamed, 2: with_unit}}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (1, {"result": 5, "start": 1, "unit": "s"}),
        (2, {"value": 5, "start": 1, "unit": "s"}),
        (3, {"value": 5, "start": 1}),
    ],
)
def test_a_payload_goes_through_every_version_after_its_own(written: int, found: JsonObject) -> None:
    fields = {"start": 1, "value": 5}

    assert upcast("STEP_TIMED", fields, written=written, present=3, upcasters=STEPS) == found
    assert fields == {"start": 1, "value": 5}, "what was read is left as it is"


def test_a_version_that_nothing_reads_is_named() -> None:
    with pytest.raises(LookupError, match="how version 3 of STEP_TIMED is read"):
        upcast("STEP_TIMED", {"value": 5}, written=1, present=4, upcasters=STEPS)


@pytest.mark.proves("RNG-07")
def test_every_version_that_an_event_has_had_is_readable() -> None:
    had = {(name, version) for name, row in EVENTS.items() for version in range(1, row.version)}

    assert had == {(name, version) for name, steps in UPCASTERS.items() for version in steps}
