"""A replay asks the store for the log and the lane of its run, and for nothing else there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.spi import Append, AppendResult, EventRecord, ExecutionRow, Request
from tests.golden import flows, logs
from tests.golden.make import INDEX, Life


class LogAlone:
    """The log and the lane of one run, as plain lists: whatever else is asked for is not there."""

    url: Final = "log-alone:"

    def __init__(self, log: Sequence[EventRecord]) -> None:
        self.log, self.asked = list(log), set[str]()

    async def open(self) -> None: ...

    async def row(self, execution_id: ExecutionId) -> ExecutionRow:
        self.asked.add("row")
        return ExecutionRow(execution_id, Incarnation(1), len(self.log), replace(INDEX, chain=execution_id))

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 0
    ) -> Sequence[EventRecord]:
        self.asked.add("read")
        return self.log[start:stop]

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        raise AssertionError("a replay that still waits writes nothing")

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        self.asked.add("pending")
        return ()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the replay asked the store for {name!r}")


@pytest.mark.proves("NOT-09")
async def test_a_replay_reads_the_log_and_looks_into_the_lane_and_touches_no_other_store() -> None:
    golden = logs.read("waiting")
    life = Life(golden.name, flows, forbidden=True)
    storage: Any = LogAlone(golden.log)
    life.storage = storage

    outcome = await life.resume(golden.flow)

    assert outcome.status == "suspended"
    assert life.world.saw == golden.saw
    assert storage.asked == {"row", "read", "pending"}


def test_what_else_a_replay_would_touch_is_seen() -> None:
    with pytest.raises(AssertionError, match="'read_range'"):
        getattr(LogAlone([]), "read_range")  # noqa: B009  # no type has it
