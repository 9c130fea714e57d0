"""A step that ends every process that runs it is found out, and a person asked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.runtime import WorkflowRuntime
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult, Storage
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, payloads, runtime


class Mortal:
    """A store as one process has it: once that is lost, nothing of it is written any more."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage, self.is_lost, self.buried = storage, False, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        if self.is_lost:
            await self.buried.wait()
            raise StoreUnavailable("its process is gone", store="memory")
        return await self._storage.append(batch)


class Deadly:
    """A flow whose second step ends its process: it never returns, and the test forgets the runtime that runs it."""

    def __init__(self, *, reads: bool = False) -> None:
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.is_mended, self.runs = False, 0

        @loom.step(reads=reads)
        async def first() -> None: ...

        @loom.step(reads=reads)
        async def deadly() -> int:
            self.runs += 1
            if not self.is_mended:
                self.begun.put_nowait(self.runs)
                await asyncio.Event().wait()
            return self.runs

        @loom.flow
        async def flow(ctx: loom.Context) -> int:
            await ctx.run(first)
            return await ctx.run(deadly)

        self.flow = flow
        self.storage = MemoryStorage()
        self.lost: set[str] = set()
        self.stores: list[Mortal] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def process(self) -> WorkflowRuntime:
        """Return a runtime that knows all before it to be gone."""
        host = VirtualHost(f"process-{len(self.lost)}")
        host.gone = set(self.lost)
        self.lost.add(f"process-{len(self.lost)}/1")
        for store in self.stores:
            store.is_lost = True
        self.stores.append(Mortal(self.storage))
        return runtime(self.flow, storage=cast(Storage, self.stores[-1]), host=host, write_behind=True)

    async def die(self) -> loom.Outcome[int] | None:
        """Drive the run in a process that is lost in the deadly step; return the outcome if it comes to one before."""
        process = self.process()
        is_new = await self.storage.row(ExecutionId(RUN)) is None
        return await self.lost_in(process.start(self.flow, id=RUN) if is_new else process.resume(RUN))

    async def lost_in(self, verb: Coroutine[Any, Any, loom.Outcome[int]]) -> loom.Outcome[int] | None:
        driving, begun = asyncio.create_task(verb), asyncio.create_task(self.begun.get())
        self.tasks += [driving, begun]
        await asyncio.wait({driving, begun}, return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            return None
        begun.cancel()
        return await driving

    async def die_until_in_doubt(self) -> int:
        """Return how many processes were lost before the run was put in doubt."""
        for lost in range(10):
            if (outcome := await self.die()) is not None:
                assert (outcome.status, [gate.gate for gate in outcome.gates]) == ("in_doubt", ["deadly"])
                assert outcome.gates[0].reason == "3 processes were lost while it ran; it may be what ends them"
                return lost
        raise AssertionError("it was never put in doubt")

    async def bury(self) -> None:
        for store in self.stores:
            store.buried.set()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.proves("SUS-07")
@pytest.mark.parametrize("reads", [True, False])
async def test_a_step_in_which_three_processes_were_lost_is_in_doubt(reads: bool) -> None:
    deadly = Deadly(reads=reads)

    lost = await deadly.die_until_in_doubt()

    assert 3 <= lost <= 5  # two may be lost before its start is sure to be on disk
    assert deadly.runs == lost
    deadly.is_mended = True
    assert (await deadly.process().resolve(RUN, "deadly", "retry")).value == lost + 1
    await deadly.bury()


@pytest.mark.proves("SUS-07")
async def test_a_step_that_is_tried_again_by_a_person_has_three_more_lives() -> None:
    deadly = Deadly()
    await deadly.die_until_in_doubt()
    assert await deadly.lost_in(deadly.process().resolve(RUN, "deadly", "retry")) is None

    assert 2 <= await deadly.die_until_in_doubt() <= 4

    assert len(await payloads(deadly.process(), "EFFECT_INDOUBT")) == 2
    await deadly.bury()


async def test_from_the_second_recovery_on_each_start_is_on_disk_before_its_effect() -> None:
    deadly = Deadly(reads=True)
    for _ in range(3):
        await deadly.die()

    state = await deadly.process().load_state(RUN)

    assert state.facts.recoveries == 2
    assert [start.payload.id for start in state.open.values()] == ["deadly"]  # it runs now, and the log says so
    await deadly.bury()
