"""Kernel rule 9.4: what a run noted when it went on under other code holds in every later replay."""

from __future__ import annotations

from typing import Any

import loom
from tests.kernel.running import RUN, payloads, runtime


@loom.step
async def work(name: str) -> str:
    return name


def version(name: str) -> loom.Flow[[], Any]:
    @loom.flow(id="versioned")
    async def flow(ctx: loom.Context) -> Any:
        return [await ctx.run(work, name), await ctx.suspend("first"), await ctx.suspend("second")]

    return flow


async def test_an_argument_that_was_noted_as_changed_is_no_divergence_when_the_new_code_replays_again() -> None:
    before, after = version("a"), version("b")
    over = runtime(before)
    await over.start(before, id=RUN)
    await runtime(after, storage=over.storage).resume(RUN, gate="first", answer=1)

    outcome = await runtime(after, storage=over.storage).resume(RUN, gate="second", answer=2)

    assert outcome.value == ["a", 1, 2]
    assert len(await payloads(over, "EXECUTION_MIGRATED")) == 1
