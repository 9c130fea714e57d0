"""The refund desk: a plain async function. Loom makes it survive crashes, wait for people, and never pay twice."""

from datetime import timedelta
from typing import Any

import loom
from models import Approval, Claim, Letter, Request, Risk, Settlement, euros
from risk import ASK_FROM
from steps import assess_risk, pay, read_claim, send_email


@loom.flow
async def refund(ctx: loom.Context, request: Request) -> Settlement:
    """Settle a claim, and tell the customer."""
    claim = await ctx.run(read_claim, request.claim)
    settlement = await settle(ctx, claim)
    await ctx.run(send_email, letter_about(claim, settlement))
    return settlement


async def settle(ctx: loom.Context, claim: Claim) -> Settlement:
    """Refund what is small and safe at once, anything else when a person says so."""
    risk = await ctx.run(assess_risk, claim)
    if risk.score >= ASK_FROM:
        shown = for_a_person(claim, risk)
        try:
            answer = await ctx.suspend("approval", show=shown, expects=Approval, timeout=timedelta(days=3))
        except loom.GateTimedOut:
            return Settlement(claim.id, "expired", note="nobody answered within three days")
        if not answer.approved:
            return Settlement(claim.id, "refused", note=answer.reason)
    try:
        receipt = await ctx.run(pay, claim)
    except loom.TypedFailure as failure:
        return Settlement(claim.id, "declined", note=failure.payload.reason)
    return Settlement(claim.id, "refunded", receipt.amount_cents, receipt.reference)


def for_a_person(claim: Claim, risk: Risk) -> dict[str, Any]:
    """Return what somebody needs to decide by: no more than that."""
    return {
        "claim": f"{claim.name} wants {euros(claim.amount_cents)} back for the {claim.item}: {claim.reason}",
        "risk": risk.score,
        "because": risk.reasons,
    }


def letter_about(claim: Claim, settlement: Settlement) -> Letter:
    return Letter(claim.email, f"Your claim {claim.id}", f"Dear {claim.name}, {news(claim, settlement)}")


def news(claim: Claim, settlement: Settlement) -> str:
    match settlement.status:
        case "refunded":
            return f"we sent you {euros(settlement.paid_cents)} for the {claim.item}."
        case "refused":
            return f"we cannot refund the {claim.item}: {settlement.note or 'it does not meet our terms'}."
        case "declined":
            return f"your refund for the {claim.item} is granted, but the bank declined it. We will write again."
        case "expired":
            return f"we are still looking at your claim for the {claim.item}, and will write again."
