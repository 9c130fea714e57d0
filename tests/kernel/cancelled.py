"""What the tests of cancellation share: steps that can be caught in the act, and a run that is cancelled then."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import loom
from loom.driving.runtime import WorkflowRuntime
from tests.kernel.running import RUN, runtime

ran: Final[list[str]] = []
began: Final[dict[str, asyncio.Event]] = {}


def nothing_ran() -> None:
    """Forget what ran: each test begins with it."""
    ran.clear()
    began.clear()


def begins(what: str) -> asyncio.Event:
    """Return what is set once the step *what* runs."""
    return began.setdefault(what, asyncio.Event())


@loom.step
async def act(what: str) -> str:
    ran.append(what)
    return what


@loom.step
async def hangs(what: str) -> None:
    ran.append(what)
    begins(what).set()
    try:
        await asyncio.Event().wait()
    finally:
        ran.append(f"{what} was cancelled")


@loom.step(idempotent=False)
async def pays(step: loom.StepContext, what: str) -> str:
    ran.append(what)
    begins(what).set()
    while not step.is_cancelled:
        await asyncio.sleep(0)
    ran.append(f"{what} is paid")
    return what


async def cancelled(
    flow: loom.Flow[[], Any], when: str | None = None, *, over: WorkflowRuntime | None = None, **options: Any
) -> loom.Outcome[Any]:
    """Run *flow* and cancel it: once the step *when* runs, or when it is parked. Return how it ended."""
    over = over or runtime(flow)
    async with asyncio.timeout(20):
        driving = asyncio.create_task(over.start(flow, id=RUN))
        if when is None:
            await driving
            return await over.cancel(RUN, **options)
        await begins(when).wait()
        assert (await over.cancel(RUN, **options)).status == "accepted"
        return await driving


async def sleeps(ctx: loom.Context) -> None:
    await ctx.sleep(timedelta(days=1))


async def asks(ctx: loom.Context) -> None:
    await ctx.suspend("approve")
