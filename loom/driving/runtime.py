"""The runtime: the verbs that start, resume, retry and answer executions.

A verb decides with a pure function (addressing.py, retrying.py), writes what it decided as a request or an event, and has
the run driven unless somebody else drives it (driver.py). What it returns is an `Outcome`: completed, failed, suspended and
in doubt are ordinary values.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

from loom import values
from loom.core import facts as f
from loom.core.changes import OnChange
from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import ExecutionTerminated, UnknownFlow
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation
from loom.core.links import link_named
from loom.core.missing import MISSING
from loom.core.outcome import Outcome
from loom.core.state import TERMINAL, ExecutionState
from loom.core.step import Step
from loom.core.views import awaited_messages
from loom.driving.addressing import doubt_meant, gate_meant
from loom.driving.admission import Waiting
from loom.driving.annotating import Annotating
from loom.driving.authorizing import Authorization
from loom.driving.claims import Claims
from loom.driving.driver import Ask, Driver, Manner, make_offer, manner
from loom.driving.effects import EffectRuntime
from loom.driving.family import FamilyVerbs
from loom.driving.forking import Forking, ForkingVerbs
from loom.driving.going import ForkUndriven, Going
from loom.driving.loading import load
from loom.driving.messages import Messages, letter
from loom.driving.migrating import Migrating, MigratingVerbs
from loom.driving.promoting import Promoting, PromotingVerbs
from loom.driving.reading import read_log
from loom.driving.refusing import refuse_changed
from loom.driving.retried_children import drop_old_failures, refuse_without
from loom.driving.retrying import retried
from loom.driving.simulating import require_fork
from loom.driving.starting import Starting
from loom.driving.stopping import Stopping, StoppingVerbs, due_at
from loom.driving.waiting import state_once
from loom.spi.authorizer import ExecutionAuthorizer
from loom.spi.citing import Citing
from loom.spi.clock import Clock, Entropy
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom.spi.guarding import BodyGuard
from loom.spi.host import Host
from loom.spi.snapshot_store import SnapshotCodec
from loom.spi.surroundings import Surroundings

P = ParamSpec("P")
R = TypeVar("R")
Event = EventEnvelope[Any]


class EnqueueOptions(TypedDict, total=False):
    """What `enqueue` takes beside flow, input and id; see `start`."""

    principal: str | None
    attributes: Mapping[str, Any] | None
    deadline: timedelta | None


class StartOptions(EnqueueOptions, total=False):
    """What `start` takes beside flow, input and id; see there."""

    linger_s: float | None
    started: Callable[[ExecutionId], None] | None


class RuntimeOptions(TypedDict, total=False):
    """What a runtime takes beside its storage, flows and tools; see `Surroundings`."""

    effects: EffectRuntime
    clock: Clock
    entropy: Entropy
    resources: Callable[[], Awaitable[Mapping[str, Any]]]
    write_behind: bool
    grace_s: float
    authorizer: ExecutionAuthorizer | None
    lease_s: float
    nesting_max: int
    on_change: OnChange
    host: Host
    linger_ms: int
    linger_max_ms: int
    idle_s: float
    on_event: Callable[[Event], None] | None
    on_durable_event: Callable[[Event], None] | None
    on_stream: Callable[[str, str, Any], None] | None
    guard: BodyGuard | None
    simulators: Mapping[str, Step[Any, Any]]
    citing: Citing | None
    snapshot_every: int | None
    snapshot_codec: SnapshotCodec


class WorkflowRuntime(StoppingVerbs, MigratingVerbs, ForkingVerbs, PromotingVerbs, FamilyVerbs):
    """Drives executions of *flows* on *storage*. Making one opens nothing."""

    def __init__(
        self,
        storage: Storage,
        *,
        flows: Mapping[str, Flow[Any, Any]],
        tools: Mapping[str, Step[Any, Any]] | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        self.storage, self.flows, self.tools = storage, dict(flows), dict(tools or {})
        self.effects = options.setdefault("effects", EffectRuntime())
        self._surroundings = Surroundings(storage=storage, **options)
        self._driver = Driver(self._surroundings, self.tools, self)
        self._family = self._driver.family
        self._notes = Annotating(self._driver, self._loaded)
        self.starting = Starting(self._driver)
        self._authorization = Authorization(self._driver, self._notes)
        self._messages = Messages(self._driver, self._notes, self._loaded)
        self._stopping = Stopping(self._driver, self._loaded)
        self._migrating = Migrating(self._driver, self.flow, self.flows, self.tools)
        self._forking = Forking(self._driver)
        self._promoting = Promoting(self._driver, self._forking)
        self._going = Going(self._driver, self.flow)
        has_lines = any(flow.starts is not None and flow.starts.is_counted for flow in self.flows.values())
        self.claims = Claims(self._driver, self.flow, has_lines=has_lines)

    @property
    def surroundings(self) -> Surroundings:
        """What it is made of, apart from its flows."""
        return self._surroundings

    @property
    def grace_s(self) -> float:
        """How long an interrupted drive waits for what is in flight."""
        return self._surroundings.grace_s

    @property
    def clock(self) -> Clock:
        """The clock by which it is judged what is due: once the runtime is in use, that of the store."""
        return self._surroundings.clock

    @property
    def lease_s(self) -> float:
        """For how long this process holds a run at a time. A change counts from the next event loop on."""
        return self._driver.lease_s

    @lease_s.setter
    def lease_s(self, seconds: float) -> None:
        self._driver.lease_s = seconds

    def know_code_as(self, other: WorkflowRuntime) -> None:
        """Take what *other*, a runtime of the same flows, knows of their code, instead of reading it again."""
        self._driver.know_code_as(other._driver)

    def listen(self, on_durable_event: Callable[[Event], None]) -> None:
        """Have *on_durable_event* told, too, of every event of runs driven from now on, once it is on disk."""
        self._driver.listeners.append(on_durable_event)

    @overload
    async def start(
        self, flow: Flow[P, R], input: Any = ..., *, id: str | None = ..., **options: Unpack[StartOptions]
    ) -> Outcome[R]: ...
    @overload
    async def start(
        self, flow: str, input: Any = ..., *, id: str | None = ..., **options: Unpack[StartOptions]
    ) -> Outcome[Any]: ...
    async def start(
        self,
        flow: Flow[Any, Any] | str,
        input: Any = MISSING,
        *,
        id: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Outcome[Any]:
        """Start an execution and drive it until it ends or parks.

        *principal* is who starts it, *attributes* what it can be found by. *linger_s* (10 s; 0 under a `VirtualClock`, which
        nobody moves meanwhile) is how long the drive waits in place for a timer or a rest before it parks instead. *started* is called with the id once the start is
        on disk; an *id* that the caller chose is taken before any code runs. A run that takes longer than *deadline*, its
        waiting included, is cancelled.

        Raises:
            UnknownFlow, InvalidPayload, InvalidId: nothing was written.
            ExecutionAlreadyExists: the id is taken; nothing ran.
            DriveStopped, StoreError: the drive had to stop; the run can be resumed.
        """
        _refuse_unknown(options, StartOptions, "start")
        wished = manner(options.get("principal"), options.get("linger_s"), is_start=True)
        found, resources = self.flow(flow), await self._driver.open()
        fact = self.starting.fact(found, input, options.get("attributes"))
        fact = fact._replace(due_at=due_at(options.get("deadline"), self._surroundings.clock.now_ms()))
        started, chosen = options.get("started"), self.starting.id_of(found, fact, id)
        run_id = chosen or self.starting.made_up_id(found.id)
        kept = {"is_chosen": chosen is not None, "durably": started is not None}
        driving: Awaitable[Outcome[Any]] | None = None
        async with self._driver.place(run_id):
            begun = await self.starting.begin(found, fact, run_id, principal=wished.principal, drives=True, **kept)
            if isinstance(begun, Outcome):
                return begun
            if started is not None:
                started(run_id)
            if begun.waiting is None:
                driving = self._driver.take_up(begun.journal, found, wished, resources)
        if begun.waiting is not None:
            return await self._in_line(found, begun.journal.state, begun.waiting, wished)
        assert driving is not None
        return await driving

    async def enqueue(
        self,
        flow: Flow[Any, Any] | str,
        input: Any = MISSING,
        *,
        id: str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Outcome[Any]:
        """Start an execution durably and leave it to a worker; *options* are those of `start`. The outcome is `accepted`.

        Raises:
            UnknownFlow, InvalidPayload, InvalidId, ExecutionAlreadyExists: nothing was written.
        """
        _refuse_unknown(options, EnqueueOptions, "enqueue")
        found, _ = self.flow(flow), await self._driver.open()
        fact = self.starting.fact(found, input, options.get("attributes"))
        fact = fact._replace(due_at=due_at(options.get("deadline"), self._surroundings.clock.now_ms()))
        principal = manner(options.get("principal")).principal
        chosen = self.starting.id_of(found, fact, id)
        run_id, is_chosen = chosen or self.starting.made_up_id(found.id), chosen is not None
        begun = await self.starting.begin(
            found, fact, run_id, is_chosen=is_chosen, principal=principal, drives=False, durably=True
        )
        if isinstance(begun, Outcome):
            return begun
        state = begun.journal.state
        if begun.waiting is not None:
            await self._driver.admissions.parked(found, state, begun.waiting)
        self._driver.call()
        return Outcome(execution_id=state.execution_id, status="accepted", length=state.length)

    async def resume(
        self,
        execution_id: str,
        *,
        answer: Any = MISSING,
        gate: str | None = None,
        shown: str | None = None,
        principal: str | None = None,
        on_change: OnChange | None = None,
        simulate: bool = False,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Go on with an execution that waits or was cut off; with *answer*, answer a gate of it first.

        *answer* is JSON (or a value of the expected type). *gate* is an address, any unambiguous ending of one, or
        a key; *shown* is the digest of what the answering person saw. Where another driver is at work on the run, the answer
        is only made durable, and the outcome is `accepted`. *on_change* stands above the setting of the flow and the app.
        With *simulate*, a fork that nobody has driven yet is driven with the app's simulators in the place of effects, from now
        on and whoever drives it.

        Raises:
            ExecutionNotFound, ExecutionTerminated: there is nothing to resume.
            CodeChanged: the code is not that of the run, and is refused; nothing was written.
            GateNotOpen, AmbiguousGate, ApprovalMismatch, AlreadyAnswered, InvalidPayload: nothing was written.
            Denied: the app's authorizer does not let *principal* answer; only the refusal was written.
            ReplayDivergence: the code no longer asks what the log recorded; the run is parked as diverged.
            SimulationRefused: it has been driven for real; nothing was written.
            NotSimulated: a step has no simulator; the drive had to stop.
            Fenced: another driver took the run over while this process was driving it.
        """
        wished = manner(principal, linger_s, on_change=on_change)._replace(simulates=simulate)
        if answer is MISSING:
            return await self._going.on(execution_id, partial(_checked, wished))
        await self._authorization.ask("answer", execution_id, principal)

        def manner_of(state: ExecutionState, incarnation: Incarnation) -> Manner:
            if state.status == "forked":
                raise ForkUndriven
            meant = gate_meant(state, gate, shown=shown)
            body = {"start": meant.start, "answer": values.plain(answer), "principal": principal}
            ask = Ask("answer", f"gate:{meant.start}", body, meant.gate)
            _checked(wished, state, incarnation)
            return wished._replace(offer=partial(make_offer, self._driver, incarnation, ask))

        return await self._going.answering(execution_id, manner_of, wished)

    async def resolve(
        self,
        execution_id: str,
        step: str | None,
        verdict: f.Verdict,
        *,
        value: Any = None,
        principal: str | None = None,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Decide an effect in doubt: it was `done` (with *value* as its result), `failed`, or is to `retry`.

        Raises:
            NotInDoubt, AmbiguousDoubt, AlreadyAnswered, InvalidPayload: nothing was written.
            As `resume`.
        """
        await self._authorization.ask("resolve", execution_id, principal)

        def manner_of(state: ExecutionState, incarnation: Incarnation) -> Manner:
            meant = doubt_meant(state, step)
            doubt = state.attempts[meant.start].doubt
            body = {"start": meant.start, "verdict": verdict, "value": values.plain(value), "principal": principal}
            ask = Ask("verdict", f"doubt:{meant.start}:{doubt.sequence if doubt else 0}", body, meant.gate)
            return manner(principal, linger_s, partial(make_offer, self._driver, incarnation, ask))

        return await self._going.on(execution_id, manner_of)

    async def retry(
        self,
        execution_id: str,
        *,
        principal: str | None = None,
        on_change: OnChange | None = None,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Try a failed execution again from the failure; what succeeded stays (kernel rule 8.1). *on_change* as in `resume`.

        Raises:
            ExecutionNotFound, ExecutionNotFailed, SequenceConflict, CodeChanged: nothing was written.
            ExecutionCompensated, ChildrenCancelled: what it would go on from is gone; nothing was written.
            Denied: only the refusal was written.
        """
        await self._authorization.ask("retry", execution_id, principal)
        wished, resources = manner(principal, linger_s, on_change=on_change), await self._driver.open()
        async with self._driver.place(ExecutionId(execution_id)):
            state, incarnation = await self._loaded(execution_id)
            fact, flow = retried(state), self.flow(state.facts.flow)
            refuse_changed(self._driver, flow, state, wished)
            await refuse_without(self.storage, state, fact)
            await self._messages.put_back(state, incarnation, fact.void)
            waiting = await self._driver.admissions.join_again(flow, state) if flow.starts is not None else None
            journal = self._driver.journal(state, incarnation, drives=waiting is None)
            journal.commit("EXECUTION_RETRIED", fact, _by(principal))
            await drop_old_failures(
                self.storage, state, await self._driver.lane(state.execution_id, incarnation), journal
            )
            if waiting is not None:
                journal.commit("EXECUTION_SUSPENDED", waiting.fact)
            await self._driver.taken(journal)
            driving = self._driver.take_up(journal, flow, wished, resources) if waiting is None else None
        if waiting is not None:
            return await self._in_line(flow, journal.state, waiting, wished)
        assert driving is not None
        return await driving

    async def _in_line(
        self, flow: Flow[Any, Any], state: ExecutionState, waiting: Waiting, wished: Manner
    ) -> Outcome[Any]:
        """Return that a run waits before it begins, which is written; go on where that is over by now."""
        if not await self._driver.admissions.parked(flow, state, waiting):
            return self._driver.outcome(state, flow)
        return await self._going.on(state.execution_id, lambda *_: wished._replace(is_start=False))

    async def send(
        self,
        execution_id: str,
        topic: str,
        message: Any = None,
        *,
        key: str | None = None,
        principal: str | None = None,
        drive: bool = True,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Store a message for `ctx.receive(topic)`, durably, whether the run waits for it already or not.

        *message* is JSON, or a value with a JSON form. A *key* is used once: what is sent under it again is accepted and
        comes to nothing. A run that is parked and waits for the topic is driven on, unless *drive* is false, and its
        outcome returned; else the outcome is `accepted`.

        Raises:
            ExecutionNotFound, ExecutionTerminated, InvalidPayload, InvalidId: nothing was inserted.
            Denied: only the refusal was written.
            As `resume`.
        """
        sent = letter(topic, message, key=key, principal=principal)
        await self._authorization.ask("send", execution_id, principal)
        return await self._messages.send(execution_id, sent, self._going_on(principal, linger_s) if drive else None)

    async def hold(
        self, execution_id: str, topic: str, *, reason: str | None = None, principal: str | None = None
    ) -> None:
        """Hold the messages of *topic* back from the flow until they are released; they are kept, in their order.

        Raises:
            ExecutionNotFound, ExecutionTerminated, InvalidId: nothing was written.
            Denied: only the refusal was written.
        """
        await self._authorization.ask("hold", execution_id, principal)
        await self._messages.hold(execution_id, topic, reason=reason, principal=principal)

    async def release(
        self,
        execution_id: str,
        topic: str,
        *,
        principal: str | None = None,
        drive: bool = True,
        linger_s: float | None = None,
    ) -> Outcome[Any]:
        """Deliver the messages of *topic* again, those that were held first. Drives and returns as `send`.

        Raises:
            ExecutionNotFound, ExecutionTerminated, InvalidId: nothing was written.
            Denied: only the refusal was written.
            As `resume`.
        """
        await self._authorization.ask("release", execution_id, principal)
        go_on = self._going_on(principal, linger_s) if drive else None
        return await self._messages.release(execution_id, topic, go_on, principal=principal)

    async def attach(
        self,
        execution_id: str,
        decision: str,
        value: Any,
        *,
        note: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Record what came of a decision, learned later: *value* (a rating, a conversion). The run may have ended.

        *decision* is the id of the decision, or an ending of it that is unambiguous. A link of a chain is named by its own id,
        `ID~2`, the first by `ID~1`; where the chain is named, the last is meant.

        Raises:
            ExecutionNotFound, DecisionNotFound, NotSerializable: nothing was written.
            Denied: only the refusal was written.
        """
        await self._authorization.ask("attach", link_named(execution_id) or execution_id, principal)
        await self._notes.attach(execution_id, decision, values.encode(value), note=note, principal=principal)

    def _going_on(self, principal: str | None, linger_s: float | None) -> Callable[[str], Awaitable[Outcome[Any]]]:
        wished = manner(principal, linger_s)
        return lambda id: self._going.on(id, lambda *_: wished)

    async def load_state(self, execution_id: str) -> ExecutionState:
        """Return the fold of the log.

        Raises:
            ExecutionNotFound: there is no such execution.
            LogNewerThanCode: it can be looked at only (loom.lenses), not folded.
        """
        return (await self._loaded(execution_id))[0]

    async def events(self, execution_id: str) -> list[Event]:
        """Return the events that the store has, decoded: the whole log, unless compaction has moved some of it to an archive.

        What this code does not know has plain JSON as its payload.
        """
        return await read_log(self.storage, ExecutionId(execution_id))

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the index rows that *query* describes, newest first."""
        return await self.storage.find(query)

    async def wait(self, execution_id: str) -> Outcome[Any]:
        """Return the outcome once the execution has ended, whoever drives it."""
        return self._outcome(await state_once(self.storage, execution_id, lambda state: state.is_terminal))

    async def wait_for_suspend(self, execution_id: str) -> Outcome[Any]:
        """Return the outcome once the execution waits for somebody: for an answer, a verdict or a message.

        Raises:
            ExecutionTerminated: it ended first; the error has its state and cause.
        """
        state = await state_once(self.storage, execution_id, lambda state: state.is_terminal or _waits(state))
        outcome = self._outcome(state)
        if outcome.status in TERMINAL:
            cause = str(outcome.failure or "")
            raise ExecutionTerminated(execution_id=execution_id, status=outcome.status, cause=cause)
        return outcome

    def interrupt(self) -> None:
        """Stop all drives of this runtime softly: what is in flight may end within the grace, runs stay resumable."""
        for drive in list(self._driver.drives.values()):
            drive.interrupt()

    async def close(self) -> None:
        """Interrupt what is driven, and close the storage."""
        self._family.is_closing = True
        while self._driver.drives or self.beside:
            self.interrupt()
            await asyncio.sleep(0.01)
        self._family.is_closing = False
        await self.storage.close()

    def flow(self, flow: Flow[Any, Any] | str) -> Flow[Any, Any]:
        """Return the registered flow.

        Raises:
            UnknownFlow: it is not registered; near names are told.
        """
        name = flow.id if isinstance(flow, Flow) else flow
        found = self.flows.get(name)
        if found is None or (isinstance(flow, Flow) and found is not flow):
            known = sorted(self.flows)
            raise UnknownFlow(kind="flow", name=name, near=difflib.get_close_matches(name, known), known=known)
        return found

    def _outcome(self, state: ExecutionState) -> Outcome[Any]:
        return self._driver.outcome(state, self.flows.get(state.facts.flow))

    async def _loaded(self, id: str) -> tuple[ExecutionState, Incarnation]:
        found = await load(self.storage, id)
        return found.state, found.row.incarnation


def _checked(wished: Manner, state: ExecutionState, _: Incarnation) -> Manner:
    if wished.simulates:
        require_fork(state)
    return wished


def _refuse_unknown(options: Mapping[str, Any], known: Any, verb: str) -> None:
    if unknown := set(options) - set(known.__annotations__):
        raise TypeError(f"{verb}() takes no {', '.join(sorted(unknown))}")


def _waits(state: ExecutionState) -> bool:
    return bool(state.gates or awaited_messages(state))


def _by(principal: str | None) -> Mapping[str, Any]:
    return {"principal": principal} if principal else NO_METADATA
