"""The on-call desk: a sweep that opens incidents, incidents that look for somebody and help, and a weekly hand-over."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import loom
from models import Alarm, Cleared, Page, Report, Shift, Status, Taken
from steps import (
    add_capacity,
    begin_shift,
    close_alarm,
    drain,
    page,
    release,
    restore,
    take_alarms,
    who_is_on_call,
)

PATIENCE = timedelta(minutes=15)
"""How long the first one called has to answer; all others have as long again."""
SILENCE = timedelta(hours=4)
"""How long an incident may go without a word of its owner."""


@loom.flow
async def sweep(ctx: loom.Context) -> list[str]:
    """Open an incident for each new alarm. They outlive the sweep, and each other."""
    alarms = await ctx.run(take_alarms)
    opened = [await loom.spawn(ctx, incident, alarm, key=alarm.id, on_cancel="abandon") for alarm in alarms]
    return [child.id for child in opened]


@loom.flow
async def incident(ctx: loom.Context, alarm: Alarm) -> Report:
    """See to an alarm until it is over. Cancelled as a false alarm, it undoes what it did."""
    try:
        report = await see_to(ctx, alarm)
    except loom.Cancelled:
        await ctx.run(close_alarm, alarm.id, "false alarm")
        raise
    await ctx.run(close_alarm, alarm.id, report.outcome)
    return report


async def see_to(ctx: loom.Context, alarm: Alarm) -> Report:
    shift = await ctx.run(who_is_on_call)
    answer = await call(ctx, alarm, shift)
    if isinstance(answer, Cleared):
        return Report(alarm.id, "recovered")
    if answer is None:
        return Report(alarm.id, "unanswered")
    try:
        words = await help_out(ctx, alarm)
    except loom.ReceiveTimedOut:
        await ctx.run(page, wake(ctx, shift.manager, "silence", f"{answer.by} reports nothing on {alarm.host}"))
        return Report(alarm.id, "unattended", answer.by)
    return Report(alarm.id, "solved", answer.by, words)


async def call(ctx: loom.Context, alarm: Alarm, shift: Shift) -> Taken | Cleared | None:
    """Call the first; when no answer comes, the second and the manager. None: nobody answered."""
    text = f"{alarm.service} on {alarm.host}: {alarm.symptom}"
    await ctx.run(page, wake(ctx, shift.first, "alarm", text))
    answer = await answered(ctx, text)
    if answer.name == "late":
        await ctx.map(page, [wake(ctx, person, "alarm", text) for person in (shift.second, shift.manager)])
        answer = await answered(ctx, text)
    return answer.value


def answered(ctx: loom.Context, text: str) -> Coroutine[Any, Any, loom.Selected[Any]]:
    """Wait for whatever comes first: somebody answers, the monitor says that it is over, or it is late."""
    return ctx.select(
        "answer",
        taken=loom.gate("take", show=text, expects=Taken),
        over=loom.topic("monitor", expects=Cleared),
        late=loom.timer(PATIENCE),
    )


async def help_out(ctx: loom.Context, alarm: Alarm) -> list[str]:
    """Replace the ill host, and return what its owner reports. What leaves this other than solved undoes it all."""
    async with loom.saga(ctx) as saga:
        await saga.run(drain.undone_by(restore), alarm.host)
        await saga.run(add_capacity.undone_by(release), alarm.service)
        return await reports(ctx)


async def reports(ctx: loom.Context) -> list[str]:
    words: list[str] = []
    while True:
        status = await ctx.receive("status", expects=Status, timeout=SILENCE)
        words.append(f"{status.by}: {status.text}")
        if status.solved:
            return words


def wake(ctx: loom.Context, person: str, reason: str, text: str) -> Page:
    return Page(person, ctx.execution_id, reason, text)


@loom.flow
async def hand_over(ctx: loom.Context) -> Shift:
    """Put the people of the coming week on call, and tell the one who will be called first."""
    shift = await ctx.run(begin_shift, ctx.now().date())
    await ctx.run(page, wake(ctx, shift.first, "shift", "you are on call for a week"))
    return shift
