"""The public API as authors use it, for the type checker alone: nothing here is run but the imports.

What must not type-check carries the error it must have; an ignore that is not needed is itself an error.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, assert_type

from pydantic import BaseModel

import loom


class Claim(BaseModel):
    """An input."""

    amount: int


class Approval(BaseModel):
    """An answer."""

    approved: bool


@loom.step
async def assess(claim: Claim, strict: bool = False) -> float:
    return float(claim.amount)


@loom.step(retry=loom.Retry(attempts=3), timeout=timedelta(seconds=5), idempotent=False)
async def pay(step: loom.StepContext, claim: Claim) -> str:
    return step.idempotency_key


@loom.step
def total(numbers: list[int]) -> int:
    return sum(numbers)


@loom.tool(description="Look a name up")
async def look_up(name: str) -> dict[str, int]:
    return {name: 1}


def helper(a: int, b: str = "") -> bytes:
    return b"" if a else b.encode()


async def async_helper(a: int) -> list[str]:
    return [str(a)]


@loom.flow
async def refund(ctx: loom.Context, claim: Claim) -> str:
    assert_type(await ctx.run(assess, claim), float)
    assert_type(await ctx.run(assess, claim, strict=True), float)
    assert_type(await ctx.run(pay, claim), str)
    assert_type(await ctx.run(total, [1]), int)
    assert_type(await ctx.run(assess.keyed("a"), claim), float)
    assert_type(await ctx.run(assess.named("a"), claim), float)
    assert_type(await ctx.run(assess.retried(1), claim), float)
    assert_type(await ctx.run("label", helper, 1, b="x"), bytes)
    assert_type(await ctx.run("label", async_helper, 1), list[str])
    assert_type(await ctx.suspend("approve", expects=Approval), Approval)
    assert_type(await ctx.suspend("approve"), Any)
    assert_type(await ctx.receive("notes", expects=Approval, timeout=timedelta(days=1)), Approval)
    assert_type(await ctx.receive("notes"), Any)
    assert_type(await ctx.sleep(timedelta(days=1)), None)
    assert_type(await ctx.emit("made", claim), None)
    return await ctx.run(pay, claim)


@loom.step
async def unpay(claim: Claim) -> None: ...


@loom.step
async def unpay_otherwise(receipt: str) -> None: ...


@loom.flow
async def undoing(ctx: loom.Context, claim: Claim) -> str:
    async with loom.saga(ctx) as saga:
        assert_type(await saga.run(pay.undone_by(unpay), claim), str)
        saga.undo(unpay_otherwise, "R-1")
        pay.undone_by(unpay_otherwise)  # type: ignore[arg-type]
        await saga.run(pay.undone_by(unpay), 5)  # type: ignore[arg-type]
        saga.undo(unpay_otherwise, claim)  # type: ignore[arg-type]
    return ""


class Summary(BaseModel):
    """A digest."""

    words: int


def summary(page: bytes) -> Summary:
    return Summary(words=len(page.split()))


@loom.step(claim_check=loom.ClaimCheck(digest=summary), retry=loom.Retry(attempts=2))
async def fetch_page(url: str) -> bytes:
    return url.encode()


@loom.step(claim_check=loom.ClaimCheck(over_bytes=10))
def list_pages(step: loom.StepContext, site: str) -> list[str]:
    return [site]


@loom.tool(description="Look a page up", claim_check=loom.ClaimCheck(digest=len))
async def find_page(name: str) -> dict[str, str]:
    return {name: name}


@loom.step
async def read_page(step: loom.StepContext, page: loom.Claimed[bytes, Summary], all_of: list[loom.Claimed[str]]) -> int:
    assert_type(await step.content.get(page), bytes)
    assert_type(await step.content.get_many([page]), list[bytes])
    assert_type(await step.content.get_many(all_of), list[str])
    async for piece in step.content.stream(page):
        assert_type(piece, bytes)
    return page.size


@loom.flow
async def claims(ctx: loom.Context) -> int:
    page = await ctx.run(fetch_page, "ada")
    assert_type(page, loom.Claimed[bytes, Summary])
    assert_type(page.digest.words, int)
    assert_type(page.inline, bytes | None)
    assert_type(page.with_digest("ada"), loom.Claimed[bytes, str])
    pages = await ctx.run(list_pages, "site")
    assert_type(pages, loom.Claimed[list[str], None])
    assert_type(await ctx.run(find_page, "ada"), loom.Claimed[dict[str, str], int])
    await ctx.run(fetch_page, 5)  # type: ignore[call-overload]
    await ctx.run(read_page, pages, [])  # type: ignore[call-overload]
    return await ctx.run(read_page, page, [])


async def one(ctx: loom.Context) -> int:
    return 1


async def two(ctx: loom.Context) -> str:
    return "2"


async def each(ctx: loom.Context, item: int) -> bytes:
    return bytes(item)


async def each_of_one(ctx: loom.Context) -> bytes:
    return b""


@loom.flow
async def scopes(ctx: loom.Context) -> None:
    assert_type(await ctx.parallel(one, two), tuple[int, str])
    assert_type(await ctx.parallel(one, two, one), tuple[int, str, int])
    assert_type(await ctx.parallel({"a": one, "b": one}), dict[str, int])
    assert_type(await ctx.parallel(*[one]), tuple[int, ...])
    assert_type(await ctx.map(each, range(3), limit=2), list[bytes])
    assert_type(await ctx.map(total, [[1], [2]]), list[int])
    assert_type(await ctx.select(a=one, b=one), loom.Selected[int])
    assert_type((await ctx.select("race", a=loom.gate("approve", expects=Approval))).value, Approval)
    assert_type((await ctx.select(a=loom.topic("news", expects=int), b=one)).value, int)
    assert_type((await ctx.select(a=loom.timer(timedelta(days=1)))).value, None)
    either: loom.Selected[int | str] = await ctx.select(a=one, b=two)
    assert_type(await ctx.first(2, one, two), list[int | str])
    assert_type(await ctx.first(1, one, two, each_of_one), list[int | str | bytes])
    assert_type(await ctx.first(2, {"a": one, "b": one}), dict[str, int])
    assert_type(await ctx.first(2, *[one]), list[int])
    assert_type(await ctx.any(one, two), int | str)
    assert_type(await ctx.any(*[one]), int)
    assert_type(await ctx.any({"a": one, "b": one}), loom.Selected[int])
    async with ctx.scope(timeout=timedelta(seconds=1)) as scope:
        task: loom.ScopeTask[bytes] = scope.start(each, 3)
        assert_type(await task, bytes)
        assert_type(await scope.start(each, 3, name="three"), bytes)
        assert_type(await scope.start(total, [1]), int)
        assert_type(await scope.start(total, [1], name="sum"), int)
        assert_type(await scope.start(assess, Claim(amount=1), strict=True), float)
    assert_type(scope, loom.Scope)
    print(either)  # noqa: T201  # it has to be used
    # The checker gives up on gather over overloaded calls; ctx.parallel above keeps the types.
    assert_type(await asyncio.gather(ctx.run(total, [1]), ctx.run(look_up, "a")), Any)
    assert_type(str(await ctx.run(total, [2])), str)


async def verbs() -> None:
    app = loom.define_config(flows=[refund, scopes], steps=[look_up], storage=loom.MemoryStorage())
    outcome = await app.runtime.start(refund, Claim(amount=1), id="run-1")
    assert_type(outcome, loom.Outcome[str])
    assert_type(outcome.value, str | None)
    assert_type(outcome.result(), str)
    assert_type(await app.runtime.start("refund", {"amount": 1}), loom.Outcome[Any])
    assert_type(await app.runtime.load_state("run-1"), loom.ExecutionState)
    assert_type(await app.runtime.events("run-1"), list[loom.EventEnvelope[Any]])


async def refused(ctx: loom.Context, claim: Claim) -> None:
    await ctx.run(assess, "no claim")  # type: ignore[call-overload]
    await ctx.run(assess)  # type: ignore[call-overload]
    await ctx.run(assess, claim, lax=True)  # type: ignore[call-arg]
    await ctx.run(pay, loom.StepContext.detached(), claim)  # type: ignore[call-overload]
    await ctx.run("label", helper, "no int")  # type: ignore[call-overload]
    await ctx.map(each, ["no int"])  # type: ignore[arg-type]
    await ctx.select(a=total)  # type: ignore[arg-type]
    await ctx.first(1, one(ctx))  # type: ignore[call-overload]
    async with ctx.scope() as scope:
        await scope.start(each, "no int")  # type: ignore[arg-type]
        await scope.start(total, "no list")  # type: ignore[arg-type]
    ctx.run(total, [1])  # type: ignore[unused-coroutine]
    loom.step(retries=3)  # type: ignore[call-overload]
    loom.Retry(3)  # type: ignore[call-arg]
    result: int = await ctx.run(assess, claim)  # type: ignore[call-overload]
    print(result)  # noqa: T201  # it has to be used


def refused_declarations() -> None:
    @loom.flow  # type: ignore[arg-type]
    def not_async(ctx: loom.Context) -> int:
        return 1

    @loom.flow  # type: ignore[arg-type]
    async def without_a_context(claim: Claim) -> int:
        return 1


def schedules() -> None:
    way = loom.CatchUp.all(3)
    nightly = loom.schedule("nightly", "@daily", refund, input=Claim(amount=1), catch_up=way, overlap="queue")
    assert_type(nightly, loom.Schedule)
    loom.define_config(flows=[refund], schedules=[nightly])
    loom.schedule("nightly", "@daily", "refund")  # type: ignore[arg-type]
    loom.schedule("nightly", "@daily", scopes, catch_up="one")  # type: ignore[arg-type]
    loom.schedule("nightly", "@daily", scopes, overlap="wait")  # type: ignore[arg-type]


def test_the_declarations_above_hold() -> None:
    assert (refund.id, scopes.id) == ("refund", "scopes")
