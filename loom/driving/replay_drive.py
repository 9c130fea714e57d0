"""The drive of a replay: it stops at the frontier, having looked at what the body came to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from loom import values
from loom.core.envelope import EventEnvelope
from loom.core.errors import LoomError
from loom.core.facts import ExecutionCancelled
from loom.core.flow import Flow
from loom.core.json import JsonObject
from loom.core.missing import MISSING
from loom.driving.verdicts import without_traceback
from loom.fingerprint.places import location_of
from loom.kernel.calls import Call
from loom.kernel.closing import ended
from loom.kernel.codec import payload_json
from loom.kernel.drive import Drive, Setting
from loom.kernel.errors import DriveStopped
from loom.kernel.journal import Journal
from loom.kernel.replay import Record, Recorded
from loom.kernel.scopes import is_signal
from loom.kernel.succession import SuccessionSyscall
from loom.values.failing import where_of

Event = EventEnvelope[Any]

PATIENCE_S: Final = 5.0
"""So long a replay waits for a body that is busy with something of its own before it goes by what there is."""
HASTE_S: Final = 0.1
"""The same, for a flow that has worn that patience out once: it is to try it once, and not once a run."""
GLANCE_S: Final = 0.005
_FORCED: Final = ("force", "superseded", "imported")
"""Why a run was ended without asking its body."""


class Reached(DriveStopped):
    """The frontier is reached, which is as far as a replay goes."""

    code = "replayed"

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"the whole log of {execution_id} was replayed")


class Asked(NamedTuple):
    """Something the body asked that is recorded: the call, and the record it met."""

    call: Call
    record: Record


class Watched(Recorded):
    """The recorded syscalls, with a note of each that the body has asked for."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.asked: list[Asked] = []

    def match(self, call: Call) -> Record | None:
        record = super().match(call)
        if record is not None:
            self.asked.append(Asked(call, record))
        return record


class ReplayDrive(Drive):
    """Drives a body along its log. *end* is the event that ended the run, which its log goes up to; None: it is open.

    A body that is busy with something of its own is given *patience_s* seconds; then *is_worn_out* tells that they were not enough.
    """

    def __init__(
        self,
        journal: Journal,
        setting: Setting,
        *,
        end: Event | None,
        flow: Flow[Any, Any],
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__(journal, setting)
        self.recorded = Watched(journal.state, code_changed=not setting.same_code, is_lenient=setting.is_lenient)
        self.asking.recorded, self.delivery.queue = self.recorded, self.recorded.outcomes
        self._end, self._flow = end, flow
        self._patience_s, self.is_worn_out = patience_s, False
        self._waited: tuple[int, float] | None = None
        self.stood_at = ""
        self.declined: Sequence[str] = ()
        """The patches that the run had passed when it was asked for them first."""
        self.ended: tuple[str, Any] | None = None
        self.difference: JsonObject | None = None
        """How the run ended, and how it would end now, where these are not the same."""

    @property
    def asked(self) -> list[Asked]:
        """What the body has asked that is recorded, in the order of the log."""
        return sorted(self.recorded.asked, key=lambda asked: asked.record.start.sequence)

    def outcome_of(self, start: int) -> int:
        """Return the sequence of what settled the syscall that was asked at *start*."""
        settled = (each.outcome.sequence for each in self.state.settled if each.start.sequence == start)
        return next(settled, start)

    def identity_of(self, start: int) -> str:
        """Return the identity of the syscall that was asked at *start*, empty where none was."""
        asked = (*self.state.open.values(), *(settled.start for settled in self.state.settled))
        return next((str(event.payload.id) for event in asked if event.sequence == start), "")

    def stop(self, error: LoomError) -> None:
        """End the drive; where the body stands is known only now."""
        if self.ending is None and not isinstance(error, Reached):
            self.stood_at = self.stands_at()
        super().stop(error)

    def may_still_come(self) -> bool:
        """Whether a branch that stands in no syscall may ask what was recorded, if it is given time."""
        if self.delivery.moving == 0:
            return False
        loop = asyncio.get_running_loop()
        if self._waited is None or self._waited[0] != self.delivery.progress:
            self._waited = self.delivery.progress, loop.time() + self._patience_s
        if loop.time() > self._waited[1]:
            self.is_worn_out = True
            return False
        loop.call_later(GLANCE_S, self.delivery.stir)
        return True

    async def reached(self) -> None:
        """The body stands still, and all that is recorded was delivered: see how it ends, and stop.

        Raises:
            Reached: always.
        """
        await self._give_time()
        self.declined = self.patches.declined or ()
        if self._end is not None and self.is_open_for_comparison(self._end):
            self.difference = self._compared(self._end)
        raise Reached(execution_id=self.state.execution_id)

    async def _give_time(self) -> None:
        """Let a body that stands in no syscall end, if the run did."""
        until = asyncio.get_running_loop().time() + self._patience_s
        while self._is_busy_by_itself():
            if asyncio.get_running_loop().time() > until:
                self.is_worn_out = True
                return
            assert self.body is not None
            await asyncio.wait({self.body}, timeout=GLANCE_S)

    def _is_busy_by_itself(self) -> bool:
        is_done = self.body is None or self.body.done()
        return self._end is not None and not is_done and self.delivery.moving > 0

    def is_open_for_comparison(self, end: Event) -> bool:
        """Whether the body had a part in how the run ended."""
        # It was still waiting for its turn, or is a fork that nobody had driven yet.
        never_began = self.state.facts.why is not None or self.state.status == "forked"
        return not (end.type == "EXECUTION_CANCELLED" and (never_began or end.payload.cause in _FORCED))

    # -- how it ends ---------------------------------------------------------------------------------------------

    def _compared(self, end: Event) -> JsonObject | None:
        """Return both ends where they differ."""
        recorded: JsonObject = {"kind": end.type, "sequence": end.sequence, "args": _legible(end.type, end.payload)}
        asks = next(self._asks_more(), None)
        now: JsonObject
        if asks is not None and isinstance(asks.syscall, SuccessionSyscall):
            input = None if asks.syscall.input is MISSING else asks.syscall.input
            now = {"kind": "EXECUTION_CONTINUED", "args": {"input": input}, "where": asks.branch.where()}
            self.ended = "EXECUTION_CONTINUED", input
        elif asks is not None:
            now = asks.side()
        elif self.body is not None and self.body.done() and not self.body.cancelled():
            now = self._end_now(self.body)
        elif end.type == "EXECUTION_CANCELLED":
            return None  # it was cut off where it stood
        else:
            now = {"kind": "nothing", "args": None, "where": self.stands_at()}
        alike = now["kind"] == end.type and values.canonical(now["args"]) == values.canonical(recorded["args"])
        return None if alike else {"recorded": recorded, "now": now}

    def _asks_more(self) -> Iterator[Call]:
        """Yield what the body asks beyond the end of the run, and would be let to."""
        for call in self.asking.held:
            if not (call.branch.cut or self.is_closing(call.branch) or self.cancelling.dooms(call)):
                yield call

    def _end_now(self, body: asyncio.Task[Any]) -> JsonObject:
        error = body.exception()
        type_, fact = ended(self, body, error)
        if self.state.facts.cancel is not None:
            failure = None if error is None or is_signal(error) else fact.failure
            type_, fact = "EXECUTION_CANCELLED", ExecutionCancelled("request", failure=failure)
        args = _legible(type_, fact)
        self.ended = type_, args
        return {"kind": type_, "args": args, "where": where_of(error) if error is not None else self._place()}

    # -- where it stands -----------------------------------------------------------------------------------------

    def stands_at(self) -> str:
        """Return where the body stands, as `file:line`: where it asks what is not recorded, if it does."""
        places = [call.branch.where() for call in self.asking.held[:1]]
        places += [location_of(task) for task in self.delivery.branches]
        if self.body is not None and self.body.done() and not self.body.cancelled():
            error = self.body.exception()
            places.append(where_of(error) if error is not None else "")
        return next((place for place in places if place), self._place())

    def _place(self) -> str:
        code = getattr(self._flow.fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _legible(type_: str, fact: Any) -> JsonObject:
    """Return of the *fact* that ends a run what a replay can bring about again."""
    match type_:
        case "EXECUTION_COMPLETED":
            return {"result": fact.result}
        case "EXECUTION_FAILED":
            return {"failure": without_traceback(fact.failure), "cause": fact.cause}
        case "EXECUTION_CANCELLED":
            return {"failure": without_traceback(fact.failure)}
        case "EXECUTION_CONTINUED":
            return {"input": fact.input}
        case _:
            return dict(payload_json(fact))
