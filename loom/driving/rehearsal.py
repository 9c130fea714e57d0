"""What a guard has done with a run that parks or is about to end: its body runs again against its log, and comes to the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import LoomError
from loom.core.flow import Flow
from loom.core.identity import scope_of
from loom.core.step import Step
from loom.kernel.closing import ended
from loom.kernel.codec import encode_event
from loom.kernel.drive import Drive
from loom.kernel.errors import ReplayDivergence
from loom.spi.event_store import EventRecord

if TYPE_CHECKING:
    from loom.driving.driver import Driver
    from loom.driving.verdicts import Verdict


async def before_ended(driver: Driver, flow: Flow[Any, Any], drive: Drive) -> None:
    """Let the guard, if there is one, look at a run that is about to end; what it raises stops the drive."""
    if driver.around.guard is not None:
        try:
            await driver.around.guard.before_leaving(_Rehearsal(driver, flow, drive))
        except LoomError as error:
            drive.stop(error)


async def after_parked(driver: Driver, flow: Flow[Any, Any], drive: Drive) -> None:
    """Let the guard, if there is one, look at a run that has parked.

    Raises:
        LoomError: what the guard raises.
    """
    if driver.around.guard is not None and drive.ending == "park" and not drive.state.facts.is_paused:
        await driver.around.guard.before_leaving(_Rehearsal(driver, flow, drive))


class _Rehearsal:
    """The rehearsal of a run that *drive* drives. Nothing but what it has committed is written."""

    def __init__(self, driver: Driver, flow: Flow[Any, Any], drive: Drive) -> None:
        self._driver, self._drive = driver, drive
        self.execution_id, self.tools = drive.state.execution_id, driver.tools
        self.flows: Mapping[str, Flow[Any, Any]] = {**driver.family.verbs.flows, flow.id: flow}

    async def log(self) -> Sequence[EventRecord]:
        from loom.driving.stored_log import stored_records  # which stands on the driver

        drive = self._drive
        await drive.journal.barrier()
        records = list(await stored_records(self._driver.around.storage, self.execution_id))
        if drive.ending is None and drive.body is not None:
            type_, fact = ended(drive, drive.body, drive.body.exception())
            state = drive.state
            end = EventEnvelope[Any](state.execution_id, state.sequence + 1, type_, state.at, fact, NO_METADATA)
            records.append(encode_event(end))
        return records

    async def base(self) -> bytes:
        from loom.driving.state_codec import encode
        from loom.driving.stored_log import records_of

        base = (await records_of(self._driver.around.storage, self.execution_id)).base
        return b"" if base is None else encode(base)

    async def replay(self) -> None:
        verdict = await rehearsed(self.flows, self.tools, self.execution_id, await self.log(), base=await self.base())
        if verdict is not None:
            raise divergence(verdict, _HERE)


async def rehearsed(
    flows: Mapping[str, Flow[Any, Any]],
    tools: Mapping[str, Step[Any, Any]],
    execution_id: str,
    log: Sequence[EventRecord],
    *,
    base: bytes = b"",
) -> Verdict | None:
    """Replay a log whose code has not changed, from its *base* on, and return the verdict if anything differs."""
    from loom.driving.replaying import Replayer  # which stands on the driver
    from loom.driving.state_codec import decode

    state = decode(base) if base else None
    verdict = (await Replayer(flows, tools).replay(execution_id, log, base=state)).verdict
    # What a flow names may have changed meanwhile, which makes it other code.
    return None if verdict.is_fine and not verdict.differences and verdict.end is None else verdict


_HERE: Final = "Run again, the flow came to something else: state outside the flow, or what was allowed?"


def divergence(verdict: Verdict, why: str) -> ReplayDivergence:
    """Return what *verdict* says as an error; *why* is the likely cause."""
    sides: Mapping[str, Any] = verdict.end or next(iter(verdict.differences), {})
    error = ReplayDivergence(
        execution_id=verdict.id,
        scope=scope_of(verdict.step) if verdict.step else "",
        ordinal=int((verdict.recorded or {}).get("ordinal", 0)),
        recorded=_side(verdict.recorded or sides.get("recorded")),
        asked=_side(verdict.asked or sides.get("now") or sides.get("asked")),
        likely=f"{why} {verdict.why}",
    )
    error.hint = "The log is as it was written. Mend the flow, and resume."
    return error


def _side(side: Any) -> dict[str, Any] | None:
    if side is None:
        return None
    told = side if isinstance(side, Mapping) else {"digest": side}
    return {"kind": "the same", "id": "", "args": None, "digest": None, **told}
