"""A worker says, once, that runs wait whose flow its app does not have: it would look idle otherwise, and they forgotten."""

from __future__ import annotations

import pytest

from loom.services import worker as services
from loom.services.worker import Report
from tests.services import test_worker as shared
from tests.services.test_worker import FLOWS, Place, ended, hangs, naps, quick, until, working

place, afresh = shared.place, shared._afresh  # the fixtures of both files


async def test_each_unknown_flow_is_told_once_and_its_runs_are_left(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "CLOCK_EVERY_S", 0.0)
    everything = place.app()
    for run in ("a", "b"):
        await everything.runtime.enqueue(naps, 1, id=run)
    await everything.runtime.enqueue(hangs, id="c")
    told: list[Report] = []

    async with working(place.app(flows=[quick]), told=told.append):
        await until(lambda: len(told) >= 2)
        await everything.runtime.enqueue(quick, id="d")
        await ended(everything.runtime, "d")

    assert [(report.did, report.flow) for report in told if report.did == "unknown"] == [
        ("unknown", "hangs"),
        ("unknown", "naps"),
    ]
    assert [await place.status(run) for run in "abc"] == ["suspended"] * 3


async def test_what_another_worker_of_the_same_app_has_is_no_stranger(place: Place) -> None:
    await place.app().runtime.enqueue(naps, 1, id="a")
    told: list[Report] = []

    worker = place.app(flows=FLOWS).worker(flows=[quick.id], until_idle=True, told=told.append)
    await worker.run()

    assert told == []
