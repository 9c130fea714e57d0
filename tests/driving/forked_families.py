"""Forks of a run with children, one of them a chain of links, of whose logs parts were compacted: as if nothing had been, or refused.

What is compacted, up to where, and where snapshots stand is drawn; so is what happened before, and where the parent is forked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

import loom
from loom.core.ids import ExecutionId
from loom.driving.errors import CompactedForkPoint
from loom.driving.loading import load
from loom.driving.runtime import WorkflowRuntime
from loom.services.compacting import furthest
from loom.services.snapshot_taking import take_snapshot
from loom.spi.clock import SeededEntropy, VirtualClock
from loom.spi.event_store import ExecutionQuery
from loom.spi.memory import MemoryStorage
from tests.driving.compacted_forks import ForkedStorage
from tests.services.compacted import compacted, row_of

RUN: Final = ExecutionId("elder-1")
FORK: Final = ExecutionId("fork")
KID: Final = ExecutionId(f"{RUN}:kid")
WALKER: Final = ExecutionId(f"{RUN}:walker")


@loom.flow
async def kid(ctx: loom.Context, n: int) -> int:
    return n + await ctx.suspend("one", expects=int) + await ctx.suspend("two", expects=int)


@loom.flow
async def walker(ctx: loom.Context, n: int) -> int:
    step = await ctx.suspend("on", expects=int)
    return await ctx.continue_as_new(n + step) if step else n


@loom.flow
async def elder(ctx: loom.Context) -> list[Any]:
    children = [await loom.spawn(ctx, kid, 10), await loom.spawn(ctx, walker, 0)]
    said = [await ctx.suspend("said", expects=int) for _ in range(3)]
    return [said, *[await loom.await_child(ctx, each) for each in children]]


class Cut(NamedTuple):
    """How one log is compacted: up to which part of it, of 100, after snapshots were taken at some parts."""

    taken: Sequence[int]
    through: int


parts = st.integers(0, 100)
moves = st.lists(st.tuples(st.sampled_from([RUN, KID, WALKER]), st.integers(0, 2)), max_size=8)
cuts = st.dictionaries(
    st.sampled_from([RUN, KID, WALKER, ExecutionId(f"{WALKER}~2"), ExecutionId(f"{WALKER}~3")]),
    st.builds(Cut, taken=st.lists(parts, max_size=4), through=parts),
)


class Family:
    """A parent and its children in one store, whose time passes between what happens to them."""

    def __init__(self, store: ForkedStorage) -> None:
        self.store, self._clock = store, VirtualClock()
        flows: dict[str, loom.Flow[Any, Any]] = {flow.id: flow for flow in (elder, kid, walker)}
        self.over = WorkflowRuntime(store, flows=flows, clock=self._clock, entropy=SeededEntropy(1))

    async def lived(self, moves: Sequence[tuple[ExecutionId, int]]) -> None:
        """Begin, and do what *moves* say: who is answered, and what."""
        await self.over.start(elder, id=RUN)
        await self.over.settled()
        for chain, answer in moves:
            await self._answered(chain, answer)

    async def _answered(self, chain: ExecutionId, answer: int) -> bool:
        self._clock.advance(1_000)
        [tip] = await self.store.find(ExecutionQuery(chain=chain, tips=True))
        if tip.index.status != "suspended" or tip.index.gates == "[]":
            return False
        await self.over.resume(tip.execution_id, answer=answer)
        await self.over.settled()
        return True

    async def cut(self, cuts: Mapping[ExecutionId, Cut]) -> None:
        """Compact what there is of *cuts*."""
        for run, cut in cuts.items():
            records = await self.store.read(run)
            if not records or (last := furthest(records)) < 1:
                continue
            for part in cut.taken:
                await take_snapshot(self.store, await row_of(self.store, run), at=part_of(part, last))
            await compacted(self.store, MemoryStorage(), run, through=max(1, part_of(cut.through, last)))

    async def forked(self, at: int) -> Any:
        """Fork the parent after event *at*; return what it comes to once all is answered, and the states from which it begins."""
        await self.over.fork(RUN, at=at, id=FORK)
        begun = {run: (await load(self.store, run)).state for run in await self.store.ids(prefix=FORK)}
        told = {
            run: (state.sequence, state.status, len(state.settled), sorted(state.open)) for run, state in begun.items()
        }
        await self.over.resume(FORK)
        await self.over.settled()
        chains = [FORK, ExecutionId(f"{FORK}:kid"), ExecutionId(f"{FORK}:walker")]
        there = [chain for chain in chains if await self.store.head(chain) is not None]
        while any([await self._answered(chain, 0) for chain in there]):
            pass
        last = (await self.over.events(FORK))[-1]
        return told, last.type, getattr(last.payload, "result", None)


def part_of(part: int, of: int) -> int:
    """Return *part*, of 100, of a number."""
    return part * of // 100


async def as_if_nothing_had_been(
    store: ForkedStorage, moves: Sequence[tuple[ExecutionId, int]], cuts: Mapping[ExecutionId, Cut], part: int
) -> int | None:
    """Hold a fork in *store*, which is empty, to one of the same family that is whole; return where it was made, if it was."""
    whole, short = Family(MemoryStorage()), Family(store)
    for family in (whole, short):
        await family.lived(moves)
    records = await whole.store.read(RUN)
    at: int | None = part_of(part, furthest(records))
    await short.cut(cuts)
    while at is not None:
        found = await _forked_or_refused(short, at)
        if not isinstance(found, CompactedForkPoint):
            assert found == await whole.forked(at)
            assert found[1] == "EXECUTION_COMPLETED"
            return at
        assert found.execution_id in cuts
        assert found.parent in ("", RUN)
        assert found.parent_from is None or found.parent_from > at
        assert await store.head(FORK) is None
        at = found.parent_from
    return None


async def _forked_or_refused(family: Family, at: int) -> Any:
    try:
        return await family.forked(at)
    except CompactedForkPoint as refused:
        return refused
