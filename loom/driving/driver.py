"""The driver: what all drives of one runtime share, and how a verb gets a run driven.

It holds the writer of the running loop (group commit over all runs), the runs being driven in this process, and what is
known of each flow's code. It holds nothing of a loop that has ended.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from loom import values
from loom.core import facts as f
from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation, label
from loom.core.logs import FlowLog
from loom.core.missing import MISSING
from loom.core.outcome import Outcome, outcome_of
from loom.core.state import ExecutionState, RunFacts
from loom.core.step import Step
from loom.fingerprint import fingerprint, same
from loom.kernel.context import Context
from loom.kernel.drive import Drive, Setting
from loom.kernel.errors import AlreadyAnswered, ReplayDivergence
from loom.kernel.journal import Journal, Writer
from loom.kernel.surroundings import Surroundings
from loom.spi.event_store import LaneClosed, RequestKind, RequestTaken

Event = EventEnvelope[Any]


EVER_S: Final = 1e10
LINGER_S: Final = 10.0
"""How long a drive waits in place for a timer or a rest before it parks instead, unless a verb says otherwise."""

Offer = Callable[[Drive], Awaitable[None]]


class Manner(NamedTuple):
    """How one verb wants a run driven: for whom, lingering how long, with what request to make at the frontier."""

    principal: str | None
    linger_ms: int
    offer: Offer | None = None
    is_start: bool = False


def manner(principal: str | None, linger_s: float, offer: Offer | None = None, *, is_start: bool = False) -> Manner:
    """Return a manner, checked before anything is written.

    Raises:
        InvalidId, InvalidDeclaration: the principal or *linger_s* (seconds; infinite is for ever) cannot be used.
    """
    if not linger_s >= 0:
        raise InvalidDeclaration(f"linger_s={linger_s}: a number of seconds, zero or more")
    linger_ms = round(min(linger_s, EVER_S) * 1000)
    return Manner(label("principal", principal) if principal else None, linger_ms, offer, is_start)


class Ask(NamedTuple):
    """A request that a verb makes: its *kind* and body, the *key* of what may happen once, and *what* it is about."""

    kind: RequestKind
    key: str
    body: dict[str, Any]
    what: str


class Driver:
    """Drives runs in this process."""

    def __init__(self, surroundings: Surroundings, tools: Mapping[str, Step[Any, Any]]) -> None:
        self.around, self._tools = surroundings, tools
        self.drives: dict[ExecutionId, Drive] = {}
        self.listeners: list[Callable[[Event], None]] = []
        if surroundings.on_durable_event is not None:
            self.listeners.append(surroundings.on_durable_event)
        self._places: WeakValueDictionary[ExecutionId, asyncio.Lock] = WeakValueDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: tuple[asyncio.AbstractEventLoop, Writer] | None = None
        self._fingerprints: dict[str, str] = {}
        self._hints: dict[str, tuple[Any, Any]] = {}

    def token(self, size: int) -> str:
        """Return fresh randomness of *size* bytes as text."""
        return base64.urlsafe_b64encode(self.around.entropy.token(size)).rstrip(b"=").decode("ascii")

    def hints_of(self, flow: Flow[Any, Any]) -> tuple[Any, Any]:
        """Return the annotations of a flow's input and result."""
        known = self._hints.get(flow.id)
        if known is None:
            known = self._hints[flow.id] = flow.hints()
        return known

    def fingerprint_of(self, flow: Flow[Any, Any]) -> str:
        """Return the fingerprint of the code of *flow* as it is."""
        known = self._fingerprints.get(flow.id)
        if known is None:
            types = [hint for hint in self.hints_of(flow) if hint is not MISSING and hint is not None]
            known = self._fingerprints[flow.id] = fingerprint(flow.fn, types=types)
        return known

    def journal(self, state: ExecutionState, incarnation: Incarnation | None) -> Journal:
        """Return the journal for driving the run that *state* is of."""
        loop = asyncio.get_running_loop()
        if self._writer is None or self._writer[0] is not loop:
            self._writer = (loop, Writer(self.around.storage))
        return Journal(
            state,
            writer=self._writer[1],
            clock=self.around.clock,
            token=self.token(9),
            incarnation=incarnation,
            on_event=self.around.on_event,
            listeners=tuple(self.listeners),
        )

    def place(self, run_id: ExecutionId) -> asyncio.Lock:
        """Return the lock under which a verb of this process loads a run and takes it up, or finds it taken."""
        return self._places.setdefault(run_id, asyncio.Lock())

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
            self._loop, self.drives = loop, {}
            self._places = WeakValueDictionary()
        return await self.around.resources() if self.around.resources is not None else {}

    def take_up(
        self, journal: Journal, flow: Flow[Any, Any], manner: Manner, resources: Mapping[str, Any]
    ) -> Awaitable[Outcome[Any]]:
        """Take the place of the driver of this run, at once, and return what drives it until it ends or parks.

        Raises, when awaited:
            DriveStopped, StoreError: the drive had to stop; a divergence is recorded and the run parked.
        """
        run_id = journal.state.execution_id
        drive = self.drives[run_id] = Drive(journal, self._setting(journal, flow, manner, resources))
        context = Context(
            drive, self._tools, FlowLog(run_id, flow.id, lambda: drive.is_over or drive.asking.is_replaying)
        )
        return self._carry_out(drive, flow, partial(self._body, flow, context, journal.state.facts))

    async def _carry_out(self, drive: Drive, flow: Flow[Any, Any], body: Callable[[], Awaitable[Any]]) -> Outcome[Any]:
        try:
            state = await drive.run(body)
        except ReplayDivergence as divergence:
            await self._park_diverged(drive.journal, divergence)
            raise
        finally:
            drive.live.set()
            del self.drives[drive.state.execution_id]
        return self.outcome(state, flow)

    def _setting(self, journal: Journal, flow: Flow[Any, Any], manner: Manner, resources: Mapping[str, Any]) -> Setting:
        present = self.fingerprint_of(flow)
        return Setting(
            around=self.around,
            resources=resources,
            fingerprint=present,
            same_code=same(journal.state.facts.fingerprint, present),
            encode_result=values.codec_for(self.hints_of(flow)[1], "result").encode,
            principal=manner.principal,
            is_start=manner.is_start,
            linger_ms=manner.linger_ms,
            before_going_on=manner.offer,
        )

    def _body(self, flow: Flow[Any, Any], context: Context, facts: RunFacts) -> Awaitable[Any]:
        if not flow.takes_input or facts.defaulted:
            return flow.fn(context)
        return flow.fn(context, values.decode(facts.input, self.hints_of(flow)[0]))

    async def _park_diverged(self, journal: Journal, divergence: ReplayDivergence) -> None:
        """Record both sides, unless the run stands recorded as diverged just so already."""
        if journal.error is None and journal.state.facts.difference != divergence.as_json():
            journal.commit("EXECUTION_DIVERGED", f.ExecutionDiverged(divergence.as_json()))
            await journal.barrier()

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
        return Outcome(execution_id=drive.state.execution_id, status="accepted", length=drive.state.length)

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
            return row is not None and row.index.status == "running"
        self.knock(run_id)
        await drive.live.wait()
        await drive.unpaused.wait()
        return drive.ending != "park"

    async def insert(
        self, run_id: ExecutionId, incarnation: Incarnation, ask: Ask
    ) -> int | RequestTaken | LaneClosed | None:
        """Insert a request of a verb durably, while the run is open; see `RequestLane.insert`."""
        at, body = self.around.clock.now_ms(), values.dumps(ask.body)
        lane = self.around.storage
        return await lane.insert(run_id, incarnation, kind=ask.kind, key=ask.key, at=at, body=body, while_open=True)

    async def offer(self, incarnation: Incarnation, ask: Ask, drive: Drive) -> None:
        """Validate a request against what the body waits for, and insert it durably.

        Raises:
            InvalidPayload: nothing was inserted.
            AlreadyAnswered: somebody was first.
        """
        run_id = drive.state.execution_id
        call = drive.delivery.calls.get(ask.body["start"])
        if call is None or call.settled:
            raise AlreadyAnswered(execution_id=run_id, gate=ask.what)
        drive.requests.fact_of(ask.kind, ask.body)
        taken = await self.insert(run_id, incarnation, ask)
        if not isinstance(taken, int):
            raise AlreadyAnswered(execution_id=run_id, gate=ask.what)

    def outcome(self, state: ExecutionState, flow: Flow[Any, Any] | None) -> Outcome[Any]:
        """Return the outcome that *state* is, with the result decoded where the flow is known."""
        value = state.facts.result
        if flow is not None and state.status == "completed":
            value = values.decode(value, self.hints_of(flow)[1])
        return outcome_of(state, value)
