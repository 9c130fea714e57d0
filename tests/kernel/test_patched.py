"""Kernel rule 11.3: what a run answers to `ctx.patched` is fixed by its first answer, live, replayed, and cut off anywhere."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.core.errors import InvalidId
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import ReplayDivergence
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, records, runtime

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.flow(id="shop")
async def before(ctx: loom.Context) -> Any:
    first = await ctx.run(work, "first")
    second = await ctx.run(work, "old")
    return [first, second, await ctx.suspend("end"), await ctx.run(work, "old again")]


@loom.flow(id="shop")
async def after(ctx: loom.Context) -> Any:
    first = await ctx.run(work, "first")
    second = await ctx.run(work.named("new"), "new") if ctx.patched("newer") else await ctx.run(work, "old")
    answer = await ctx.suspend("end")
    return [first, second, answer, await ctx.run(work, "new again" if ctx.patched("newer") else "old again")]


OLD = ["first", "old", 1, "old again"]
NEW = ["first", "new", 1, "new again"]


async def driven_to_its_end(over: WorkflowRuntime) -> Any:
    outcome = await over.resume(RUN)
    if outcome.status == "suspended":
        outcome = await over.resume(RUN, answer=1)
    return outcome.value


@pytest.mark.proves("BEY-11")
async def test_a_run_that_began_before_the_patch_takes_the_old_way_and_a_new_one_the_new() -> None:
    over = runtime(before)
    await over.start(before, id=RUN)
    changed = runtime(after, storage=over.storage)

    await changed.start(after, id="younger")

    assert (await changed.resume("younger", answer=1)).value == NEW
    assert (await changed.resume(RUN, answer=1)).value == OLD
    assert [fact.name for fact in await payloads(changed, "PATCH_APPLIED", "younger")] == ["newer"]
    [migrated] = await payloads(changed, "EXECUTION_MIGRATED")
    assert migrated.unpatched == ["newer"]


@pytest.mark.proves("BEY-11")
async def test_an_old_run_cut_off_at_any_event_takes_the_old_way_for_ever_once_it_has_passed_the_place() -> None:
    over = runtime(before)
    await over.start(before, id=RUN)
    whole = await over.resume(RUN, answer=1)
    assert whole.value == OLD
    log = await records(over.storage)

    for length in range(1, len(log)):
        left = await cut_off_after(over.storage, length)
        has_passed = "STEP_COMPLETED" in [record.type for record in log[:length]]
        assert await driven_to_its_end(runtime(after, storage=left)) == (OLD if has_passed else NEW), length


@pytest.mark.proves("BEY-11")
async def test_a_new_run_cut_off_at_any_event_takes_the_new_way_and_so_does_its_next_replay() -> None:
    over = runtime(after)
    await over.start(after, id=RUN)
    assert (await over.resume(RUN, answer=1)).value == NEW
    log = await records(over.storage)

    for length in range(1, len(log)):
        left = await cut_off_after(over.storage, length)
        assert await driven_to_its_end(runtime(after, storage=left)) == NEW, length
        assert len(await payloads(runtime(after, storage=left), "PATCH_APPLIED")) == 1


async def test_an_old_run_that_went_on_under_the_new_code_is_cut_off_at_any_event_and_stays_on_the_old_way() -> None:
    over = runtime(before)
    await over.start(before, id=RUN)
    changed = runtime(after, storage=over.storage)
    assert (await changed.resume(RUN, answer=1)).value == OLD
    log = await records(changed.storage)
    passed = [record.type for record in log].index("STEP_COMPLETED") + 1

    for length in range(passed, len(log)):
        left = await cut_off_after(changed.storage, length)
        assert await driven_to_its_end(runtime(after, storage=left)) == OLD, length


async def test_a_run_that_has_not_come_to_the_place_yet_takes_the_new_way() -> None:
    @loom.flow(id="late")
    async def late(ctx: loom.Context) -> Any:
        return [await ctx.suspend("first"), await ctx.run(work, "old")]

    @loom.flow(id="late")
    async def patched(ctx: loom.Context) -> Any:
        answer = await ctx.suspend("first")
        return [answer, await ctx.run(work, "new" if ctx.patched("later") else "old")]

    over = runtime(late)
    await over.start(late, id=RUN)

    outcome = await runtime(patched, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == [1, "new"]


async def test_branches_get_one_answer_also_where_only_some_had_passed_the_place() -> None:
    async def one(ctx: loom.Context, item: int) -> Any:
        return [await ctx.run(work, f"{item}"), await ctx.run(work, f"{item} old"), await ctx.suspend(f"{item}")]

    async def other(ctx: loom.Context, item: int) -> Any:
        first = await ctx.run(work, f"{item}")
        second = await ctx.run(work, f"{item} new" if ctx.patched("newer") else f"{item} old")
        return [first, second, await ctx.suspend(f"{item}")]

    @loom.flow(id="fan")
    async def fan(ctx: loom.Context) -> Any:
        return await ctx.map(one, [0, 1, 2], limit=2)

    @loom.flow(id="fan")
    async def patched(ctx: loom.Context) -> Any:
        return await ctx.map(other, [0, 1, 2], limit=2)

    over = runtime(fan)
    await over.start(fan, id=RUN)
    log = [record.type for record in await records(over.storage)]
    for length in range(log.index("STEP_COMPLETED") + 1, len(log)):
        left = runtime(patched, storage=await cut_off_after(over.storage, length))
        outcome = await left.resume(RUN)
        while outcome.status == "suspended":
            outcome = await left.resume(RUN, gate=outcome.gates[0].gate, answer=1)
        assert outcome.value is not None
        assert [second for _, second, _ in outcome.value] == ["0 old", "1 old", "2 old"], length


async def test_each_link_of_a_chain_answers_for_itself() -> None:
    @loom.flow(id="rolls")
    async def rolls(ctx: loom.Context, n: int) -> Any:
        await ctx.run(work, f"old {n}")
        await ctx.suspend("next")
        return await ctx.continue_as_new(n + 1) if n < 2 else "done"

    @loom.flow(id="rolls")
    async def patched(ctx: loom.Context, n: int) -> Any:
        await ctx.run(work, f"{'new' if ctx.patched('newer') else 'old'} {n}")
        await ctx.suspend("next")
        return await ctx.continue_as_new(n + 1) if n < 2 else "done"

    over = runtime(rolls)
    await over.start(rolls, 1, id=RUN)
    changed = runtime(patched, storage=over.storage)

    await changed.resume(RUN, answer=1)
    outcome = await changed.resume(RUN, answer=1)

    assert (outcome.value, ran) == ("done", ["old 1", "new 2"])
    assert (await payloads(changed, "PATCH_APPLIED")) == []
    assert [fact.name for fact in await payloads(changed, "PATCH_APPLIED", f"{RUN}~2")] == ["newer"]


async def test_a_retry_keeps_the_answer() -> None:
    broken = [True]

    @loom.step
    async def fragile(name: str) -> str:
        if broken[0]:
            raise ConnectionError("down")
        return name

    @loom.flow(id="shop")
    async def flow(ctx: loom.Context) -> Any:
        way = "new" if ctx.patched("newer") else "old"
        return [await ctx.run(fragile, way), ctx.patched("newer")]

    over = runtime(flow)
    assert (await over.start(flow, id=RUN)).status == "failed"
    broken.clear()
    broken.append(False)

    assert (await runtime(flow, storage=over.storage).retry(RUN)).value == ["new", True]
    assert (await kinds(over)).count("PATCH_APPLIED") == 1


async def test_the_mark_is_on_disk_before_an_effect_of_the_new_way() -> None:
    over = runtime(after)
    seen: list[list[str]] = []

    @loom.flow(id="shop")
    async def flow(ctx: loom.Context) -> Any:
        ctx.patched("newer")
        return await ctx.run("look", look)

    async def look() -> None:
        seen.append([record.type for record in await records(over.storage)])

    over = runtime(flow, storage=over.storage)
    await over.start(flow, id=RUN)

    assert seen == [["EXECUTION_STARTED", "PATCH_APPLIED", "STEP_STARTED"]]


async def test_old_code_meets_a_run_that_took_the_new_way() -> None:
    over = runtime(after)
    await over.start(after, id=RUN)

    with pytest.raises(ReplayDivergence):
        await runtime(before, storage=over.storage).resume(RUN, answer=1)


async def test_a_patch_has_a_name() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        return ctx.patched("")

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.status == "failed"
    assert InvalidId.__name__ in str(outcome.failure)
