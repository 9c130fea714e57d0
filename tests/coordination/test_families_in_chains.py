"""Children of a run that goes on in a fresh log, and children that do."""

from __future__ import annotations

import pytest

import loom
from loom.spi.memory import MemoryStorage
from tests.coordination.kin import asking
from tests.kernel.running import runtime

TOP = "top"


@loom.flow
async def keeps(ctx: loom.Context, child: loom.Child[str] | None = None) -> str:
    """Start a child in the first log, and wait for it in the second."""
    if child is None:
        return await ctx.continue_as_new(await loom.spawn(ctx, asking, "how many"))
    return await loom.await_child(ctx, child)


@loom.flow
async def counts(ctx: loom.Context, n: int = 0) -> int:
    return n if n == 3 else await ctx.continue_as_new(n + 1)


@loom.flow
async def waits_for_counts(ctx: loom.Context) -> int:
    return await loom.await_child(ctx, await loom.spawn(ctx, counts))


@loom.flow
async def starts_one_a_log(ctx: loom.Context, n: int = 0) -> list[str]:
    """Start a child in each log: each has a name of its own."""
    child = await loom.spawn(ctx, asking, f"n {n}")
    if n < 2:
        return await ctx.continue_as_new(n + 1)
    return [child.id]


@pytest.mark.proves("CMP-12")
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_child_of_an_earlier_log_is_awaited_in_a_later_one(restarts: bool) -> None:
    over = runtime(keeps, asking)
    parked = await over.start(keeps, id=TOP)
    if restarts:
        over = runtime(keeps, asking, storage=over.storage)

    await over.resume("top:asking", answer=3)

    assert parked.status == "suspended"
    assert (await over.wait(TOP)).value == "how many: 3"


async def test_a_parent_is_given_what_the_last_log_of_its_child_returned() -> None:
    over = runtime(waits_for_counts, counts)

    assert (await over.start(waits_for_counts, id=TOP)).value == 3


async def test_each_log_of_a_chain_starts_children_of_its_own() -> None:
    over = runtime(starts_one_a_log, asking)

    outcome = await over.start(starts_one_a_log, id=TOP)

    assert isinstance(over.storage, MemoryStorage)
    children = {name for name in await over.storage.ids() if "asking" in name}
    assert len(children) == 3
    assert outcome.value is not None
    assert outcome.value[0] in children


async def test_cancelling_the_last_log_cancels_a_child_of_the_first() -> None:
    over = runtime(keeps, asking)
    await over.start(keeps, id=TOP)

    outcome = await over.cancel(TOP, reason="not wanted")
    await over.settled()

    assert outcome.status == "cancelled"
    assert (await over.wait("top:asking")).status == "cancelled"
