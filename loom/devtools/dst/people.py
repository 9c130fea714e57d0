"""Who acts on a run from outside: starts it, answers its gates, sends it messages, decides its doubts.

They act from a desk, a process that may die like any other. What they do is on a list until it is acknowledged: whoever sits
there next does it again, under the same key. They see what happens without being told, and take their time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from loom import values
from loom.core.errors import ExecutionTerminated, LoomError
from loom.core.facts import Verdict
from loom.core.ids import ExecutionId
from loom.core.views import open_gates
from loom.devtools.dst.machine import ProcessLoop
from loom.devtools.dst.made_up import from_schema
from loom.devtools.dst.world import SOON_S, Desk, Message, NoValue
from loom.driving.errors import (
    AlreadyAnswered,
    AmbiguousDoubt,
    ExecutionAlreadyExists,
    ExecutionNotFound,
    GateNotOpen,
    NotInDoubt,
)
from loom.kernel.errors import DriveStopped
from loom.spi.conflicts import SequenceConflict
from loom.spi.errors import StoreError
from loom.spi.event_store import EventRecord

if TYPE_CHECKING:
    from loom.devtools.dst.stage import Process, Stage

RUN: Final = ExecutionId("run")
TRIES_MAX: Final = 20
AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 60.0
"""Who was not understood tries again after so long, twice as long each time."""

_DONE: Final = (AlreadyAnswered, AmbiguousDoubt, GateNotOpen, NotInDoubt, ExecutionTerminated, ExecutionAlreadyExists)
"""What somebody is told who does again what is done."""


class NotYet(LoomError):
    """What somebody does was refused, and is to be done again."""

    code = "not-yet"


Deed = Callable[[Desk], Awaitable[object]]


class People:
    """All who act from outside in one simulation. *todo* is what they have not been told is done."""

    def __init__(self, stage: Stage, house: ProcessLoop, *, drives: bool, linger_s: float) -> None:
        self._stage, self._house, self._drives, self._linger_s = stage, house, drives, linger_s
        self._desk: Process | None = None
        self._later = 0
        self.todo: dict[str, tuple[Deed, ExecutionId]] = {}
        self._will("start", self._start, at_s=0.0)
        for number, message in enumerate(stage.world.messages):
            self._will(f"message-{number}", partial(self._send, message), at_s=message.at_s)
        for number, act in enumerate(stage.world.acts):
            self._will(f"act-{number}", act)

    @property
    def have_acted(self) -> bool:
        """Whether there is nothing more to do for them, as far as is known."""
        return not self.todo and not self._later

    def come_to(self, desk: Process) -> None:
        """Sit at a desk, and do what is to be done."""
        self._desk = desk
        for name in self.todo:
            desk.do(self._do(name, desk))

    def _will(self, name: str, deed: Deed, *, at_s: float | None = None, run: ExecutionId = RUN) -> None:
        """Do *deed* at *at_s* seconds from now, or soon."""
        self._later += 1
        wait_s = self._stage.machine.random.random() * SOON_S if at_s is None else at_s
        self._house.call_later(wait_s, self._put, name, deed, run)

    def _put(self, name: str, deed: Deed, run: ExecutionId) -> None:
        self._later -= 1
        self.todo[name] = deed, run
        if self._desk is not None and not self._desk.loop.is_dead:
            self._desk.do(self._do(name, self._desk))

    async def _do(self, name: str, desk: Process) -> None:
        deed, run = self.todo[name]
        at = Desk(desk.runtime, run, name)
        for tries in range(TRIES_MAX):
            said = await _said(deed(at))
            if said is None:
                break
            if tries == TRIES_MAX - 1:
                self._stage.observed.errors.append(f"{name} was given up: {said!r}")
            await asyncio.sleep(min(AGAIN_S * 2**tries, AGAIN_MAX_S))
        self.todo.pop(name, None)

    # -- what they do ------------------------------------------------------------------------------------------------

    async def _start(self, desk: Desk) -> None:
        play = self._stage.play
        if self._drives:
            await desk.runtime.start(play.flow, play.input, id=RUN, linger_s=self._linger_s)
        else:
            await desk.runtime.enqueue(play.flow, play.input, id=RUN)

    async def _send(self, message: Message, desk: Desk) -> None:
        if message.keyed:
            await desk.send(message.topic, message.message)
        else:
            await desk.runtime.send(desk.run_id, message.topic, message.message, linger_s=0.0)

    def see(self, run: ExecutionId, event: EventRecord) -> None:
        """Something has happened in the log of *run*: react to it, in a while."""
        if event.type in _SEEN:
            getattr(self, _SEEN[event.type])(run, event, orjson.loads(event.payload))

    def _gate_opened(self, run: ExecutionId, event: EventRecord, fact: Mapping[str, Any]) -> None:
        self._stage.observed.gates.add(fact["label"])
        if self._stage.world.answers is not None:
            about = fact["label"], fact.get("schema"), event.sequence
            self._will(f"answer-{run}-{event.sequence}", partial(self._answer, about), run=run)

    async def _answer(self, about: tuple[str, Any, int], desk: Desk) -> None:
        label, schema, start = about
        gate = await _address(desk, start)
        if gate is None:
            return
        answer = self._answer_to(label, schema)
        await _settled(desk, start, desk.runtime.resume(desk.run_id, gate=gate, answer=answer, linger_s=self._linger_s))

    def _answer_to(self, label: str, schema: Any) -> Any:
        answers = self._stage.world.answers or {}
        if label in answers:
            known = answers[label]
            return known(label) if callable(known) else known
        try:
            return from_schema(schema or {})
        except LookupError as error:
            refusal = NoValue(f"the gate {label}", str(error), f"Give one: World(answers={{{label!r}: ...}}).")
            self._stage.refused(refusal)
            raise ExecutionTerminated(execution_id=RUN, status="refused") from error

    def _in_doubt(self, run: ExecutionId, event: EventRecord, fact: Mapping[str, Any]) -> None:
        start = fact["start"]
        self._will(f"verdict-{run}-{event.sequence}", partial(self._resolve, start), run=run)

    async def _resolve(self, start: int, desk: Desk) -> None:
        """Say what is so: they have gone to look."""
        gate = await _address(desk, start)
        if gate is None:
            return
        done = [x for x in self._stage.observed.effects if (x.execution_id, x.step_id) == (desk.run_id, gate)]
        happened = [effect for effect in done if effect.ended]
        verdict: Verdict = "done" if happened else "retry"
        value = values.plain(happened[-1].result) if happened else None
        about: Any = {"value": value, "linger_s": self._linger_s}
        await _settled(desk, start, desk.runtime.resolve(desk.run_id, gate, verdict, **about))

    def _awaited(self, run: ExecutionId, event: EventRecord, fact: Mapping[str, Any]) -> None:
        replies, topic = self._stage.world.replies, fact["topic"]
        if replies is not None and not topic.startswith("loom."):
            message = Message(topic, replies(topic))
            self._will(f"reply-{run}-{event.sequence}", partial(self._send, message), run=run)


_SEEN: Final[Mapping[str, str]] = {
    "GATE_OPENED": "_gate_opened",
    "EFFECT_INDOUBT": "_in_doubt",
    "MESSAGE_AWAITED": "_awaited",
}


async def _said(deed: Awaitable[object]) -> LoomError | None:
    """Return why what somebody does is to be done again; None when it is done, now or before."""
    try:
        await deed
    except _DONE:
        return None
    except (StoreError, DriveStopped, SequenceConflict, ExecutionNotFound, NotYet) as error:
        return error
    return None


async def _settled(desk: Desk, start: int, deed: Awaitable[object]) -> None:
    """Settle what the event *start* opened.

    Raises:
        NotYet: it was refused as far as a process knows that has lost the run while it stood still; it is open.
    """
    try:
        await deed
    except (AmbiguousDoubt, GateNotOpen, NotInDoubt):
        if await _address(desk, start) is not None:
            raise NotYet(f"event {start} is open, and its settling was refused") from None


async def _address(desk: Desk, start: int) -> str | None:
    """Return the address of the gate that the event *start* opened, None when it is not open any more."""
    state = await desk.runtime.load_state(desk.run_id)
    return next((gate.gate for gate in open_gates(state) if gate.start == start), None)
