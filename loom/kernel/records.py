"""Syscalls whose outcome is their only event: a decision, a stream, an event of the author's own."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable
from typing import TYPE_CHECKING, Any

from loom import values
from loom.core import facts as f
from loom.core.choice import Choice
from loom.core.failures import DecisionFailed, failure_from
from loom.core.json import JsonObject
from loom.kernel.calls import Call, Event
from loom.kernel.flights import is_interruption
from loom.values.failing import record_of

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


def _landed(
    self: DecisionSyscall | StreamSyscall, call: Call, drive: Drive, number: int, *, result: Any, error: Any
) -> None:
    """Record how *call* ended: as its result, or as the failure it raised."""
    if error is not None and is_interruption(error):
        drive.interrupted_by(error)
        return
    fact: Any = self.fact(call, result, record_of(error) if error is not None else None)
    event = drive.commit(call.syscall.starts, fact._replace(gen=drive.state.facts.generation or None))
    drive.started(call, event)
    drive.delivery.put(event)


class DecisionSyscall:
    """Runs *chooser* once and records what it chose; *candidates* are encoded."""

    starts = "DECISION_RECORDED"

    def __init__(self, chooser: Callable[..., Any], raw: Any, candidates: Any, policy: Any) -> None:
        self.chooser, self.raw, self.candidates, self.policy = chooser, raw, candidates, policy

    def asked(self) -> Any:
        return {"candidates": self.candidates}

    def begin(self, call: Call, drive: Drive) -> None:
        drive.flights.start(call, self)

    def reopen(self, call: Call, drive: Drive) -> None:
        """A decision is on the log whole or not at all."""

    async def attempt(self, call: Call, drive: Drive, number: int) -> JsonObject:
        given = () if self.raw is None else (values.decode(self.candidates),)
        chosen = self.chooser(*given)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        chosen = Choice.of(chosen)
        policy = chosen.policy if chosen.policy is not None else self.policy
        return {
            "choice": values.encode(chosen.value),
            "policy": values.encode(policy),
            "propensity": chosen.propensity,
            "context": values.encode(chosen.context),
        }

    landed = _landed

    def fact(self, call: Call, result: JsonObject | None, failure: JsonObject | None) -> f.DecisionRecorded:
        about = {"candidates": self.candidates, "failure": failure, **(result or {})}
        return f.DecisionRecorded(call.id, call.ordinal, call.digest, **about)

    def revive(self, call: Call, event: Event) -> Any:
        if event.payload.failure is not None:
            raise DecisionFailed(decision=call.id, record=failure_from(event.payload.failure))
        return values.decode(event.payload.choice)


class StreamSyscall:
    """Passes the pieces of *source* to live listeners and records them once, when it ends."""

    starts = "STREAM_SETTLED"

    def __init__(self, label: str, source: AsyncIterable[Any]) -> None:
        self.label, self.source = label, source

    def asked(self) -> Any:
        return {"label": self.label}

    def begin(self, call: Call, drive: Drive) -> None:
        drive.flights.start(call, self)

    def reopen(self, call: Call, drive: Drive) -> None:
        """A stream is on the log whole or not at all."""

    async def attempt(self, call: Call, drive: Drive, number: int) -> list[Any]:
        chunks: list[Any] = []
        async for chunk in self.source:
            encoded = values.encode(chunk)
            chunks.append(encoded)
            drive.stream(call.id, values.decode(encoded))
        return chunks

    landed = _landed

    def fact(self, call: Call, chunks: list[Any] | None, failure: JsonObject | None) -> f.StreamSettled:
        return f.StreamSettled(call.id, call.ordinal, call.digest, chunks, failure)

    def revive(self, call: Call, event: Event) -> Any:
        if event.payload.failure is not None:
            raise DecisionFailed(decision=call.id, record=failure_from(event.payload.failure))
        return values.decode(event.payload.chunks)


class EmitSyscall:
    """Appends an event of the author's own type, once; *data* is encoded.

    The body goes on when the event is delivered, in its place among the outcomes: so live, replayed, and taken up
    after a crash, the same runs before and after it.
    """

    def __init__(self, type_: str, data: Any) -> None:
        self.starts, self.data = type_, data

    def asked(self) -> Any:
        return self.data

    def begin(self, call: Call, drive: Drive) -> None:
        fact = f.UserEvent(call.id, call.ordinal, call.digest, self.data, drive.state.facts.generation or None)
        event = drive.commit(self.starts, fact)
        drive.started(call, event)
        drive.delivery.put(event)

    def reopen(self, call: Call, drive: Drive) -> None:
        """It is on the log or was never made."""

    def revive(self, call: Call, event: Event) -> None:
        return None
