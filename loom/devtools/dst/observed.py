"""What a simulation shows of itself: the logs as they grew, each effect as it began, and how all stood in the end.

Nothing here judges; invariants.py does. The logs are kept twice: as they were seen to grow, append by append, and as the
store says at the end that they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from loom.core.ids import ExecutionId
from loom.devtools.dst.machine import Ended
from loom.spi.event_store import Append, Appended, EventRecord, ExecutionRow, Request

Seen = Callable[[ExecutionId, EventRecord], None]


@dataclass(slots=True, kw_only=True)
class Effect:
    """One attempt at a step, as it began; *durable* is how long the log of its run was on disk then.

    *happened* says whether its function was called; *result* is what it returned.
    """

    execution_id: str
    step_id: str
    generation: int
    attempt: int
    once: bool
    durable: int
    process: str
    happened: bool = False
    ended: bool = False
    result: Any = None


class Message(NamedTuple):
    """A message that the store took in: into which lane, under which number, and whether it had a key."""

    lane: ExecutionId
    number: int
    key: str
    topic: str


class Moment(NamedTuple):
    """Something that happened, *at_s* seconds after the beginning, in a *process*."""

    at_s: float
    process: str
    what: str


class Consumed(NamedTuple):
    """An append that took a request out of a lane."""

    lane: ExecutionId
    number: int
    execution_id: ExecutionId
    sequence: int


@dataclass(slots=True, kw_only=True)
class Observed:
    """One simulation, as it was seen. *refused* are those of whom a process said why it could not drive them.

    *steps* are the ids of the steps that were asked for, *gates* the labels of the gates that were opened.
    """

    logs: dict[ExecutionId, list[EventRecord]] = field(default_factory=dict)
    torn: list[str] = field(default_factory=list)
    trail: list[Moment] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    steps: set[str] = field(default_factory=set)
    gates: set[str] = field(default_factory=set)
    messages: list[Message] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stored: Mapping[ExecutionId, Sequence[EventRecord]] = field(default_factory=dict)
    rows: Mapping[ExecutionId, ExecutionRow] = field(default_factory=dict)
    pending: Mapping[ExecutionId, Sequence[Request]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    ended: Ended = "over"
    now_ms: int = 0
    undone: Sequence[str] = ()
    again: Mapping[ExecutionId, str] = field(default_factory=dict)

    def appended(self, item: Append, result: Any, seen: Seen) -> None:
        """*item* was given to the store, which answered *result*."""
        if not isinstance(result, Appended):
            return
        log = self.logs.setdefault(item.execution_id, [])
        if item.expected < len(log):
            before = log[item.expected : item.expected + len(item.events)]
            if before != list(item.events):
                self.torn.append(f"{item.execution_id}: event {item.expected} was written over")
            return
        if item.expected > len(log):
            self.torn.append(f"{item.execution_id}: appended at {item.expected}, but the log has {len(log)} events")
        log.extend(item.events)
        lane = item.lane.execution_id if item.lane is not None else item.execution_id
        self.consumed += [Consumed(lane, number, item.execution_id, item.expected) for number in item.consumes]
        for event in item.events:
            seen(item.execution_id, event)
        if item.follows is not None:
            self.appended(item.follows, Appended(result.incarnation, len(item.follows.events)), seen)
        for send in item.sends:
            if send.kind == "message":
                self.messages.append(Message(send.chain, 0, send.key, ""))

    def inserted(self, lane: ExecutionId, result: Any, *, kind: str, key: str, body: bytes) -> None:
        """A request was given to the store, which answered *result*."""
        if isinstance(result, int) and kind == "message":
            self.messages.append(Message(lane, result, key, str(orjson.loads(body)["topic"])))

    def state_of(self, execution_id: ExecutionId) -> str:
        """Return the status of a run as its index row has it, empty when there is no such run."""
        row = self.rows.get(execution_id)
        return row.index.status if row is not None else ""

    def lines(self) -> Iterator[str]:
        """Yield all that happened as lines of text: two simulations that are the same say the same."""
        for execution_id, log in sorted(self.logs.items()):
            for event in log:
                yield f"{execution_id} {event.sequence} {event.type} {event.at} {event.payload.decode()}"
        for effect in self.effects:
            yield f"{effect.execution_id} {effect.step_id} {effect.attempt} {effect.process} {effect.durable}"
