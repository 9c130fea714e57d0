"""The driver: what all drives of one runtime share, and how a verb gets a run driven.

It holds the writer of the running loop (group commit over all runs), the runs being driven in this process, and what is
known of each flow's code. It holds nothing of a loop that has ended.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from loom import values
from loom.core import facts as f
from loom.core.changes import OnChange
from loom.core.changes import on_change as checked
from loom.core.envelope import NO_METADATA, SIMULATED, EventEnvelope
from loom.core.errors import ExecutionTerminated, InvalidDeclaration, LoomError
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation, label
from loom.core.links import is_later_link, once
from loom.core.logs import FlowLog
from loom.core.missing import MISSING
from loom.core.outcome import Outcome, outcome_of
from loom.core.state import ExecutionState, RunFacts
from loom.core.step import Step
from loom.driving.admission import Admissions
from loom.driving.advising import advice_on, advised
from loom.driving.chains import begun_as_link, lane_of, last_link, successor
from loom.driving.errors import AlreadyAnswered
from loom.driving.family import FAMILY, Family, Verbs
from loom.driving.inputs import encoded_input, result_encoder
from loom.driving.lane_watch import LaneWatch
from loom.driving.parents import sends_of
from loom.driving.rehearsal import after_parked, before_ended
from loom.driving.reusing import ReusingDrive, drive_of
from loom.driving.simulating import around_of, stopping
from loom.driving.snapshotting import Snapshotting
from loom.driving.standing import Standing, standing
from loom.driving.tenure import Hold, Tenure
from loom.driving.writer import GroupWriter
from loom.fingerprint import fingerprint, same
from loom.kernel.context import Context
from loom.kernel.drive import Drive, Setting
from loom.kernel.errors import DriveStopped, ReplayDivergence
from loom.kernel.journal import Journal, Writer
from loom.spi.clock import SystemClock
from loom.spi.event_store import ExecutionRow, Lane, LaneClosed, RequestKind, RequestTaken
from loom.spi.latch import Latch
from loom.spi.surroundings import Surroundings

Event = EventEnvelope[Any]


EVER_S: Final = 1e10
Offer = Callable[[Drive], Awaitable[None]]


class Manner(NamedTuple):
    """How one verb wants a run driven: for whom, lingering how long (None: as the app does), with what request to make at the frontier.

    With *asks_only* it is replayed to make the request, and no further: somebody else drives it. With *is_attempt* a run that
    this code cannot replay is left as it is, for a driver that can. *on_change* stands above the setting of flow and app. One that
    *simulates* has simulators stand in for effects from here on.
    """

    principal: str | None
    linger_ms: int | None
    offer: Offer | None = None
    is_start: bool = False
    asks_only: bool = False
    is_attempt: bool = False
    on_change: OnChange | None = None
    simulates: bool = False

    @property
    def about(self) -> Mapping[str, Any]:
        """What the log says of a drive in this manner."""
        return {
            **({"principal": self.principal} if self.principal else {}),
            **({SIMULATED: True} if self.simulates else {}),
        }

    @property
    def asks_admission(self) -> bool:
        """Whether a run may have to wait before its body runs: not where that was asked, or where the body goes no further."""
        return not (self.is_start or self.asks_only)

    @property
    def records_divergence(self) -> bool:
        """Whether a run that diverges is parked as diverged: not by who only asks, or would leave it to other code."""
        return not (self.asks_only or self.is_attempt)


def manner(
    principal: str | None,
    linger_s: float | None = None,
    offer: Offer | None = None,
    *,
    is_start: bool = False,
    on_change: OnChange | None = None,
) -> Manner:
    """Return a manner, checked before anything is written.

    Raises:
        InvalidId, InvalidDeclaration: the principal, *linger_s* (seconds; infinite is for ever) or *on_change* cannot be used.
    """
    if on_change is not None:
        on_change = checked(on_change, "the verb")
    if linger_s is not None and not linger_s >= 0:
        raise InvalidDeclaration(f"linger_s={linger_s}: a number of seconds, zero or more")
    linger_ms = None if linger_s is None else round(min(linger_s, EVER_S) * 1000)
    return Manner(label("principal", principal) if principal else None, linger_ms, offer, is_start, on_change=on_change)


def on_change_of(flow: Flow[Any, Any], manner: Manner, around: Surroundings) -> OnChange:
    """Return the setting for a run of *flow* whose code has changed."""
    return manner.on_change or flow.on_change or around.on_change


class Offered(DriveStopped):
    """The request is in the lane, and whoever drives the run journals it."""

    code = "offered"

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"the request is made, and somebody else drives {execution_id}")


class Ask(NamedTuple):
    """A request that a verb makes: its *kind* and body, the *key* of what may happen once, and *what* it is about."""

    kind: RequestKind
    key: str
    body: dict[str, Any]
    what: str


class Driver:
    """Drives runs in this process."""

    def __init__(self, surroundings: Surroundings, tools: Mapping[str, Step[Any, Any]], verbs: Verbs) -> None:
        self.around, self.tools, self.lease_s = surroundings, tools, surroundings.lease_s
        self.family = Family(surroundings, self, verbs)
        self.drives: dict[ExecutionId, Drive] = {}
        self._ends: dict[ExecutionId, Latch] = {}
        self.snapshotting = Snapshotting(self)
        told = (surroundings.on_durable_event, self.snapshotting.on_durable_event)
        self.listeners: list[Callable[[Event], None]] = [each for each in told if each is not None]
        self.on_called: list[Callable[[], bool]] = []
        self._places: WeakValueDictionary[ExecutionId, asyncio.Lock] = WeakValueDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: tuple[asyncio.AbstractEventLoop, GroupWriter] | None = None
        self._fingerprints: dict[str, str] = {}
        self._hints: dict[str, tuple[Any, Any]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._tenure: Tenure | None = None
        self._lanes = LaneWatch(surroundings.storage)
        self.admissions = Admissions(surroundings, partial(self.journal, drives=False))

    @property
    def tenure(self) -> Tenure:
        """What this process holds; `open` has to be called first."""
        assert self._tenure is not None
        return self._tenure

    def token(self, size: int) -> str:
        """Return fresh randomness of *size* bytes as text."""
        return base64.urlsafe_b64encode(self.around.entropy.token(size)).rstrip(b"=").decode("ascii")

    def hints_of(self, flow: Flow[Any, Any]) -> tuple[Any, Any]:
        """Return the annotations of a flow's input and result."""
        known = self._hints.get(flow.id)
        if known is None:
            known = self._hints[flow.id] = flow.hints()
        return known

    def know_code_as(self, other: Driver) -> None:
        """Share with *other* what each knows of the code of flows."""
        self._fingerprints, self._hints = other._fingerprints, other._hints

    def fingerprint_of(self, flow: Flow[Any, Any]) -> str:
        """Return the fingerprint of the code of *flow* as it is."""
        known = self._fingerprints.get(flow.id)
        if known is None:
            types = [hint for hint in self.hints_of(flow) if hint is not MISSING and hint is not None]
            known = self._fingerprints[flow.id] = fingerprint(flow.fn, types=types)
        return known

    def journal(
        self,
        state: ExecutionState,
        incarnation: Incarnation | None,
        *,
        drives: bool,
        left: Standing | None = None,
        writer: Writer | None = None,
    ) -> Journal:
        """Return the journal of the run that *state* is of: one that takes and keeps it, if it *drives*.

        One that was *left* behind is taken over, by the first write. *writer* is that of the running loop unless given.
        """
        loop = asyncio.get_running_loop()
        if self._writer is None or self._writer[0] is not loop:
            self._writer = (loop, GroupWriter.of(self.around))
        return Journal(
            state,
            writer=writer or self._writer[1],
            clock=self.around.clock,
            token=self.token(9),
            incarnation=incarnation,
            lease=self.tenure.lease if drives else None,
            gone=None if left is None else left.driver if left.found == "gone" else "",
            on_event=self.snapshotting.on_event,
            listeners=tuple(self.listeners),
            sends=sends_of,
        )

    def place(self, run_id: ExecutionId) -> asyncio.Lock:
        """Return the lock under which a verb of this process loads a run and takes it up, or finds it taken."""
        return self._places.setdefault(run_id, asyncio.Lock())

    async def given_up(self, run_id: ExecutionId) -> None:
        """Return once the drive that this process has of the run, if it has one, has given its place up."""
        end = self._ends.get(run_id)
        if end is not None:
            await end.wait()

    async def open(self) -> Mapping[str, Any]:
        """Return the opened resources; a verb calls this before it takes a run up.

        Raises:
            InvalidDeclaration: another event loop, that still runs, uses this runtime.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._loop.is_running():
                hint = "Make a runtime, or an app, for each thread that has an event loop."
                raise InvalidDeclaration("this runtime is in use by another event loop", hint=hint)
            self._loop, self.drives, self._ends = loop, {}, {}
            self._tenure = Tenure(self.around.storage, self.around.host, self.lease_s)
            self._lanes = LaneWatch(self.around.storage)
            self._places = WeakValueDictionary()
            self.family.forget()
            await self.agree_on_time()
        return await self.around.resources() if self.around.resources is not None else {}

    async def agree_on_time(self) -> None:
        """Set our clock by that of the store, which judges what is due; a clock that the app was given is left alone."""
        if type(self.around.clock) is SystemClock:
            self.around.clock.set(await self.around.storage.now_ms())

    async def take_over(
        self, state: ExecutionState, incarnation: Incarnation, left: Standing, principal: str | None
    ) -> Journal:
        """Have it on disk that the driver which has *left* the run is relieved, and return the journal to drive it with.

        Raises:
            SequenceConflict: somebody else has taken it over, or the driver is at work after all.
        """
        assert left.found is not None
        journal = self.journal(state, incarnation, drives=True, left=left)
        fact = f.ExecutionTakenOver(token=state.length, driver=left.driver, found=left.found)
        journal.commit("EXECUTION_TAKEN_OVER", fact, {"principal": principal} if principal else NO_METADATA)
        await self.taken(journal)
        return journal

    async def taken(self, journal: Journal) -> None:
        """Return once the write is on disk with which a run is taken; who is cancelled meanwhile lets go of the run.

        Raises:
            LoomError: the write failed.
        """
        try:
            await journal.barrier()
        except asyncio.CancelledError:
            with suppress(LoomError):
                await journal.barrier()
            if journal.is_held:
                await self.tenure.release(journal.state.execution_id)
            raise

    def take_up(
        self,
        journal: Journal,
        flow: Flow[Any, Any],
        manner: Manner,
        resources: Mapping[str, Any],
        *,
        hold: Hold | None = None,
    ) -> Awaitable[Outcome[Any]]:
        """Take the place of the driver of this run, at once, and return what drives it until it ends or parks.

        Raises, when awaited:
            DriveStopped, StoreError: the drive had to stop; a divergence is recorded and the run parked.
            SequenceConflict: somebody else was first to drive it; `Fenced`: somebody else took it over.
        """
        return self._to_its_end(self._taken(journal, flow, manner, resources, hold=hold), flow, manner, resources)

    async def _to_its_end(
        self, driving: Awaitable[ExecutionState], flow: Flow[Any, Any], manner: Manner, resources: Mapping[str, Any]
    ) -> Outcome[Any]:
        """Drive a run, and each link of its chain after it."""
        since_s, begun = self.tenure.host.boottime_s(), manner._replace(offer=None, is_start=True)
        while (state := await driving).facts.next is not None:
            run_id = ExecutionId(state.facts.next)
            async with self.place(run_id):
                journal = await begun_as_link(self, run_id)
                if journal is None:
                    return await self.accepted(run_id)
                hold = self.tenure.hold(run_id, since_s=since_s)  # it was held from the moment it was written
                since_s = self.tenure.host.boottime_s()
                driving = self._taken(journal, flow, begun, resources, hold=hold)
        return self.outcome(state, flow)

    def _taken(
        self,
        journal: Journal,
        flow: Flow[Any, Any],
        manner: Manner,
        resources: Mapping[str, Any],
        *,
        hold: Hold | None = None,
    ) -> Awaitable[ExecutionState]:
        run_id = journal.state.execution_id
        hold = hold or (manner.is_start and self.tenure.holds.get(run_id)) or self.tenure.hold(run_id)
        setting = self._setting(journal, flow, manner, resources, hold=hold)
        drive = self.drives[run_id] = stopping(drive_of(journal, setting))
        self._ends[run_id] = Latch()
        hold.driven_by(drive)
        self.family.entered(drive)
        log = FlowLog(run_id, flow.id, lambda: drive.is_over or drive.asking.is_replaying)
        body = partial(self.body, flow, Context(drive, self.tools, log), journal.state.facts)
        return self._carry_out(drive, hold, body, flow=flow, manner=manner)

    async def _carry_out(
        self,
        drive: Drive,
        hold: Hold,
        body: Callable[[], Awaitable[Any]],
        *,
        flow: Flow[Any, Any],
        manner: Manner,
    ) -> ExecutionState:
        self._lanes.add(drive)
        try:
            if (
                flow.starts is not None
                and manner.asks_admission
                and await self.admissions.keeps_back(flow, drive.journal)
            ):
                drive.ending = "done" if drive.state.is_terminal else "park"
            else:
                await drive.run(body)
                await after_parked(self, flow, drive)
        except ReplayDivergence as found:
            is_same = drive.setting.same_code
            divergence = found if is_same else advised(found, advice_on(found, flow, drive.state))
            if manner.records_divergence:
                await _park_diverged(drive.journal, divergence)
            raise divergence.with_traceback(found.__traceback__) from found.__cause__
        finally:
            drive.live.set()
            self._lanes.left(drive)
            try:
                await hold.let_go()
            finally:
                del self.drives[drive.state.execution_id]
                self._ends.pop(drive.state.execution_id).set()
                self.family.left(drive)
        await self.snapshotting.after_drive(drive.journal)
        if flow.starts is not None:
            given = await self.admissions.left(flow, drive.state)
            if given and not self.call():
                self.family.hand_on(given)
        return drive.state

    def standing(self, status: str, row: ExecutionRow) -> Standing:
        """Return who has the run that is *status* by its log, and *row* in the index."""
        me, held = ("", {}) if self._tenure is None else (self._tenure.driver, self._tenure.holds)
        return standing(status, row, me=me, holds=row.execution_id in held, is_gone=self.around.host.is_gone)

    async def accepted(self, run_id: ExecutionId) -> Outcome[Any]:
        """Return that somebody else drives the run, and who."""
        row = await self.around.storage.row(run_id)
        driver, length = (row.driver, row.length) if row is not None else ("", 0)
        return Outcome(execution_id=run_id, status="accepted", length=length, driver=driver)

    def _setting(
        self, journal: Journal, flow: Flow[Any, Any], manner: Manner, resources: Mapping[str, Any], *, hold: Hold
    ) -> Setting:
        present, known = self.fingerprint_of(flow), self._settings.get(flow.id)
        if known is None:
            known = self._settings[flow.id] = _setting_of(self, flow)
        return Setting(
            **known,
            around=around_of(journal.state, self.around, simulates=manner.simulates),
            resources=resources,
            fingerprint=present,
            same_code=same(journal.state.facts.fingerprint, present),
            is_lenient=on_change_of(flow, manner, self.around) == "allow",
            about=manner.about,
            is_start=manner.is_start,
            linger_ms=_linger_ms(manner, self.around),
            before_going_on=_then_leave(manner.offer) if manner.asks_only else partial(self._at_frontier, manner),
            may_dispatch=hold.may_dispatch,
        )

    async def _at_frontier(self, manner: Manner, drive: Drive) -> None:
        if manner.offer is not None:
            await manner.offer(drive)
        if isinstance(drive, ReusingDrive):
            await drive.find()
        await self.family.at_frontier(drive)

    def body(self, flow: Flow[Any, Any], context: Context, facts: RunFacts) -> Awaitable[Any]:
        """Run the body of *flow*, whose run began with *facts*."""
        FAMILY.set(self.family)
        if not flow.takes_input or facts.defaulted:
            return flow.fn(context)
        return flow.fn(context, _revived_input(context.execution_id, facts, self.hints_of(flow)[0]))

    async def hand_over(self, drive: Drive, manner: Manner) -> Outcome[Any] | None:
        """Hand the request of a verb to the drive that this process has of the run.

        None when the drive parked meanwhile: the request is durable, and whoever made it has to have the run driven.
        """
        if manner.offer is not None:
            await manner.offer(drive)
            self.knock(drive.state.execution_id)
            await drive.unpaused.wait()
            if drive.ending == "park":
                return None
        state, driver = drive.state, self.tenure.driver
        return Outcome(execution_id=state.execution_id, status="accepted", length=state.length, driver=driver)

    def knock(self, run_id: ExecutionId) -> None:
        """Have the drive that this process has of the run, if it has one, look into the lane now."""
        drive = self.drives.get(run_id)
        if drive is not None and not drive.is_over:
            drive.requests.knock()

    async def is_driven(self, run_id: ExecutionId) -> bool:
        """Whether somebody drives the run, and has seen or will see to what is in its lane."""
        drive = self.drives.get(run_id)
        if drive is None:
            row = await self.around.storage.row(run_id)
            return row is not None and self.standing(row.index.status, row).is_driven
        self.knock(run_id)
        await drive.live.wait()
        await drive.unpaused.wait()
        return drive.ending != "park"

    async def insert(
        self, run_id: ExecutionId, incarnation: Incarnation, ask: Ask
    ) -> int | RequestTaken | LaneClosed | None:
        """Insert a request of a verb durably, while the run is open; see `RequestLane.insert`."""
        at, body = self.around.clock.now_ms(), values.dumps(ask.body)
        lane, key = await self.lane(run_id, incarnation), once(run_id, ask.key)
        await self.around.before_insert(lane, body)
        return await self.around.storage.insert(*lane, kind=ask.kind, key=key, at=at, body=body, while_open=True)

    async def lane(self, run_id: ExecutionId, incarnation: Incarnation) -> Lane:
        """Return the lane of a run, whose own life is *incarnation*: that of the first link of its chain."""
        if not is_later_link(run_id):
            return Lane(run_id, incarnation)
        row = await self.around.storage.row(run_id)
        lane = None if row is None else await lane_of(self.around.storage, row)
        return lane or Lane(run_id, incarnation)  # which nobody inserts into: its chain is gone

    async def tip(self, run_id: ExecutionId) -> ExecutionId:
        """Return the last link of the chain that *run_id* is of."""
        row = None if run_id in self.drives else await self.around.storage.row(run_id)
        return run_id if row is None else (await last_link(self.around.storage, row)).execution_id

    def call(self) -> bool:
        """Tell the worker of this process that it may have something to take up; return whether there is one."""
        looking = [told() for told in self.on_called]
        return any(looking)

    def outcome(self, state: ExecutionState, flow: Flow[Any, Any] | None) -> Outcome[Any]:
        """Return the outcome that *state* is, with the result decoded where the flow is known."""
        value = state.facts.result
        if flow is not None and state.status == "completed":
            value = values.decode(value, self.hints_of(flow)[1])
        return outcome_of(state, value)


def _revived_input(run_id: str, facts: RunFacts, takes: Any) -> Any:
    try:
        return values.decode(facts.input, takes)
    except values.RecordUnreadable as error:
        error.hint = f"Restore the type of the input, or give the run a new one: loom migrate {run_id} --input JSON"
        raise


def _setting_of(driver: Driver, flow: Flow[Any, Any]) -> dict[str, Any]:
    """Return what of a setting is the same in every drive of *flow*."""
    takes, returns = driver.hints_of(flow)
    return {
        "encode_result": result_encoder(flow, returns),
        "encode_input": partial(encoded_input, flow, takes),
        "successor": partial(successor, driver, flow),
        "before_cancelled": partial(_before_cancelled, driver),
        "before_ended": partial(before_ended, driver, flow),
        "stays": driver.family.stays,
    }


def _linger_ms(manner: Manner, around: Surroundings) -> int:
    said = around.linger_ms if manner.linger_ms is None else manner.linger_ms
    return min(said, around.linger_max_ms)


async def _before_cancelled(driver: Driver, drive: Drive) -> None:
    cancel = drive.state.facts.cancel
    try:
        await driver.family.dismiss(drive.state, cancel.payload.reason if cancel is not None else None)
    except LoomError as error:
        drive.stop(error)


async def _park_diverged(journal: Journal, divergence: ReplayDivergence) -> None:
    """Record both sides, unless the run stands recorded as diverged just so already."""
    if journal.error is None and journal.state.facts.difference != divergence.as_json():
        journal.commit("EXECUTION_DIVERGED", f.ExecutionDiverged(divergence.as_json()))
        await journal.barrier()


def _then_leave(offer: Offer | None) -> Offer:
    """Return what makes the request and then ends the drive, which has changed nothing."""

    async def offered(drive: Drive) -> None:
        if offer is not None:
            await offer(drive)
        raise Offered(execution_id=drive.state.execution_id)

    return offered


async def make_offer(driver: Driver, incarnation: Incarnation, ask: Ask, drive: Drive) -> None:
    """Validate a request against what the body waits for, and insert it durably.

    Raises:
        InvalidPayload: nothing was inserted.
        AlreadyAnswered: somebody was first.
        ExecutionTerminated: the run has ended meanwhile.
    """
    run_id = drive.state.execution_id
    call = drive.delivery.calls.get(ask.body["start"])
    if call is None or call.outcome is not None:
        raise AlreadyAnswered(execution_id=run_id, gate=ask.what)
    drive.requests.fact_of(ask.kind, ask.body)
    taken = await driver.insert(run_id, incarnation, ask)
    if isinstance(taken, LaneClosed):
        hint = "It ended meanwhile, and what you said was not taken."
        raise ExecutionTerminated(execution_id=run_id, status=taken.status, hint=hint)
    if not isinstance(taken, int):
        raise AlreadyAnswered(execution_id=run_id, gate=ask.what)
