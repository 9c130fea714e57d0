"""Replaying a stored run against the code at hand: the real kernel drives it, and goes no further than the frontier.

Nothing is written and nothing happens: a log is all that is given, what would write is refused, and no effect is dispatched,
since before the frontier none ever is (kernel rule 5.2). There it is known whether the whole recorded prefix matched; of a run
that has ended, the end that its body comes to is compared as well.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast

from loom import values
from loom.core.envelope import EventEnvelope
from loom.core.errors import LoomError, UnknownFlow
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.core.logs import FlowLog
from loom.core.origins import cause_of
from loom.core.state import ExecutionState, empty_state
from loom.core.step import Step
from loom.driving.advising import advice_on
from loom.driving.driver import Driver
from loom.driving.errors import LogRedacted
from loom.driving.family import Verbs
from loom.driving.inputs import encoded_input, result_encoder
from loom.driving.reading import refuse_newer
from loom.driving.replay_drive import HASTE_S, PATIENCE_S, Asked, Reached, ReplayDrive
from loom.driving.starting import Starting
from loom.driving.stored_log import has_gap
from loom.driving.verdicts import Verdict
from loom.driving.well_typed import mistyped
from loom.fingerprint import same
from loom.kernel.codec import decode_events
from loom.kernel.context import Context
from loom.kernel.drive import Drive, Setting
from loom.kernel.errors import LogCorrupt, LogNewerThanCode, ReplayDivergence
from loom.kernel.fold import EVENTS, fold
from loom.kernel.journal import Journal
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Append, EventRecord, Storage
from loom.spi.surroundings import Surroundings

Event = EventEnvelope[Any]

TIME_MAX_S: Final = 60.0
"""A replay that takes longer is given up: its flow does something else than asking."""
_IN_AN_ARCHIVE: Final = "A run that was compacted is printed whole by `loom logs ID --archived --archive URL --json`."
ENDS: Final = frozenset({"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CONTINUED"})


class Replayed(NamedTuple):
    """What came of one replay.

    *events* are those of the log, decoded as far as they can be read, and *base* the state that they follow, where those before
    were moved to an archive; *asked* is what the body asked, in the order of the log;
    *end* is the type and the fact that its end is, None where it has not ended; *declined* are the patches that it had passed
    when it was asked for them first.
    """

    verdict: Verdict
    events: Sequence[Event] = ()
    base: ExecutionState | None = None
    asked: Sequence[Asked] = ()
    end: tuple[str, Any] | None = None
    declined: Sequence[str] = ()


class Manner(Protocol):
    """How bodies are replayed: by which drive, with what for a context, and for how long at most (seconds; None: for ever)."""

    time_max_s: float | None

    def drive(
        self, journal: Journal, setting: Setting, *, end: Event | None, flow: Flow[Any, Any], patience_s: float
    ) -> ReplayDrive: ...

    def context(
        self, drive: ReplayDrive, tools: Mapping[str, Step[Any, Any]], log: logging.LoggerAdapter[Any]
    ) -> Context: ...


class Straight:
    """Bodies are replayed without a stop."""

    time_max_s: float | None = TIME_MAX_S
    drive, context = ReplayDrive, Context


class Replayer:
    """Replays logs against *flows* and *tools*, the code at hand. It knows no store, and holds nothing of a log.

    One that *is_lenient* notes arguments that differ under the same code, too. *manner* is how: loom/driving/breaking.py stops.
    """

    def __init__(
        self,
        flows: Mapping[str, Flow[Any, Any]],
        tools: Mapping[str, Step[Any, Any]] | None = None,
        *,
        is_lenient: bool = False,
        manner: Manner | None = None,
    ) -> None:
        self._is_lenient, self._manner = is_lenient, manner or Straight()
        self._flows, self._tools = dict(flows), dict(tools or {})
        self._wearing: set[str] = set()
        self._around = Surroundings(
            storage=cast("Storage", _Nothing()), effects=cast("Any", _Nothing()), clock=VirtualClock(0)
        )
        self._verbs = _FlowsAlone(self._flows)
        self._driver = Driver(self._around, self._tools, cast("Verbs", self._verbs))
        self._verbs.starting = Starting(self._driver)

    async def replay(
        self,
        run_id: str,
        records: Sequence[EventRecord],
        *,
        length: int | None = None,
        base: ExecutionState | None = None,
    ) -> Replayed:
        """Replay the log *records* of a run, which has *length* events where that is known, and say what came of it.

        With *base*, the state of a checkpoint, records up to its own are not looked at, and may be missing.
        """
        id = ExecutionId(run_id)
        events: list[Event] = []
        known = len(records) if base is None else base.length + len(records)
        try:
            events = _whole(id, records, length, base)
            refuse_newer(events)
            return await self._of_whole(id, events, base)
        except LogCorrupt as error:
            hint = _IN_AN_ARCHIVE if base is None and has_gap([record.sequence for record in records]) else ""
            about: Any = {
                "kind": "damaged",
                "length": known,
                "sequence": error.sequence,
                "why": error.why,
                "hint": hint,
            }
            verdict = Verdict(id=id, **about)
            return Replayed(verdict, events, base)
        except LogRedacted as error:
            return Replayed(
                Verdict(id=id, kind="redacted", length=known, why=str(error), hint=error.hint), events, base
            )
        except LogNewerThanCode as error:
            return Replayed(_newer(events, error, known), events, base)
        except Exception as error:  # noqa: BLE001  # bytes from anywhere may come to anything
            why = f"it cannot be replayed: {type(error).__name__}: {error}"
            return Replayed(Verdict(id=id, kind="damaged", length=known, why=why), events, base)

    async def _of_whole(self, id: ExecutionId, events: Sequence[Event], base: ExecutionState | None) -> Replayed:
        """Replay a log that can be read.

        Raises:
            LogCorrupt: its events do not fit each other.
        """
        end, start = _end_of(events), base or empty_state(id)
        whole = fold(events, start)
        state = whole if end is None else fold(events[: end.sequence - start.length], start)
        about = Verdict(id=id, kind="same", flow=whole.facts.flow, status=whole.status, length=whole.length)
        flow = self._flows.get(whole.facts.flow)
        if flow is None:
            return Replayed(self._missing(about), events, base)
        return (await self._driven(about, events, state, flow=flow, end=end))._replace(base=base)

    def _missing(self, about: Verdict) -> Verdict:
        try:
            self._verbs.flow(about.flow)
        except UnknownFlow as error:
            return _changed(about, kind="flow_missing", why=str(error), hint=error.hint)
        raise AssertionError("it is missing")

    async def _driven(
        self, about: Verdict, events: Sequence[Event], state: ExecutionState, *, flow: Flow[Any, Any], end: Event | None
    ) -> Replayed:
        present = self._driver.fingerprint_of(flow)
        is_same = same(state.facts.fingerprint, present)
        setting = self._setting(flow, present, is_same=is_same)
        patience_s = HASTE_S if flow.id in self._wearing else PATIENCE_S
        drive = self._manner.drive(_journal(state), setting, end=end, flow=flow, patience_s=patience_s)
        stopped = await self._until_it_stops(drive, flow)
        if drive.is_worn_out:
            self._wearing.add(flow.id)
        if isinstance(stopped, Reached):
            verdict = _reached(about, drive, is_same=is_same)
        else:
            verdict = _stopped(about, drive, stopped)
            if isinstance(stopped, ReplayDivergence) and not is_same:
                verdict = _changed(verdict, hint=advice_on(stopped, flow, drive.state) or verdict.hint)
        return Replayed(verdict, events, None, drive.asked, drive.ended, drive.declined)

    async def _until_it_stops(self, drive: ReplayDrive, flow: Flow[Any, Any]) -> LoomError:
        run_id, driver = drive.state.execution_id, self._driver
        driver.drives[run_id] = drive
        context = self._manner.context(drive, self._tools, FlowLog(run_id, flow.id, lambda: True))
        try:
            async with asyncio.timeout(self._manner.time_max_s):
                await drive.run(partial(driver.body, flow, context, drive.state.facts))
        except LoomError as error:
            return error
        except TimeoutError:
            return ReplayTookTooLong(execution_id=run_id, where=drive.stood_at or drive.stands_at())
        finally:
            del driver.drives[run_id]
            driver.family.forget()
        raise AssertionError("a replay ends by stopping")

    def _setting(self, flow: Flow[Any, Any], present: str, *, is_same: bool) -> Setting:
        takes, returns = self._driver.hints_of(flow)
        return Setting(
            around=self._around,
            about={},
            resources={},
            fingerprint=present,
            same_code=is_same,
            is_lenient=self._is_lenient or flow.on_change == "allow",
            encode_result=result_encoder(flow, returns),
            encode_input=partial(encoded_input, flow, takes),
            successor=_no_successor,
            before_going_on=_at_frontier,
            before_cancelled=_at_frontier,
            before_ended=_at_frontier,
            stays=lambda _: False,
        )


async def _at_frontier(drive: Drive) -> None:
    assert isinstance(drive, ReplayDrive)
    await drive.reached()


# -- the log ------------------------------------------------------------------------------------------------------------


def _whole(
    run_id: ExecutionId, records: Sequence[EventRecord], length: int | None, base: ExecutionState | None
) -> list[Event]:
    """Return the events of a log that begins, or goes on from *base*, has no gap, and is as long as it is said to be.

    Raises:
        LogCorrupt: it is not so.
    """
    first = 0
    if base is not None:
        first, records = base.length, [record for record in records if record.sequence > base.sequence]
    for place, record in enumerate(records, first):
        if record.sequence != place:
            why = f"it is missing: event {record.sequence} follows"
            raise LogCorrupt(execution_id=run_id, sequence=place, why=why)
        if type(record.type) is not str or type(record.at) is not int:
            raise LogCorrupt(execution_id=run_id, sequence=place, why="its type is no name, or its time no number")
    if length is not None and first + len(records) != length:
        raise LogCorrupt(execution_id=run_id, sequence=first + len(records), why=f"the log is to have {length} events")
    events = decode_events(run_id, records)
    for event in events:
        if (wrong := mistyped(event)) is not None:
            raise LogCorrupt(execution_id=run_id, sequence=event.sequence, why=wrong)
    if base is None and (not events or events[0].type != "EXECUTION_STARTED"):
        raise LogCorrupt(execution_id=run_id, sequence=0, why="the log does not begin with EXECUTION_STARTED")
    return events


def _end_of(events: Sequence[Event]) -> Event | None:
    """Return the event that ended the run for good, None when it is open.

    Raises:
        LogCorrupt: something follows the end that cannot.
    """
    end: Event | None = None
    for event in events:
        row = EVENTS.get(event.type)
        if end is not None and not (row is not None and row.after_end):
            why = f"{event.type} follows the end of the run"
            raise LogCorrupt(execution_id=event.execution_id, sequence=event.sequence, why=why)
        if event.type in ENDS:
            end = event
        elif event.type == "EXECUTION_RETRIED":
            end = None
    return end


def _newer(events: Sequence[Event], error: LogNewerThanCode, length: int) -> Verdict:
    first = next((e for e in events if isinstance(e.payload, dict)), events[0])
    why = f"the log holds {error.what}, which this version of Loom does not know"
    flow = str(getattr(events[0].payload, "flow", ""))
    about = Verdict(id=error.execution_id, kind="newer", flow=flow, length=length)
    return _changed(about, sequence=first.sequence, why=why, hint=error.hint)


# -- what came of it ------------------------------------------------------------------------------------------------------


def _reached(about: Verdict, drive: ReplayDrive, *, is_same: bool) -> Verdict:
    """Return the verdict of a replay whose whole prefix matched."""
    differences = tuple(drive.recorded.differences)
    end = drive.difference
    if end is None:
        return _changed(about, kind="same" if is_same else "migrates", differences=differences)
    fails = end["now"]["kind"] == "EXECUTION_FAILED" and end["recorded"]["kind"] != "EXECUTION_FAILED"
    if not (is_same or fails):
        return _changed(about, kind="migrates", differences=differences, end=end)
    why = "The flow now fails where it did not." if fails else "The flow came to another end, with the same code."
    return _changed(
        about,
        kind="breaks",
        step=end["now"].get("id"),
        sequence=end["recorded"]["sequence"],
        recorded=end["recorded"],
        asked=end["now"],
        where=end["now"].get("where", ""),
        why=why,
        differences=differences,
        end=end,
    )


def _stopped(about: Verdict, drive: ReplayDrive, error: LoomError) -> Verdict:
    """Return the verdict of a replay that could not go on, because of *error*."""
    if isinstance(error, values.RecordUnreadable):
        start = cause_of(error)
        step = None if start is None else drive.identity_of(start)
        sequence = 0 if start is None else drive.outcome_of(start)
        return _changed(about, kind="unreadable", step=step, sequence=sequence, why=str(error), hint=error.hint)
    if not isinstance(error, ReplayDivergence):
        where = getattr(error, "where", "") or drive.stood_at
        return _changed(about, kind="breaks", why=str(error), hint=error.hint, where=where)
    recorded, asked = error.recorded, error.asked
    side = recorded or asked or {}
    return _changed(
        about,
        kind="breaks",
        step=str(side.get("id", "")) or None,
        sequence=(recorded or {}).get("sequence"),
        recorded=recorded,
        asked=asked,
        where=(asked or {}).get("where") or drive.stood_at,
        why=error.likely,
        hint=error.hint,
    )


def _changed(verdict: Verdict, **changes: Any) -> Verdict:
    return Verdict(**{name: getattr(verdict, name) for name in Verdict.__slots__} | changes)


# -- what a replay does without ----------------------------------------------------------------------------------------


class ReplayRefuses(LoomError):
    """Something wanted to write, or to cause something, while a run was replayed."""

    code = "replay-refuses"
    hint = "This is a fault of Loom or of a plugin: please report it with the traceback (--debug)."

    def __init__(self, *, what: str) -> None:
        self.what = what
        super().__init__(f"a replay has no {what}: it writes nothing and causes nothing")


class ReplayTookTooLong(LoomError):
    """The body neither came to the end of its log nor stood still."""

    code = "replay-too-long"
    hint = "Look for a loop, or for waiting that is no syscall, in the flow."

    def __init__(self, *, execution_id: str, where: str) -> None:
        self.execution_id, self.where = execution_id, where
        super().__init__(f"the replay of {execution_id} took longer than {TIME_MAX_S:g} s")


class _Nothing:
    """A store without a log, or effects without a world."""

    middleware = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ReplayRefuses(what=name)


class _Refusing:
    """A writer that writes nothing."""

    is_full = False

    def enqueue(self, journal: Journal, events: int, size: int) -> None:
        raise ReplayRefuses(what="append")

    def kick(self) -> None:
        raise ReplayRefuses(what="append")

    async def room(self) -> None:
        raise ReplayRefuses(what="append")


class _FlowsAlone:
    """What a family asks of a runtime, as far as a replay answers: the flows, and their inputs encoded."""

    starting: Starting

    def __init__(self, flows: Mapping[str, Flow[Any, Any]]) -> None:
        self._flows = flows

    def flow(self, flow: Flow[Any, Any] | str) -> Flow[Any, Any]:
        """Return a flow of the app.

        Raises:
            UnknownFlow: it has none of this id.
        """
        name = flow.id if isinstance(flow, Flow) else flow
        found = self._flows.get(name)
        if found is None or (isinstance(flow, Flow) and found is not flow):
            known = sorted(self._flows)
            raise UnknownFlow(kind="flow", name=name, near=difflib.get_close_matches(name, known), known=known)
        return found


def _journal(state: ExecutionState) -> Journal:
    return Journal(state, writer=_Refusing(), clock=VirtualClock(state.at), token="")


def _no_successor(journal: Journal, input: Any) -> Append:
    raise ReplayRefuses(what="next link")
