"""Driving a program to its end, whatever it waits for, and driving its log again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import loom
from loom.core.errors import ExecutionTerminated
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.core.views import AwaitedMessage, OpenGate, awaited_messages, open_gates
from loom.driving.errors import AlreadyAnswered, ExecutionNotFound, GateNotOpen
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.codec import decode_events
from loom.kernel.errors import DriveInterrupted
from loom.kernel.fold import fold
from loom.spi.clock import SeededEntropy
from loom.spi.event_store import Append, EventRecord, IndexRow, Request, Storage
from loom.spi.memory import MemoryStorage
from tests.kernel.programs import CODE, WORLD, Sight, World, interpreted

RUN: Final = ExecutionId("run")
VERBS_MAX: Final = 400
INDEX: Final = IndexRow(
    flow="interpreted",
    status="running",
    started_at=0,
    updated_at=0,
    wake_at=None,
    gates="[]",
    attributes="{}",
    chain=RUN,
)


class JumpingClock:
    """Time that jumps to where somebody sleeps until, some turns of the loop later."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._now_ms = rng, 1_700_000_000_000

    def now_ms(self) -> int:
        return self._now_ms

    def advance_to(self, at_ms: int) -> None:
        self._now_ms = max(self._now_ms, at_ms)

    async def sleep_until(self, at_ms: int) -> None:
        for _ in range(self._rng.randrange(200)):
            await asyncio.sleep(0)
        self.advance_to(at_ms)


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a program is driven: with which *seed* for all that is left to chance, and under which settings."""

    seed: int
    linger_s: float = 1_000.0
    write_behind: bool = False
    early_answers: bool = False
    early_messages: bool = False
    interruptions: bool = False
    retries: int = 0
    cancel_at: int | None = None
    grace_s: float = 30.0
    is_unpatched: bool = False


@dataclass
class Life:
    """What came of driving a program to its end: its log, what each drive saw, and which effects happened."""

    log: Sequence[EventRecord] = ()
    traces: list[list[Sight]] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    outcome: loom.Outcome[Any] | None = None

    @property
    def saw(self) -> list[Sight]:
        """What the last drive saw: all that the body ever saw, since it began at the top."""
        return self.traces[-1] if self.traces else []

    def by_place(self) -> list[Sight]:
        """What the last drive saw, without order and time: the same in every life of a program that has no race in it."""
        return sorted(sight for sight in self.saw if sight.what != "now")

    def asked(self) -> list[tuple[str, str]]:
        """The shape of the log: what was asked under which identity, without order."""
        payloads = [(event.type, json.loads(event.payload)) for event in self.log]
        return sorted((type_, payload["id"]) for type_, payload in payloads if "id" in payload)


class Driver:
    """Drives one execution on *storage* until it ends: answers what waits, decides doubts, lets time pass."""

    def __init__(self, storage: Storage, way: Way, *, forbidden: bool = False, healed: bool = False) -> None:
        self.life, self._way, self._forbidden = Life(), way, forbidden
        self._storage, self._rng = storage, random.Random(way.seed)
        self._clock = JumpingClock(self._rng)
        self._disturbing: set[asyncio.Task[None]] = set()
        self._worlds: list[World] = []
        self._retries, self._healed, self._answered, self.sent = 0, healed, False, 0
        self._is_cancelled, self.accepted = False, False
        self.runtime = WorkflowRuntime(
            storage,
            flows={interpreted.id: interpreted},
            clock=self._clock,
            entropy=SeededEntropy(way.seed),
            write_behind=way.write_behind,
            on_event=self._on_event,
        )
        self.runtime.know_code_as(CODE)

    async def start(self, program: list[Any]) -> Life:
        """Start *program* and drive it to its end."""
        await self._verb(self.runtime.start(interpreted, program, id=RUN, linger_s=self._way.linger_s))
        return await self.go_on()

    async def go_on(self) -> Life:
        """Drive the execution to its end."""
        for _ in range(VERBS_MAX):
            while self._disturbing:  # one that drives may bring about others
                await asyncio.gather(*self._disturbing)
            state = await self.runtime.load_state(RUN)
            driven = self._way.interruptions or state.status == "running"
            assert driven or not await self._waiting(state), "a request waits, and nobody drives"
            if state.status == "failed" and self._retries < self._way.retries:
                self._retries, self._healed = self._retries + 1, True
                await self._verb(self.runtime.retry(RUN, linger_s=self._way.linger_s))
                continue
            if state.is_terminal:
                self.life.log = await self._storage.read(RUN)
                return self.life
            # Such a run goes on first, and keeps what is sent to it meanwhile.
            is_cut_off = state.status in {"running", "forked"}
            waits = awaited_messages(state) if not is_cut_off else ()
            await self._verb(self._next_verb(open_gates(state), waits, state.facts.wake_at))
        raise AssertionError("the run does not come to an end")

    async def _waiting(self, state: ExecutionState) -> Sequence[Request]:
        """Return what is in the lane and could be journaled: all but the messages that no receive waits for."""
        head = await self._storage.head(RUN)
        pending = await self._storage.pending(RUN, head.incarnation) if head and not state.is_terminal else ()
        awaited = {wait.topic for wait in awaited_messages(state)}
        return [r for r in pending if r.kind != "message" or json.loads(r.body)["topic"] in awaited]

    def _next_verb(
        self, gates: Sequence[OpenGate], waits: Sequence[AwaitedMessage], wake_at: int | None
    ) -> Coroutine[Any, Any, Any]:
        linger_s = self._way.linger_s
        moves = len(gates) + (wake_at is not None) + len(waits)
        if not moves or self._answered:
            self._answered = False
            return self.runtime.resume(RUN, linger_s=linger_s)
        chosen = self._rng.randrange(moves) - len(waits)
        if chosen < 0:
            return self._send(waits[chosen].topic)
        if chosen == len(gates):
            assert wake_at is not None
            self._clock.advance_to(wake_at)
            return self.runtime.resume(RUN, linger_s=linger_s)
        gate = gates[chosen]
        if gate.in_doubt:
            return self.runtime.resolve(RUN, gate.gate, "done", value=f"did {gate.gate}", linger_s=linger_s)
        return self.runtime.resume(RUN, gate=gate.gate, answer=answer_to(gate.gate), linger_s=linger_s)

    def _send(self, topic: str) -> Coroutine[Any, Any, Any]:
        """Send the next message: the one that there is for a place of its own, or one that says which it is."""
        self.sent += 1
        message = answer_to(topic) if topic.startswith("own") else self.sent
        return self.runtime.send(RUN, topic, message, linger_s=self._way.linger_s)

    async def _verb(self, verb: Coroutine[Any, Any, loom.Outcome[Any]]) -> None:
        world = World(self._way.seed, forbidden=self._forbidden, healed=self._healed)
        world.effects, world.is_cancelled = self.life.effects, self._is_cancelled
        world.is_unpatched = self._way.is_unpatched
        self._worlds.append(world)
        token = WORLD.set(world)
        try:
            self.life.outcome = await verb
        except DriveInterrupted:
            assert self._way.interruptions
        except AlreadyAnswered:
            assert self._way.early_answers, "nobody else answers"
            self._answered = True
        finally:
            WORLD.reset(token)
            if world.trace:
                self.life.traces.append(world.trace)

    def _on_event(self, event: loom.EventEnvelope[Any]) -> None:
        if event.type == "EXECUTION_CANCEL_REQUESTED":
            self._is_cancelled = True
            for world in self._worlds:
                world.is_cancelled = True
        if self._way.cancel_at == event.sequence:
            self._disturb(self._cancel())
        if self._way.early_answers and event.type == "GATE_OPENED" and self._rng.random() < 0.7:
            self._disturb(self._answer_early(event.payload.id))
        if self._way.early_messages and event.type == "MESSAGE_AWAITED" and self._rng.random() < 0.7:
            self._disturb(self._send_early(event.payload.topic))
        if self._way.early_messages and event.type == "STEP_STARTED" and self._rng.random() < 0.2:
            self._disturb(self._send_early(self._rng.choice("ab")))
        if self._way.interruptions and self._rng.random() < 0.05:
            self._disturb(self._interrupt())

    def _disturb(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._disturbing.add(task)
        task.add_done_callback(self._disturbing.discard)

    async def _some_turns(self, most: int) -> None:
        for _ in range(self._rng.randrange(most)):
            await asyncio.sleep(0)

    async def _interrupt(self) -> None:
        await self._some_turns(40)
        self.runtime.interrupt()

    async def _cancel(self) -> None:
        await self._some_turns(20)
        with contextlib.suppress(ExecutionNotFound, ExecutionTerminated):
            await self._verb(self.runtime.cancel(RUN, reason="stop", grace_s=self._way.grace_s))
            self.accepted = True

    async def _send_early(self, topic: str) -> None:
        await self._some_turns(300)
        with contextlib.suppress(ExecutionTerminated):
            await self._verb(self._send(topic))

    async def _answer_early(self, gate: str) -> None:
        await self._some_turns(300)
        with contextlib.suppress(GateNotOpen, ExecutionTerminated):
            verb = self.runtime.resume(RUN, gate=gate, answer=answer_to(gate), linger_s=self._way.linger_s)
            await self._verb(verb)


def answer_to(gate: str) -> int:
    """Return the one answer that *gate* is ever given."""
    return sum(map(ord, gate))


async def copied(log: Sequence[EventRecord], storage: Storage | None = None) -> Storage:
    """Return a store that holds *log* and nothing else."""
    store = storage or MemoryStorage()
    index = replace(INDEX, status=fold(decode_events(RUN, log), empty_state(RUN)).status)
    item = Append(execution_id=RUN, incarnation=None, expected=0, append_id="copy", events=log, index=index)
    await store.append([item])
    return store


async def live(program: list[Any], way: Way) -> Life:
    """Start *program* and drive it to its end."""
    return await Driver(MemoryStorage(), way).start(program)


async def cancelled(program: list[Any], way: Way) -> tuple[Life, bool]:
    """Start *program*, cancel it on the way, and drive it to its end; tell whether the cancellation was accepted."""
    driver = Driver(MemoryStorage(), way)
    return await driver.start(program), driver.accepted


async def gone_on(log: Sequence[EventRecord], way: Way) -> Life:
    """Drive a copy of *log* to its end."""
    return await Driver(await copied(log), way).go_on()


async def replayed(log: Sequence[EventRecord]) -> Life:
    """Drive a copy of *log* without its terminal event; no effect may be called."""
    return await Driver(await copied(log[:-1]), Way(seed=0), forbidden=True).go_on()
