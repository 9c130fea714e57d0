"""The runtime: the verbs that start, resume, retry and answer executions, and the drives that carry them out.

A verb decides with a pure function (addressing.py, retrying.py), writes what it decided as a request or an event, and drives
the run unless somebody else does. What a verb returns is an `Outcome`: completed, failed, suspended and in doubt are ordinary
values. One runtime may serve several event loops one after the other; it holds nothing of a loop that has ended.
"""

from __future__ import annotations

import asyncio
import base64
import difflib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, overload

import orjson

from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.flow import Flow
from loom.core.ids import ExecutionId, Incarnation, execution_id
from loom.core.missing import MISSING
from loom.core.state import ExecutionState, empty_state
from loom.core.step import Step
from loom.kernel import facts as f
from loom import values
from loom.kernel.addressing import doubt_meant, gate_meant
from loom.kernel.codec import decode_events, refuse_newer
from loom.kernel.context import Context
from loom.kernel.drive import Drive, Setting
from loom.kernel.effects import EffectRuntime
from loom.kernel.errors import (
    AlreadyAnswered,
    ExecutionAlreadyExists,
    ExecutionNotFound,
    ExecutionTerminated,
    GateNotOpen,
    ReplayDivergence,
    SequenceConflict,
    UnknownFlow,
)
from loom.fingerprint import fingerprint, same
from loom.kernel.fold import evolve, fold
from loom.kernel.journal import Journal, Writer
from loom.kernel.logs import FlowLog
from loom.kernel.outcome import Outcome, outcome_of
from loom.kernel.retrying import retried
from loom.spi.clock import Clock, Entropy, SystemClock, SystemEntropy
from loom.spi.event_store import ExecutionQuery, ExecutionRow, RequestTaken, Storage

P = ParamSpec("P")
R = TypeVar("R")

Event = EventEnvelope[Any]

RULES: Final = {"identity": 1, "delivery": 1, "derivation": 1}
"""The versions of the rules that a log is written under; a later kernel runs it by them (kernel rule 10.3)."""

LINGER_S: Final = 10.0
GRACE_S: Final = 10.0


class WorkflowRuntime:
    """Drives executions of *flows* on *storage*. Making one opens nothing."""

    def __init__(
        self,
        storage: Storage,
        *,
        flows: Mapping[str, Flow[Any, Any]],
        tools: Mapping[str, Step[Any, Any]] | None = None,
        effects: EffectRuntime | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        resources: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
        write_behind: bool = False,
        on_event: Callable[[Event], None] | None = None,
        on_durable_event: Callable[[Event], None] | None = None,
        on_stream: Callable[[str, str, Any], None] | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self.storage, self.flows, self.tools = storage, dict(flows), dict(tools or {})
        self.effects = effects or EffectRuntime()
        self.clock, self.entropy = clock or SystemClock(), entropy or SystemEntropy()
        self.write_behind, self.grace_s = write_behind, grace_s
        self.on_event, self.on_durable_event, self.on_stream = on_event, on_durable_event, on_stream
        self._resources = resources
        self._drives: dict[ExecutionId, Drive] = {}
        self._writer: tuple[asyncio.AbstractEventLoop, Writer] | None = None
        self._fingerprints: dict[str, str] = {}

    # -- verbs ---------------------------------------------------------------------------------------------------

    @overload
    async def start(
        self,
        flow: Flow[P, R],
        input: Any = ...,
        *,
        id: str | None = ...,
        principal: str | None = ...,
        attributes: Mapping[str, Any] | None = ...,
        linger_s: float = ...,
        started: Callable[[ExecutionId], None] | None = ...,
    ) -> Outcome[R]: ...
    @overload
    async def start(
        self,
        flow: str,
        input: Any = ...,
        *,
        id: str | None = ...,
        principal: str | None = ...,
        attributes: Mapping[str, Any] | None = ...,
        linger_s: float = ...,
        started: Callable[[ExecutionId], None] | None = ...,
    ) -> Outcome[Any]: ...
    async def start(
        self,
        flow: Flow[Any, Any] | str,
        input: Any = MISSING,
        *,
        id: str | None = None,
        principal: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        linger_s: float = LINGER_S,
        started: Callable[[ExecutionId], None] | None = None,
    ) -> Outcome[Any]:
        """Start an execution and drive it until it ends or parks.

        *linger_s* is how long the drive waits in place for a timer or a rest before it parks instead. *started* is
        called with the id once the start is on disk; an *id* that the caller chose is taken before any code runs.

        Raises:
            UnknownFlow, InvalidPayload, InvalidId: nothing was written.
            ExecutionAlreadyExists: the id is taken; nothing ran.
            DriveStopped, StoreError: the drive had to stop; the run can be resumed.
        """
        found = self.flow(flow)
        chosen = execution_id(id) if id is not None else None
        fact = self._start_fact(found, input, attributes)
        run_id = chosen or self._made_up_id(found.id)
        journal = self._journal(empty_state(run_id), None)
        about = {"principal": principal} if principal else NO_METADATA
        journal.commit("EXECUTION_STARTED", fact, about)
        if chosen is not None or started is not None:
            try:
                await journal.barrier()
            except SequenceConflict as conflict:
                raise ExecutionAlreadyExists(execution_id=run_id) from conflict
        if started is not None:
            started(run_id)
        return await self._drive(journal, found, principal, linger_s)

    async def resume(
        self,
        execution_id: str,
        *,
        answer: Any = MISSING,
        gate: str | None = None,
        shown: str | None = None,
        principal: str | None = None,
        linger_s: float = LINGER_S,
    ) -> Outcome[Any]:
        """Go on with an execution that waits or was cut off; with *answer*, answer a gate of it first.

        *answer* is JSON (or a value of the expected type). *gate* is an address, any unambiguous ending of one, or
        a key; *shown* is the digest of what the answering person saw.

        Raises:
            ExecutionNotFound, ExecutionTerminated: there is nothing to resume.
            GateNotOpen, AmbiguousGate, ApprovalMismatch, AlreadyAnswered, InvalidPayload: nothing was written.
            ReplayDivergence: the code no longer asks what the log recorded; the run is parked as diverged.
            SequenceConflict: another process drives it.
        """
        state, incarnation, flow = await self._resumable(execution_id)
        if answer is MISSING:
            return await self._go_on(state, incarnation, flow, principal, linger_s, None)
        meant = gate_meant(state, gate, shown=shown)
        body = {"start": meant.start, "answer": values.plain(answer), "principal": principal}
        offer = partial(self._offer, kind="answer", key=f"gate:{meant.start}", body=body, what=meant.gate)
        return await self._go_on(state, incarnation, flow, principal, linger_s, offer)

    async def resolve(
        self,
        execution_id: str,
        step: str | None,
        verdict: f.Verdict,
        *,
        value: Any = None,
        principal: str | None = None,
        linger_s: float = LINGER_S,
    ) -> Outcome[Any]:
        """Decide an effect in doubt: it was `done` (with *value* as its result), `failed`, or is to `retry`.

        Raises:
            NotInDoubt, AlreadyAnswered, InvalidPayload: nothing was written.
            As `resume`.
        """
        state, incarnation, flow = await self._resumable(execution_id)
        meant = doubt_meant(state, step)
        body = {"start": meant.start, "verdict": verdict, "value": values.plain(value), "principal": principal}
        doubt = state.attempts[meant.start].doubt
        key = f"doubt:{meant.start}:{doubt.sequence if doubt else 0}"
        offer = partial(self._offer, kind="verdict", key=key, body=body, what=meant.gate)
        return await self._go_on(state, incarnation, flow, principal, linger_s, offer)

    async def retry(
        self, execution_id: str, *, principal: str | None = None, linger_s: float = LINGER_S
    ) -> Outcome[Any]:
        """Try a failed execution again from the failure; what succeeded stays (kernel rule 8.1).

        Raises:
            ExecutionNotFound, ExecutionNotFailed, SequenceConflict: nothing was written.
        """
        state, incarnation = await self._loaded(execution_id)
        fact = retried(state)
        flow = self.flow(state.facts.flow)
        journal = self._journal(state, incarnation)
        about = {"principal": principal} if principal else NO_METADATA
        journal.commit("EXECUTION_RETRIED", fact, about)
        await journal.barrier()
        return await self._drive(journal, flow, principal, linger_s)

    async def load_state(self, execution_id: str) -> ExecutionState:
        """Return the fold of the log.

        Raises:
            ExecutionNotFound: there is no such execution.
        """
        return (await self._loaded(execution_id))[0]

    async def events(self, execution_id: str) -> list[Event]:
        """Return the whole log, decoded. What this code does not know has plain JSON as its payload."""
        return [event async for event in read_log(self.storage, ExecutionId(execution_id))]

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the index rows that *query* describes, newest first."""
        return await self.storage.find(query)

    async def wait(self, execution_id: str) -> Outcome[Any]:
        """Return the outcome once the execution has ended, whoever drives it."""
        return await self._wait(execution_id, lambda state: state.is_terminal)

    async def wait_for_suspend(self, execution_id: str) -> Outcome[Any]:
        """Return the outcome once the execution waits for somebody.

        Raises:
            ExecutionTerminated: it ended first; the error has its state and cause.
        """
        outcome = await self._wait(execution_id, lambda state: state.is_terminal or bool(state.gates))
        if outcome.status in ("completed", "failed"):
            cause = str(outcome.failure or "")
            raise ExecutionTerminated(execution_id=execution_id, status=outcome.status, cause=cause)
        return outcome

    def interrupt(self) -> None:
        """Stop all drives of this runtime softly: what is in flight may end within the grace, runs stay resumable."""
        for drive in list(self._drives.values()):
            drive.interrupt()

    async def close(self) -> None:
        """Interrupt what is driven, and close the storage."""
        self.interrupt()
        while self._drives:
            await asyncio.sleep(0.01)
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

    # -- driving -------------------------------------------------------------------------------------------------

    def _start_fact(self, flow: Flow[Any, Any], input: Any, attributes: Mapping[str, Any] | None) -> f.ExecutionStarted:
        return f.ExecutionStarted(
            flow=flow.id,
            version=flow.version,
            fingerprint=self.fingerprint_of(flow),
            seed=_text(self.entropy.token(16)),
            rules=RULES,
            input=encoded_input(flow, input),
            attributes=dict(attributes) if attributes else None,
        )

    def _made_up_id(self, flow: str) -> ExecutionId:
        token = base64.b32encode(self.entropy.token(10)).decode("ascii").lower()
        return ExecutionId(f"{flow[:150]}-{token[:12]}")

    def fingerprint_of(self, flow: Flow[Any, Any]) -> str:
        """Return the fingerprint of the code of *flow* as it is."""
        known = self._fingerprints.get(flow.id)
        if known is None:
            types = [hint for hint in flow.hints() if hint is not MISSING and hint is not None]
            known = self._fingerprints[flow.id] = fingerprint(flow.fn, types=types)
        return known

    def _journal(self, state: ExecutionState, incarnation: Incarnation | None) -> Journal:
        loop = asyncio.get_running_loop()
        if self._writer is None or self._writer[0] is not loop:
            self._writer = (loop, Writer(self.storage))
        return Journal(
            state,
            writer=self._writer[1],
            clock=self.clock,
            token=_text(self.entropy.token(6)),
            incarnation=incarnation,
            on_event=self.on_event,
            on_durable_event=self.on_durable_event,
        )

    async def _drive(
        self,
        journal: Journal,
        flow: Flow[Any, Any],
        principal: str | None,
        linger_s: float,
        before_going_on: Callable[[Drive], Awaitable[None]] | None = None,
    ) -> Outcome[Any]:
        run_id = journal.state.execution_id
        takes, returns = flow.hints()
        present = self.fingerprint_of(flow)
        setting = Setting(
            lane=self.storage,
            clock=self.clock,
            effects=self.effects,
            resources=await self._resources() if self._resources is not None else {},
            fingerprint=present,
            same_code=same(journal.state.facts.fingerprint, present),
            encode_result=values.codec_for(returns, "result").encode,
            principal=principal,
            linger_ms=round(linger_s * 1000),
            grace_s=self.grace_s,
            write_behind=self.write_behind,
            before_going_on=before_going_on,
            on_stream=self.on_stream,
        )
        drive = Drive(journal, setting)
        context = Context(drive, self.tools, FlowLog(run_id, flow.id, lambda: drive.asking.is_replaying))
        self._drives[run_id] = drive
        try:
            state = await drive.run(partial(self._body, flow, context, takes, journal.state.facts.input))
        except ReplayDivergence as divergence:
            await self._park_diverged(journal, divergence)
            raise
        finally:
            del self._drives[run_id]
        return self._outcome(state)

    def _body(self, flow: Flow[Any, Any], context: Context, takes: Any, encoded: Any) -> Awaitable[Any]:
        if not flow.takes_input or (encoded is None and not flow.input_required):
            return flow.fn(context)
        return flow.fn(context, values.decode(encoded, takes))

    async def _park_diverged(self, journal: Journal, divergence: ReplayDivergence) -> None:
        """Record both sides, unless the run stands recorded as diverged just so already."""
        if journal.error is None and journal.state.facts.difference != divergence.as_json():
            journal.commit("EXECUTION_DIVERGED", f.ExecutionDiverged(divergence.as_json()))
            await journal.barrier()

    async def _go_on(
        self,
        state: ExecutionState,
        incarnation: Incarnation,
        flow: Flow[Any, Any],
        principal: str | None,
        linger_s: float,
        offer: Callable[..., Awaitable[None]] | None,
    ) -> Outcome[Any]:
        drive = self._drives.get(state.execution_id)
        if drive is not None:
            if offer is not None:
                await drive.live.wait()
                await offer(drive, incarnation=incarnation)
                drive.requests.knock()
            return Outcome(execution_id=state.execution_id, status="accepted", length=state.length)
        journal = self._journal(state, incarnation)
        before = partial(offer, incarnation=incarnation) if offer is not None else None
        return await self._drive(journal, flow, principal, linger_s, before)

    async def _offer(
        self, drive: Drive, *, incarnation: Incarnation, kind: Any, key: str, body: dict[str, Any], what: str
    ) -> None:
        """Validate a request against what the body waits for, and insert it durably."""
        run_id = drive.state.execution_id
        call = drive.delivery.calls.get(body["start"])
        if call is None or call.settled:
            raise GateNotOpen(execution_id=run_id, gate=what, open_gates=())
        drive.requests.fact_of(kind, call, body)
        at = self.clock.now_ms()
        taken = await self.storage.insert(run_id, incarnation, kind=kind, key=key, at=at, body=orjson.dumps(body))
        if taken is None or isinstance(taken, RequestTaken):
            raise AlreadyAnswered(execution_id=run_id, gate=what)

    async def _resumable(self, id: str) -> tuple[ExecutionState, Incarnation, Flow[Any, Any]]:
        drive = self._drives.get(ExecutionId(id))
        if drive is not None and drive.journal.incarnation is not None:
            state, incarnation = drive.state, drive.journal.incarnation
        else:
            state, incarnation = await self._loaded(id)
        if state.is_terminal:
            hint = "`loom retry` tries a failed run again." if state.status == "failed" else ""
            raise ExecutionTerminated(execution_id=id, status=state.status, hint=hint)
        return state, incarnation, self.flow(state.facts.flow)

    async def _loaded(self, id: str) -> tuple[ExecutionState, Incarnation]:
        run_id = execution_id(id)
        head = await self.storage.head(run_id)
        if head is None:
            raise ExecutionNotFound(execution_id=id, store=self.storage.url)
        events = await self.events(run_id)
        refuse_newer(events)
        return fold(events, empty_state(run_id)), head.incarnation

    async def _wait(self, id: str, until: Callable[[ExecutionState], bool]) -> Outcome[Any]:
        run_id = execution_id(id)
        state = empty_state(run_id)
        feed = self.storage.subscribe(run_id)
        try:
            async for record in feed:
                for event in decode_events(run_id, [record]):
                    state = evolve(state, event)
                if until(state) and state.length >= await self._length(run_id):
                    return self._outcome(state)
        finally:
            if isinstance(feed, AsyncGenerator):
                await feed.aclose()
        raise ExecutionNotFound(execution_id=id, store=self.storage.url)

    async def _length(self, run_id: ExecutionId) -> int:
        head = await self.storage.head(run_id)
        return head.length if head is not None else 0

    def _outcome(self, state: ExecutionState) -> Outcome[Any]:
        flow = self.flows.get(state.facts.flow)
        value = state.facts.result
        if flow is not None and state.status == "completed":
            value = values.decode(value, flow.hints()[1])
        return outcome_of(state, value)


async def read_log(storage: Any, run_id: ExecutionId, start: int = 0) -> AsyncIterator[Event]:
    """Yield the decoded events of one log from *start* on, page by page."""
    while True:
        page = await storage.read(run_id, start=start)
        if not page:
            return
        for event in decode_events(run_id, page):
            yield event
        start = page[-1].sequence + 1


def encoded_input(flow: Flow[Any, Any], input: Any) -> Any:
    """Return *input*, checked against the flow's own type, as it stands on the log; None for no input.

    Raises:
        InvalidPayload: it does not fit, or is missing, or the flow takes none; every failing field is told.
    """
    takes, _ = flow.hints()
    if input is MISSING:
        if flow.input_required:
            raise values.InvalidPayload(problems=(values.Problem("input", f"the flow {flow.id} needs one", ""),))
        return None
    if not flow.takes_input:
        raise values.InvalidPayload(problems=(values.Problem("input", f"the flow {flow.id} takes none", ""),))
    return values.encode(values.check(input, takes), takes)


def _text(token: bytes) -> str:
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode("ascii")
