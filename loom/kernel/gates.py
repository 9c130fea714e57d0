"""The syscalls that wait: a gate for an answer, a timer for its hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loom import values
from loom.core import facts as f
from loom.core.failures import GateTimedOut
from loom.core.json import JsonObject
from loom.kernel.calls import Call, Event
from loom.values.sizes import bounded

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


class GateSyscall:
    """A gate at *label*: *show* is encoded, *expects* the annotation of the answer, *timeout_ms* from opening."""

    starts = "GATE_OPENED"

    def __init__(self, label: str, *, show: Any, expects: Any, timeout_ms: int | None, key: str | None) -> None:
        self.label, self.show, self.expects = label, show, expects
        self.timeout_ms, self.key = timeout_ms, key
        self.schema = values.expected(expects, f"expects of the gate {label}")
        self.codec = values.codec_for(expects)
        bounded(show, "show", label, beside=len(self.schema))

    def asked(self) -> JsonObject:
        return {"show": self.show, "timeout_ms": self.timeout_ms, "key": self.key}

    def begin(self, call: Call, drive: Drive) -> None:
        opened = f.GateOpened(
            id=call.id,
            ordinal=call.ordinal,
            digest=call.digest,
            label=self.label,
            schema=values.loads(self.schema),
            show=self.show,
            shown=values.digest(self.show) if self.show is not None else None,
            key=self.key,
            due_at=None if self.timeout_ms is None else drive.now_ms() + self.timeout_ms,
            gen=drive.state.facts.generation or None,
        )
        drive.started(call, drive.commit("GATE_OPENED", opened))
        self.reopen(call, drive)

    def reopen(self, call: Call, drive: Drive) -> None:
        assert call.start is not None
        due_at = call.start.payload.due_at
        if due_at is not None:
            drive.wake_at(due_at, call, lambda: drive.commit("GATE_TIMED_OUT", f.GateTimedOut(call.sequence)))

    def answer(self, call: Call, body: Mapping[str, Any]) -> f.GateAnswered:
        """Return the fact that an answer is.

        Raises:
            InvalidPayload, NotSerializable: the answer is not what the gate expects, or it is too large.
        """
        value = values.parse(body.get("answer"), self.expects)
        return f.GateAnswered(call.sequence, bounded(self.codec.encode(value), "answer", call.id))

    def revive(self, call: Call, event: Event) -> Any:
        if event.type == "GATE_TIMED_OUT":
            raise GateTimedOut(gate=call.id)
        return self.codec.decode(event.payload.answer)


class TimerSyscall:
    """A sleep of *delay_ms* from when it is first asked, or until *due_at* (ms since the epoch)."""

    starts = "TIMER_SET"

    def __init__(self, *, delay_ms: int = 0, due_at: int | None = None) -> None:
        self.delay_ms, self.due_at = delay_ms, due_at

    def asked(self) -> JsonObject:
        return {"delay_ms": self.delay_ms} if self.due_at is None else {"due_at": self.due_at}

    def begin(self, call: Call, drive: Drive) -> None:
        due_at = drive.now_ms() + self.delay_ms if self.due_at is None else self.due_at
        generation = drive.state.facts.generation or None
        timer = f.TimerSet(call.id, call.ordinal, call.digest, due_at, generation)
        drive.started(call, drive.commit("TIMER_SET", timer))
        self.reopen(call, drive)

    def reopen(self, call: Call, drive: Drive) -> None:
        assert call.start is not None
        due_at = call.start.payload.due_at
        drive.wake_at(due_at, call, lambda: drive.commit("TIMER_FIRED", f.TimerFired(call.sequence)))

    def revive(self, call: Call, event: Event) -> None:
        return None
