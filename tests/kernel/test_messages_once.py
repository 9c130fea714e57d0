"""Each accepted message is received once, in the order of its topic, at one recorded place, however a run is driven."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.errors import ExecutionTerminated
from loom.driving.errors import ExecutionNotFound
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import DriveInterrupted
from loom.spi.clock import SeededEntropy
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.kernel.lives import RUN, JumpingClock, replayed
from tests.kernel.programs import CODE, WORLD, Sight, World, interpreted

Program = list[Any]
TOPICS = ("a", "b")

pytestmark = pytest.mark.timeout(400)  # a failing program takes its time to become small


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Return a program of branches that receive, and that work and sleep between."""
    receive = st.sampled_from(TOPICS).map(lambda topic: ["receive", topic, None])
    other = st.sampled_from([["run", 1], ["peek"], ["yield", 2], ["sleep", 20], ["once"], ["flaky", 2], ["emit"]])
    block = st.lists(st.one_of(receive, receive, other), max_size=5)
    return [*draw(block), ["parallel", draw(st.lists(block, max_size=3))], *draw(block)]


def receives(program: Program) -> list[str]:
    """Return the topics that *program* receives from, once for each time."""
    found: list[str] = []
    for name, *operands in program:
        if name == "receive":
            found.append(operands[0])
        elif name == "parallel":
            found += [topic for block in operands[0] for topic in receives(block)]
    return found


@dataclass
class Told:
    """What came of it: the log, what the last drive saw, and what each sender had accepted, in its order."""

    log: Sequence[EventRecord] = ()
    saw: list[Sight] = field(default_factory=list)
    accepted: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


class Several:
    """Some processes that send to one run and drive it; it is interrupted, and topics of it are held, at any event."""

    def __init__(self, seed: int, *, processes: int = 2, interruptions: bool = True) -> None:
        self._rng, self._seed, self.told, self.storage = random.Random(seed), seed, Told(), MemoryStorage()
        self._interruptions, clock = interruptions, JumpingClock(random.Random(seed))
        self._tasks: set[asyncio.Task[Any]] = set()
        self._runtimes = [
            WorkflowRuntime(
                self.storage,
                flows={interpreted.id: interpreted},
                clock=clock,
                entropy=SeededEntropy(seed + number),
                on_event=self._on_event,
            )
            for number in range(processes)
        ]
        for runtime in self._runtimes:
            runtime.know_code_as(CODE)

    def _any(self) -> WorkflowRuntime:
        return self._rng.choice(self._runtimes)

    async def live(self, program: Program, topics: list[str]) -> Told:
        """Have *program* started, all messages sent, and the run driven to its end."""
        self._rng.shuffle(topics)
        half = len(topics) // 2
        senders = [self._send_all(f"s{n}", part) for n, part in enumerate((topics[:half], topics[half:]))]
        start = self._runtimes[0].start(interpreted, program, id=RUN, linger_s=self._linger_s())
        await asyncio.gather(self._verb(start), *senders)
        for _ in range(200):
            while self._tasks:
                await asyncio.gather(*self._tasks)
            state = await self._runtimes[0].load_state(RUN)
            if state.is_terminal:
                self.told.log = await self.storage.read(RUN)
                return self.told
            for topic in state.facts.held:  # a release may have come before the hold that it meant was journaled
                await self._verb(self._any().release(RUN, topic, drive=False))
            await self._verb(self._any().resume(RUN, linger_s=self._linger_s()))
        raise AssertionError("the run does not come to an end")

    async def _send_all(self, sender: str, topics: list[str]) -> None:
        for number, topic in enumerate(topics):
            await self._some_turns()
            message = int(f"{sender[1:]}{number:03}")
            sent = False
            while not sent:
                with suppress(ExecutionNotFound):
                    await self._verb(
                        self._any().send(RUN, topic, message, key=f"{sender}-{number}", linger_s=self._linger_s())
                    )
                    sent = True
                await asyncio.sleep(0)
            self.told.accepted.setdefault(topic, []).append((sender, message))

    async def _verb(self, verb: Coroutine[Any, Any, loom.Outcome[Any]]) -> None:
        world = World(self._seed)
        token = WORLD.set(world)
        try:
            with suppress(DriveInterrupted, SequenceConflict, ExecutionTerminated):
                await verb
        finally:
            WORLD.reset(token)
            self.told.saw = max(self.told.saw, world.trace, key=len)  # each drive sees all that the ones before it saw

    def _on_event(self, event: loom.EventEnvelope[Any]) -> None:
        if self._interruptions and self._rng.random() < 0.05:
            self._beside(self._interrupt())
        if self._rng.random() < 0.05:
            self._beside(self._hold_a_while(self._rng.choice(TOPICS)))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hold_a_while(self, topic: str) -> None:
        with suppress(ExecutionNotFound, ExecutionTerminated):
            await self._any().hold(RUN, topic)
            await self._some_turns()
            await self._verb(self._any().release(RUN, topic, linger_s=self._linger_s()))

    async def _interrupt(self) -> None:
        await self._some_turns()
        self._any().interrupt()

    async def _some_turns(self) -> None:
        for _ in range(self._rng.randrange(60)):
            await asyncio.sleep(0)

    def _linger_s(self) -> float:
        return self._rng.choice([0.0, 0.2])


def of_type(log: Sequence[EventRecord], type_: str) -> list[dict[str, Any]]:
    return [json.loads(record.payload) for record in log if record.type == type_]


@pytest.mark.proves("SYS-09", "SUS-04")
@settings(max_examples=25)
@given(program=programs(), seed=st.integers(0, 10_000))
async def test_each_accepted_message_is_received_once_and_in_order(program: Program, seed: int) -> None:
    told = await Several(seed).live(program, receives(program))

    topic_of = {
        record.sequence: json.loads(record.payload)["topic"] for record in told.log if record.type == "MESSAGE_AWAITED"
    }
    received: dict[str, list[dict[str, Any]]] = {}
    for fact in of_type(told.log, "MESSAGE_RECEIVED"):
        received.setdefault(topic_of[fact["start"]], []).append(fact)
    for topic, facts in received.items():
        sent = told.accepted[topic]
        assert [fact["number"] for fact in facts] == sorted({fact["number"] for fact in facts}), "the order of the lane"
        for sender in ("s0", "s1"):
            mine = [message for who, message in sent if who == sender]
            assert [fact["message"] for fact in facts if fact["message"] in mine] == mine, "the order of a sender"
    assert {topic: len(facts) for topic, facts in received.items()} == {t: len(s) for t, s in told.accepted.items()}


@pytest.mark.proves("SYS-09")
@settings(max_examples=25)
@given(program=programs(), seed=st.integers(0, 10_000))
async def test_a_message_is_seen_at_the_same_place_live_and_replayed(program: Program, seed: int) -> None:
    """Field fault 8: message, step done, message live, and message, message, step done on replay."""
    told = await Several(seed, interruptions=False).live(program, receives(program))

    again = await replayed(told.log)

    assert again.saw == told.saw
    assert again.effects == []
