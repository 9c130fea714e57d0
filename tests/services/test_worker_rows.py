"""A worker goes by the rows of runs; one that is wrong, whoever made it so, is no work for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loom.core.ids import ExecutionId
from loom.services.worker import Report
from loom.spi.event_store import Append, AppendResult, ExecutionRow
from loom.spi.memory import MemoryStorage
from tests.services.test_worker import Place, _afresh, ended, listens, place, quick, until, working

__all__ = ["_afresh", "place"]


async def woken_by_hand(storage: MemoryStorage, run: str) -> ExecutionRow:
    """Have a run due though its log says nothing of a time, as by an UPDATE; return its row as it was."""
    row = await storage.row(ExecutionId(run))
    assert row is not None
    item = Append(
        execution_id=row.execution_id,
        incarnation=row.incarnation,
        expected=row.length,
        append_id="by hand",
        events=(),
        index=replace(row.index, wake_at=-1),
    )
    await storage.append([item])
    return row


async def test_a_run_that_is_due_by_its_row_alone_is_driven_once_and_its_row_is_put_right(place: Place) -> None:
    app, told = place.app(), list[Report]()
    await app.runtime.start(listens, id="r")
    before = await woken_by_hand(place.storage, "r")

    async with working(place.app(), told=told.append):
        await until(lambda: any(report.did == "parked" for report in told))
        for number in range(5):
            await app.runtime.enqueue(quick, id=f"q-{number}")
            await ended(app.runtime, f"q-{number}")

    row = await place.storage.row(ExecutionId("r"))
    assert row is not None
    assert (row.index, row.length) == (before.index, before.length)
    assert [report.did for report in told if report.execution_id == "r"] == ["took", "parked"]


async def test_a_run_that_is_found_again_and_again_as_it_was_is_left_alone_longer_each_time(place: Place) -> None:
    class Stubborn(MemoryStorage):
        """Rows that stay as they are unless events come."""

        async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
            return await super().append([item for item in batch if item.events or item.append_id == "by hand"])

    place.storage = Stubborn(clock=place.clock)
    app, told = place.app(), list[Report]()
    await app.runtime.start(listens, id="r")
    await woken_by_hand(place.storage, "r")

    async with working(place.app(), told=told.append):
        await until(lambda: len([report for report in told if report.did == "parked"]) == 2)
        for number in range(5):
            await app.runtime.enqueue(quick, id=f"q-{number}")
            await ended(app.runtime, f"q-{number}")

    assert [report.did for report in told if report.execution_id == "r"] == ["took", "parked"] * 2
