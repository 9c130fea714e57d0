"""A timer is an instant, and the clock of the store is the one that counts (field faults 35 and 41)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.runtime import WorkflowRuntime
from loom.services.worker import Report
from loom.spi.clock import SystemClock
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.services import test_worker as shared
from tests.services.test_worker import DONE, FLOWS, GO, POLL_S, Place, ended, hangs, naps, until, working

place, afresh = shared.place, shared._afresh  # the fixtures of both files


@pytest.mark.proves("RNG-21", "SUS-07")
async def test_a_sleep_of_thirty_minutes_whose_process_is_lost_after_twenty_five_is_over_five_minutes_later(
    place: Place,
) -> None:
    lost = place.app()
    sleeping = asyncio.create_task(lost.runtime.start(naps, 1_800, id="r", linger_s=3_600))  # it waits in place
    await until(lambda: in_log(lost.runtime, "TIMER_SET"))
    place.clock.advance(25 * 60_000)
    host = VirtualHost("finder")
    host.gone.add("app-1/1")

    async with working(place.app(host=host)):
        await until(lambda: in_log(lost.runtime, "EXECUTION_TAKEN_OVER"))
        place.clock.advance(5 * 60_000 - 1)
        await asyncio.sleep(10 * POLL_S)
        early = await in_log(lost.runtime, "TIMER_FIRED")
        place.clock.advance(1)
        await ended(lost.runtime, "r")

    assert (early, DONE["r"]) == (False, 1)
    await asyncio.gather(sleeping, return_exceptions=True)


async def in_log(runtime: WorkflowRuntime, type_: str) -> bool:
    return type_ in [event.type for event in await runtime.storage.read(ExecutionId("r"))]


class TenMinutesAhead(SystemClock):
    """The clock of a store that is ten minutes ahead of this machine's."""

    def now_ms(self) -> int:
        return super().now_ms() + 600_000


@pytest.mark.proves("SUS-07", "RNG-21")
async def test_leases_and_timers_go_by_the_clock_of_the_store_however_far_off_that_of_the_driver_is() -> None:
    storage, told = MemoryStorage(clock=TenMinutesAhead()), list[Report]()
    wired: dict[str, Any] = {"flows": FLOWS, "storage": storage}
    one = loom.define_config(**wired)
    hanging = asyncio.create_task(one.runtime.start(hangs, id="held"))
    started = time.monotonic()
    await one.runtime.start(naps, 0.3, id="r", linger_s=0)

    async with working(loom.define_config(**wired), told=told.append):
        await ended(one.runtime, "r")

    assert 0.3 <= time.monotonic() - started < 60
    assert {report.execution_id for report in told} == {"r"}  # the other lease runs, by the clock that gave it
    row = await storage.row(ExecutionId("r"))
    assert row is not None
    assert row.index.started_at > SystemClock().now_ms() + 500_000
    GO[0].set()
    await hanging
