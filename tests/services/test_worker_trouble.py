"""While its store is away a worker says so, once and again from time to time; and that it is back, and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from loom.services import worker as services
from loom.services.worker import Report
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Claim
from tests.services import test_worker as shared
from tests.services.test_worker import Place, ended, quick, until, working

place, afresh = shared.place, shared._afresh  # the fixtures of both files


class Away:
    """Makes a store raise *why* whenever it is asked for claims, until that is empty. *asked* counts."""

    def __init__(self, place: Place) -> None:
        self.why, self.asked, self._claim = "the server is away", 0, place.storage.claim
        place.storage.claim = self._asked  # type: ignore[method-assign]  # the network between

    async def _asked(self, *given: Any, **named: Any) -> Sequence[Claim]:
        self.asked += 1
        if self.why:
            raise StoreUnavailable(self.why, store="postgresql://h/db")
        return await self._claim(*given, **named)


async def test_it_is_told_once_and_again_when_it_is_another_trouble_and_once_when_it_is_over(place: Place) -> None:
    away, told = Away(place), list[Report]()
    async with working(place.app(), told=told.append):
        await until(lambda: away.asked > 5)
        away.why = "the server is starting"
        await until(lambda: away.asked > 10)
        away.why = ""
        app = place.app()
        await app.runtime.enqueue(quick, id="a")
        await ended(app.runtime, "a")

    said = [(report.did, str(report.error)) for report in told if report.did in {"failing", "recovered"}]
    assert said == [
        ("failing", "the server is away (postgresql://h/db)"),
        ("failing", "the server is starting (postgresql://h/db)"),
        ("recovered", "None"),
    ]


async def test_one_that_lasts_is_told_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FAILING_EVERY_S", 0.0)
    told: list[Report] = []
    Away(place)

    async with working(place.app(), told=told.append):
        await until(lambda: len(told) >= 3)

    assert {report.did for report in told} == {"failing"}
