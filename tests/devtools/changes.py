"""One flow as it was deployed, and the same flow after each kind of change: what a deploy check is to tell apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

import loom


class Claim(BaseModel):
    """The input, as it was."""

    amount: int


class RicherClaim(BaseModel):
    """The input with a field that has a default."""

    amount: int
    currency: str = "EUR"


class StricterClaim(BaseModel):
    """The input with a field that old records do not have."""

    amount: int
    currency: str


@loom.step
async def assess(amount: int) -> int:
    return amount * 2


@loom.step(id="assess")
async def assess_in(amount: int, currency: str = "EUR") -> int:
    return amount * 2


@loom.step(id="assess")
async def assess_as_claim(amount: int) -> Claim:
    return Claim(amount=amount)


@loom.step
async def notify(text: str) -> None: ...


@loom.step(idempotent=False)
async def pay(amount: int) -> str:
    return f"paid {amount}"


@loom.step(id="pay")
async def pay_whenever(amount: int) -> str:
    return f"paid {amount}"


@loom.flow
async def refund(ctx: loom.Context, claim: Claim) -> str:
    """The flow as it was deployed: a step, a gate, a payment, a message."""
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


CHANGED: Final[dict[str, loom.Flow[Any, Any]]] = {}


def change(name: str) -> Callable[[Any], Any]:
    """Declare the flow as it is after the change *name*."""

    def declared(fn: Any) -> Any:
        CHANGED[name] = loom.flow(id="refund")(fn)
        return CHANGED[name]

    return declared


@change("another result")
async def _another_result(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt.upper()


@change("a step at the end")
async def _longer(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    await ctx.run(notify, "and that is all")
    return receipt


@change("a step at the beginning")
async def _earlier(ctx: loom.Context, claim: Claim) -> str:
    await ctx.run(notify, "it begins")
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    return await ctx.run(pay, claim.amount)


@change("a step less at the end")
async def _shorter(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    return await ctx.run(pay, claim.amount)


@change("two steps in another order")
async def _reordered(ctx: loom.Context, claim: Claim) -> str:
    await ctx.suspend("approval", show=claim.amount * 2, expects=bool)
    await ctx.run(assess, claim.amount)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a step of another kind")
async def _a_timer_instead(ctx: loom.Context, claim: Claim) -> str:
    await ctx.sleep(timedelta(0), name="assess")
    await ctx.suspend("approval", show=claim.amount * 2, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a step with another name")
async def _renamed(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess.named("rate"), claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    return await ctx.run(pay, claim.amount)


@change("other arguments")
async def _other_arguments(ctx: loom.Context, claim: Claim) -> str:
    await ctx.run(assess, claim.amount + 1)
    await ctx.suspend("approval", show=claim.amount * 2, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("other arguments of what runs once")
async def _another_payment(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount + 1)
    await ctx.run(notify, receipt)
    return receipt


@change("another question")
async def _another_question(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=f"risk {risk}", expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a new argument with a default")
async def _richer_step(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess_in, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a new field with a default")
async def _richer_input(ctx: loom.Context, claim: RicherClaim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a new field without a default")
async def _stricter_input(ctx: loom.Context, claim: StricterClaim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    return await ctx.run(pay, claim.amount)


@change("a result of another type")
async def _another_type(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess_as_claim, claim.amount)
    await ctx.suspend("approval", show=risk.amount, expects=bool)
    return await ctx.run(pay, claim.amount)


@change("a crash at the end")
async def _crashes(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    raise LookupError(receipt)


@change("a crash at the beginning")
async def _crashes_at_once(ctx: loom.Context, claim: Claim) -> str:
    raise LookupError(claim.amount)


@change("a patch")
async def _patched(ctx: loom.Context, claim: Claim) -> str:
    if ctx.patched("told first"):
        await ctx.run(notify, "it begins")
    risk = await ctx.run(assess, claim.amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a draw that is new")
async def _draws(ctx: loom.Context, claim: Claim) -> str:
    ctx.random()
    risk = await ctx.run(assess, claim.amount)
    ctx.uuid()
    await ctx.suspend("approval", show=risk, expects=bool)
    receipt = await ctx.run(pay, claim.amount)
    await ctx.run(notify, receipt)
    return receipt


@change("a branch round a step")
async def _in_a_branch(ctx: loom.Context, claim: Claim) -> str:
    async def assessed(ctx: loom.Context) -> int:
        return await ctx.run(assess, claim.amount)

    [risk] = await ctx.parallel(assessed)
    await ctx.suspend("approval", show=risk, expects=bool)
    return await ctx.run(pay, claim.amount)


@loom.flow
async def unsteady(ctx: loom.Context) -> str:
    """A flow that asks what the clock says."""
    await ctx.run(notify, str(time.time_ns()))
    await ctx.suspend("approval", expects=bool)
    return "done"
