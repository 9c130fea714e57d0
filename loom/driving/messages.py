"""The inbox of an execution from outside: messages are sent to it, topics held back and released.

A message is a durable request of the lane from the moment it is accepted; whether the run waits for it already makes no
difference. Who drives the run journals it where it is received (loom/kernel/receiving.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from typing import Any, Final, NamedTuple, TypeAlias

from loom import values
from loom.core import facts as f
from loom.core.errors import ExecutionTerminated, InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation, execution_id, label
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.core.views import awaited_messages
from loom.driving.annotating import Annotating, Load
from loom.driving.chains import lane_of, last_link
from loom.driving.driver import Driver
from loom.driving.errors import ExecutionNotFound
from loom.driving.parents import tells_of_failure
from loom.spi.event_store import LaneClosed, RequestTaken

OWN_TOPICS: Final = "loom."
"""Topics that start so carry what Loom tells its own runs, such as the end of a child; nobody may send to them."""

GoOn: TypeAlias = Callable[[str], Awaitable[Outcome[Any]]]
"""Drives a parked run on."""


class Letter(NamedTuple):
    """A message to be sent: *message* is encoded; two with the same *key* are one."""

    topic: str
    message: Any
    key: str | None
    principal: str | None


def letter(topic: str, message: Any, *, key: str | None, principal: str | None) -> Letter:
    """Return a letter, checked before anything is written.

    Raises:
        InvalidId, InvalidDeclaration, InvalidPayload, NotSerializable: topic, key, principal or message cannot be used.
    """
    if topic.startswith(OWN_TOPICS):
        raise InvalidDeclaration(f"the topic {topic!r} is Loom's own", hint="Topics of yours start with another word.")
    for kind, text in (("key", key), ("principal", principal)):
        if text is not None:
            label(kind, text)
    return Letter(label("topic", topic), values.encode(values.plain(message)), key, principal)


class Messages:
    """Sends messages to runs, and has a run that waits for one driven on."""

    def __init__(self, driver: Driver, notes: Annotating, load: Load) -> None:
        self._driver, self._notes, self._load = driver, notes, load

    async def send(self, id: str, sent: Letter, go_on: GoOn | None) -> Outcome[Any]:
        """Store a message durably, and *go_on* with the run if it is parked at a receive of its topic.

        Raises:
            ExecutionNotFound, ExecutionTerminated: nothing was inserted.
        """
        run_id, is_unread = await self._insert(execution_id(id), sent)
        return await self._delivered(run_id, sent.topic, go_on if is_unread else None)

    async def _delivered(self, run_id: ExecutionId, topic: str, go_on: GoOn | None) -> Outcome[Any]:
        if go_on is None or await self._driver.is_driven(run_id):
            self._driver.knock(run_id)
            self._driver.call()
            return Outcome(execution_id=run_id, status="accepted")
        state, _ = await self._load(run_id)
        if state.status in ("suspended", "in_doubt") and _waits_for(state, topic):
            return await go_on(run_id)
        return Outcome(execution_id=run_id, status="accepted", length=state.length)

    async def _insert(self, run_id: ExecutionId, sent: Letter) -> tuple[ExecutionId, bool]:
        """Insert a message and return for which link of the chain, and whether it is unread: its key may have been used."""
        around = self._driver.around
        row = await around.storage.row(run_id)
        lane = None if row is None else await lane_of(around.storage, row)
        if row is None or lane is None:
            raise ExecutionNotFound(execution_id=run_id, store=around.storage.url)
        body = {"topic": sent.topic, "message": sent.message, "principal": sent.principal}
        written = values.dumps(body)
        await around.before_insert(lane, written)
        inserted = await around.storage.insert(
            *lane,
            kind="message",
            key=f"message:{sent.key}" if sent.key else "",
            at=around.clock.now_ms(),
            body=written,
            while_open=True,
        )
        if inserted is None:
            raise ExecutionNotFound(execution_id=run_id, store=around.storage.url)
        if isinstance(inserted, LaneClosed):
            raise ExecutionTerminated(execution_id=run_id, status=inserted.status)
        last = await last_link(around.storage, row)
        return last.execution_id, not isinstance(inserted, RequestTaken) or inserted.pending

    async def put_back(self, state: ExecutionState, incarnation: Incarnation, void: Container[int]) -> None:
        """Put the messages that *void* receives had taken back into the lane, before a retry makes them void."""
        taken = [x for x in state.settled if x.outcome.type == "MESSAGE_RECEIVED" and x.start.sequence in void]
        for start, outcome in sorted(taken, key=lambda settled: int(settled.outcome.payload.number)):
            fact, principal = outcome.payload, outcome.metadata.get("principal")
            if tells_of_failure(start.payload.topic, fact.message):
                continue  # the child is tried again, and tells anew
            body = {"topic": start.payload.topic, "recorded": fact.message, "principal": principal}
            await self._driver.around.storage.insert(
                state.execution_id,
                incarnation,
                kind="message",
                key=f"returned:{start.sequence}",
                at=fact.sent_at,
                body=values.dumps(body),
            )

    async def hold(self, id: str, topic: str, *, reason: str | None, principal: str | None) -> None:
        """Hold the messages of *topic* back from the flow; those that come meanwhile are kept, in order."""
        held = f.TopicHeld(label("topic", topic), reason)
        await self._notes.put(id, lambda state: None if topic in _open(state).facts.held else held, principal)

    async def release(self, id: str, topic: str, go_on: GoOn | None, *, principal: str | None) -> Outcome[Any]:
        """Deliver the messages of *topic* again, in their order, and *go_on* with a run that is parked for one of them."""
        released = f.TopicReleased(label("topic", topic))
        state = await self._notes.put(
            id, lambda state: released if topic in _open(state).facts.held else None, principal
        )
        waits = await self._has_unread(state.execution_id, topic)
        return await self._delivered(state.execution_id, topic, go_on if waits else None)

    async def _has_unread(self, run_id: ExecutionId, topic: str) -> bool:
        storage = self._driver.around.storage
        row = await storage.row(run_id)
        lane = None if row is None else await lane_of(storage, row)
        pending = await storage.pending(*lane) if lane is not None else ()
        return any(each.kind == "message" and values.loads(each.body)["topic"] == topic for each in pending)


def _open(state: ExecutionState) -> ExecutionState:
    if state.is_terminal:
        raise ExecutionTerminated(execution_id=state.execution_id, status=state.status)
    return state


def _waits_for(state: ExecutionState, topic: str) -> bool:
    return topic not in state.facts.held and any(wait.topic == topic for wait in awaited_messages(state))
