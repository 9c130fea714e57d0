"""What the kernel's tests share: an app from a few flows, and short forms of what a log holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import loom
from loom.core.ids import ExecutionId, Incarnation
from loom.driving.runtime import WorkflowRuntime
from loom.spi.event_store import Append, AppendResult, EventRecord, Storage
from loom.spi.memory import MemoryStorage

RUN = "run-1"


def runtime(*flows: loom.Flow[Any, Any], storage: Storage | None = None, **options: Any) -> WorkflowRuntime:
    """Return a runtime of its own over *storage*: a second one stands for the next process."""
    return loom.define_config(flows=flows, storage=storage or MemoryStorage(), **options).runtime


async def kinds(over: WorkflowRuntime, run: str = RUN) -> list[str]:
    """Return the types of the events of *run*, without their prefix `EXECUTION_`."""
    return [event.type.removeprefix("EXECUTION_") for event in await over.events(run)]


async def payloads(over: WorkflowRuntime, type_: str, run: str = RUN) -> list[Any]:
    """Return the payloads of the events of one type."""
    return [event.payload for event in await over.events(run) if event.type == type_]


async def records(storage: Storage, run: str = RUN) -> list[EventRecord]:
    """Return the whole log as stored."""
    return list(await storage.read(ExecutionId(run), limit_bytes=1 << 30))


async def cut_off_after(storage: Storage, length: int, run: str = RUN) -> MemoryStorage:
    """Return a store that holds what a process killed after *length* events left behind."""
    left = MemoryStorage()
    whole = await records(storage, run)
    row = await storage.row(ExecutionId(run))
    assert row is not None
    status = "suspended" if whole[length - 1].type == "EXECUTION_SUSPENDED" else "running"
    item = Append(
        execution_id=ExecutionId(run),
        incarnation=None,
        expected=0,
        append_id="left",
        events=whole[:length],
        index=replace(row.index, status=status, ended=False),
    )
    await left.append([item])
    return left


class AppendsAreCounted(MemoryStorage):
    """A store that tells how many transactions it made, and can be told what to do instead of the n-th."""

    def __init__(self, instead: Mapping[int, BaseException] | None = None) -> None:
        super().__init__()
        self.instead = dict(instead or {})
        self.batches: list[Sequence[Append]] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        self.batches.append(batch)
        error = self.instead.get(len(self.batches))
        if error is not None:
            raise error
        return await super().append(batch)


class Damaged(MemoryStorage):
    """A store whose log a test has spoiled: the laws of a log do not hold in it."""


def incarnation_of(storage: MemoryStorage, run: str = RUN) -> Incarnation:
    """Return the life of *run*."""
    return storage._logs[ExecutionId(run)].incarnation
