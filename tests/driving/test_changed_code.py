"""What becomes of a run whose code has changed: `check`, `refuse` and `allow`, of the verb, the flow, and the app."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import loom
from loom.core.changes import OnChange
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.driving.errors import CodeChanged
from loom.kernel.errors import ReplayDivergence
from loom.services.worker import Report
from tests.kernel.running import RUN, kinds, payloads, records, runtime

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.step(idempotent=False)
async def pay(amount: int) -> int:
    return amount


def flow_of(name: str, **options: Any) -> loom.Flow[[], Any]:
    """Return a flow whose code depends on *name*."""

    @loom.flow(id="shop", **options)
    async def shop(ctx: loom.Context) -> Any:
        return [await ctx.run(work, "first"), await ctx.suspend("go"), await ctx.run(work, name)]

    return shop


@pytest.mark.proves("RNG-18")
async def test_a_run_of_other_code_is_refused_with_advice_and_nothing_is_written() -> None:
    over = runtime(flow_of("old"))
    await over.start("shop", id=RUN)
    log = await records(over.storage)
    changed = runtime(flow_of("new"), storage=over.storage, on_change="refuse")

    with pytest.raises(CodeChanged) as refused:
        await changed.resume(RUN, answer=1)

    assert await records(over.storage) == log
    assert (await changed.load_state(RUN)).status == "suspended"
    assert await changed.storage.pending(ExecutionId(RUN), Incarnation(1)) == [], "the answer was not taken"
    assert refused.value.pinned != refused.value.present
    assert refused.value.pinned in str(refused.value)
    assert "loom migrate run-1 --to current" in refused.value.hint


async def test_where_other_code_is_refused_the_same_code_goes_on_and_new_runs_begin() -> None:
    over = runtime(flow_of("old"), on_change="refuse")
    await over.start("shop", id=RUN)

    outcome = await runtime(flow_of("old"), storage=over.storage, on_change="refuse").resume(RUN, answer=1)
    younger = await runtime(flow_of("new"), storage=over.storage, on_change="refuse").start("shop", id="younger")

    assert outcome.value == ["first", 1, "old"]
    assert younger.status == "suspended"


@pytest.mark.parametrize(
    ("app", "flow", "verb", "refused"),
    [
        ("check", "refuse", None, True),
        ("refuse", "check", None, False),
        ("refuse", None, "check", False),
        ("allow", "check", "refuse", True),
        ("refuse", None, "allow", False),
    ],
)
async def test_the_verb_stands_above_the_flow_and_the_flow_above_the_app(
    app: OnChange, flow: OnChange | None, verb: OnChange | None, refused: bool
) -> None:
    over = runtime(flow_of("old"))
    await over.start("shop", id=RUN)
    changed = runtime(flow_of("new", on_change=flow), storage=over.storage, on_change=app)

    if refused:
        with pytest.raises(CodeChanged):
            await changed.resume(RUN, answer=1, on_change=verb)
    else:
        assert (await changed.resume(RUN, answer=1, on_change=verb)).value == ["first", 1, "new"]


async def test_a_retry_of_a_run_of_other_code_is_refused_too() -> None:
    def breaking(name: str) -> loom.Flow[[], Any]:
        @loom.flow(id="shop")
        async def shop(ctx: loom.Context) -> Any:
            raise ValueError(name)

        return shop

    over = runtime(breaking("old"))
    await over.start("shop", id=RUN)
    log = await records(over.storage)

    changed = runtime(breaking("new"), storage=over.storage, on_change="refuse")
    with pytest.raises(CodeChanged) as refused:
        await changed.retry(RUN)

    assert await records(over.storage) == log
    assert "loom retry run-1 --on-change check" in refused.value.hint
    assert (await changed.retry(RUN, on_change="check")).status == "failed"


async def test_a_worker_leaves_a_run_of_other_code_alone_and_says_why_once() -> None:
    over = runtime(flow_of("old"))
    await over.enqueue("shop", id=RUN)
    log = await records(over.storage)
    app = loom.define_config(flows=[flow_of("new")], storage=over.storage, on_change="refuse")
    told: list[Report] = []
    refused = asyncio.Event()

    def tell(report: Report) -> None:
        told.append(report)
        if report.did == "refused":
            refused.set()

    worker = app.worker(told=tell, poll_s=0.001)
    working = asyncio.create_task(worker.run())
    await asyncio.wait_for(refused.wait(), 20)
    worker.stop()
    await working

    assert [type(report.error) for report in told if report.did == "refused"] == [CodeChanged]
    assert await records(over.storage) == log


# allow


@pytest.fixture
def draws() -> Iterator[Any]:
    return iter(range(100))


async def test_allow_notes_arguments_that_differ_though_the_code_is_the_same(draws: Iterator[int]) -> None:  # fault 4
    @loom.flow(id="shop")
    async def shop(ctx: loom.Context) -> Any:
        return [await ctx.run(work, str(next(draws))), await ctx.suspend("one"), await ctx.suspend("two")]

    over = runtime(shop)
    await over.start(shop, id=RUN)
    with pytest.raises(ReplayDivergence):
        await runtime(shop, storage=over.storage).resume(RUN, gate="one", answer=1)

    allowing = runtime(shop, storage=over.storage, on_change="allow")
    await allowing.resume(RUN, gate="one", answer=1)
    outcome = await allowing.resume(RUN, gate="two", answer=2)

    assert (outcome.value, ran) == (["0", 1, 2], ["0"])
    noted = await payloads(over, "EXECUTION_MIGRATED")
    assert [fact.differences[0]["asked"]["args"] for fact in noted] == [{"name": "2"}, {"name": "3"}]
    assert {fact.before for fact in noted} == {fact.after for fact in noted}


async def test_allow_still_refuses_another_argument_of_what_must_not_run_twice(draws: Iterator[int]) -> None:
    @loom.flow(id="shop")
    async def shop(ctx: loom.Context) -> Any:
        return [await ctx.run(pay, next(draws)), await ctx.suspend("go")]

    over = runtime(shop)
    await over.start(shop, id=RUN)

    with pytest.raises(ReplayDivergence):
        await runtime(shop, storage=over.storage, on_change="allow").resume(RUN, answer=1)


async def test_allow_still_refuses_another_question_than_the_one_that_was_asked(draws: Iterator[int]) -> None:
    @loom.flow(id="shop")
    async def shop(ctx: loom.Context) -> Any:
        return await ctx.suspend("go", show=next(draws))

    over = runtime(shop)
    await over.start(shop, id=RUN)

    with pytest.raises(ReplayDivergence):
        await runtime(shop, storage=over.storage, on_change="allow").resume(RUN, answer=1)


async def test_allow_still_goes_by_kind_identity_and_what_nobody_asks_for() -> None:
    async def other(ctx: loom.Context) -> Any:
        return [await ctx.run(work.named("other"), "first"), await ctx.suspend("go")]

    async def less(ctx: loom.Context) -> Any:
        return await ctx.suspend("go")

    for body in (other, less):
        over = runtime(flow_of("old"))
        await over.start("shop", id=RUN)
        changed = runtime(loom.flow(id="shop")(body), storage=over.storage, on_change="allow")
        with pytest.raises(ReplayDivergence):
            await changed.resume(RUN, answer=1)
        assert (await kinds(over))[-1] == "DIVERGED"


def test_another_word_is_no_setting() -> None:
    word: Any = "ignore"
    with pytest.raises(InvalidDeclaration, match="check, refuse, allow"):
        loom.define_config(on_change=word)
    with pytest.raises(InvalidDeclaration, match="the flow"):
        flow_of("old", on_change=word)


async def test_the_verb_takes_no_other_word() -> None:
    word: Any = "ignore"
    with pytest.raises(InvalidDeclaration):
        await runtime(flow_of("old")).resume(RUN, on_change=word)
