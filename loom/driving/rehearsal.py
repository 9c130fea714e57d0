"""What a guard has done with a run that parks or is about to end: its body runs again against its log, and comes to the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import LoomError
from loom.core.flow import Flow
from loom.core.identity import scope_of
from loom.kernel.closing import ended
from loom.kernel.codec import encode_event
from loom.kernel.drive import Drive
from loom.kernel.errors import ReplayDivergence

if TYPE_CHECKING:
    from loom.driving.driver import Driver
    from loom.driving.verdicts import Verdict


async def before_ended(driver: Driver, flow: Flow[Any, Any], drive: Drive) -> None:
    """Let the guard, if there is one, look at a run that is about to end; what it raises stops the drive."""
    if driver.around.guard is not None:
        try:
            await driver.around.guard.before_leaving(partial(rehearse, driver, flow, drive))
        except LoomError as error:
            drive.stop(error)


async def after_parked(driver: Driver, flow: Flow[Any, Any], drive: Drive) -> None:
    """Let the guard, if there is one, look at a run that has parked.

    Raises:
        LoomError: what the guard raises.
    """
    if driver.around.guard is not None and drive.ending == "park" and not drive.state.facts.is_paused:
        await driver.around.guard.before_leaving(partial(rehearse, driver, flow, drive))


async def rehearse(driver: Driver, flow: Flow[Any, Any], drive: Drive) -> None:
    """Replay the log of *drive*, and the end that its body has come to if it has; nothing but what it has written is written.

    Raises:
        ReplayDivergence: it asks something else, or comes to something else.
        LoomError: the log cannot be written or read.
    """
    from loom.driving.replaying import Replayer, stored_log  # they stand on the driver

    run_id = drive.state.execution_id
    await drive.journal.barrier()
    records = await stored_log(driver.around.storage, run_id)
    if drive.ending is None and drive.body is not None:
        type_, fact = ended(drive, drive.body, drive.body.exception())
        end = EventEnvelope[Any](run_id, drive.state.sequence + 1, type_, drive.state.at, fact, NO_METADATA)
        records.append(encode_event(end))
    replayer = Replayer(driver.family.verbs.flows, driver.tools)
    verdict = (await replayer.replay(run_id, records)).verdict
    if (
        not verdict.is_fine or verdict.differences or verdict.end is not None
    ):  # what a flow names may have changed meanwhile
        raise _divergence(verdict)


def _divergence(verdict: Verdict) -> ReplayDivergence:
    why = "Run again, the flow came to something else: state outside the flow, a set, or what was allowed?"
    sides: Mapping[str, Any] = verdict.end or next(iter(verdict.differences), {})
    divergence = ReplayDivergence(
        execution_id=verdict.id,
        scope=scope_of(verdict.step) if verdict.step else "",
        ordinal=int((verdict.recorded or {}).get("ordinal", 0)),
        recorded=_side(verdict.recorded or sides.get("recorded")),
        asked=_side(verdict.asked or sides.get("now") or sides.get("asked")),
        likely=f"{why} {verdict.why}",
    )
    divergence.hint = "The log is as it was written. Mend the flow, and resume."
    return divergence


def _side(side: Any) -> dict[str, Any] | None:
    if side is None:
        return None
    told = side if isinstance(side, Mapping) else {"digest": side}
    return {"kind": "the same", "id": "", "args": None, "digest": None, **told}
