"""The war room: look at everything at once, ask the incident commander which remedy, do it, and look again."""

import asyncio

import loom
from models import Alert, Decision, Findings, Health, Pool, Rate, Resolution
from steps import (
    fail_over,
    measure,
    measure_after,
    rates_by_version,
    rates_by_zone,
    recent_deploys,
    roll_back,
    scale_out,
    traffic,
)

MORE_HOSTS = 6


@loom.flow
async def incident(ctx: loom.Context, alert: Alert) -> Resolution:
    """See to an ill service: one remedy, decided by a person."""
    before = await ctx.run(measure, alert.service)
    findings = await investigate(ctx, alert)
    decision = await ctx.suspend("remedy", show=findings, expects=Decision)
    pools = await act(ctx, alert, decision, findings)
    after: Health = await ctx.run(measure_after, alert.service, pools)
    return Resolution(decision.remedy, before, after, after.is_well)


async def investigate(ctx: loom.Context, alert: Alert) -> Findings:
    """Look at everything at once."""
    asked = (alert.service, alert.minute)
    versions, zones, traffic_rps, deploys = await asyncio.gather(
        ctx.run(rates_by_version, *asked),
        ctx.run(rates_by_zone, *asked),
        ctx.run(traffic, *asked),
        ctx.run(recent_deploys, *asked),
    )
    return Findings(points_to(versions, zones), versions, zones, traffic_rps, deploys)


async def act(ctx: loom.Context, alert: Alert, decision: Decision, findings: Findings) -> list[Pool]:
    """Do what was decided, and return the hosts that are in service then."""
    if decision.remedy == "roll back":
        return await ctx.run(roll_back, alert.service, findings.deploys[-2].version)
    if decision.remedy == "scale out":
        return await ctx.run(scale_out, alert.service, MORE_HOSTS)
    return await ctx.run(fail_over, alert.service, worst(findings.zones).name)


def points_to(versions: list[Rate], zones: list[Rate]) -> str:
    """Return what the ill hosts have in common: whatever names them with the fewest names."""
    kind, rates = min(("version", versions), ("zone", zones), key=lambda each: len(ill(each[1])))
    return " and ".join(f"{kind} {rate.name}" for rate in ill(rates)) or "nothing"


def ill(rates: list[Rate]) -> list[Rate]:
    return [rate for rate in rates if rate.errors_percent > 1]


def worst(rates: list[Rate]) -> Rate:
    return max(rates, key=lambda rate: rate.errors_percent)
