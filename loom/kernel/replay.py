"""What a log has recorded, arranged for a body that runs again: by place, and in the order of outcomes.

On replay every asked syscall is compared with what was recorded at its place (scope and ordinal). Kind and identity always
decide; other arguments are a divergence under unchanged code, and are noted, or refused where doing it twice does
harm, under changed code, or where the app is *lenient* (kernel rule 9). This file decides and touches nothing.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

import orjson

from loom.core.identity import scope_of
from loom.core.json import JsonObject
from loom.core.state import ExecutionState, Settled
from loom.kernel.calls import Branch, Call, Event, recorded_side
from loom.kernel.errors import ReplayDivergence


class Unsettled(NamedTuple):
    """A recorded syscall without an outcome, shaped like one that is `Settled`."""

    start: Event
    outcome: None = None


Record: TypeAlias = Settled | Unsettled
"""A recorded syscall: its start, and its outcome when there is one."""


class Recorded:
    """The recorded syscalls that the body has not asked for yet, and the outcomes in the order of the log."""

    def __init__(self, state: ExecutionState, *, code_changed: bool, is_lenient: bool = False) -> None:
        self._execution_id = state.execution_id
        self._code_changed, self._is_lenient, self._noted = code_changed, is_lenient, state.facts.noted
        self._places: dict[str, dict[int, Record]] = {}
        self.differences: list[JsonObject] = []
        settled = list(state.settled)[::-1]
        records: list[Record] = [*settled, *map(Unsettled, state.open.values())]
        for record in records:
            payload = record.start.payload
            self._places.setdefault(scope_of(payload.id), {})[payload.ordinal] = record
        self.outcomes = deque(each.outcome for each in settled)
        signals = [cut.outcome for cut in state.cuts.values()]
        signals += [event for event in (state.facts.cancel, state.facts.grace_ended) if event is not None]
        if signals:
            self.outcomes = deque(sorted([*self.outcomes, *signals], key=lambda event: event.sequence))

    def match(self, call: Call) -> Record | None:
        """Return and take out the record at the place of *call*, None when nothing was recorded there.

        Raises:
            ReplayDivergence: what was recorded there is not what is asked.
        """
        places = self._places.get(call.branch.prefix)
        record = places.pop(call.ordinal, None) if places else None
        if record is None:
            return None
        start = record.start
        payload = start.payload
        if payload.id != call.id or start.type != call.syscall.starts:
            raise self._divergence(call, record)
        if not _is_same_text(start, call) and call.digest not in (payload.digest, self._noted.get(start.sequence)):
            self._arguments_differ(call, record)
        return record

    def _arguments_differ(self, call: Call, record: Record) -> None:
        start = record.start
        once = getattr(start.payload, "once", None)  # and a changed question is not answered by an old answer
        if not (self._code_changed or self._is_lenient) or once or start.type == "GATE_OPENED":
            raise self._divergence(call, record)
        asked = {"args": call.syscall.asked(), "digest": call.digest}
        self.differences.append(
            {"id": call.id, "sequence": start.sequence, "recorded": recorded_side(start)["digest"], "asked": asked}
        )

    def _divergence(self, call: Call, record: Record) -> ReplayDivergence:
        return ReplayDivergence(
            execution_id=self._execution_id,
            scope=call.branch.prefix,
            ordinal=call.ordinal,
            recorded=recorded_side(record.start),
            asked=call.side(),
            likely=self._likely(record.start, call),
        )

    def _likely(self, start: Event, call: Call) -> str:
        if self._code_changed:
            return "The code of the flow changed since this was recorded."
        if start.payload.id == call.id and start.type == call.syscall.starts:
            return "The flow made other arguments this time: a clock, randomness, a set or outside state in it, a changed input?"
        return "The flow took another way this time: a clock, randomness, a set or outside state in the flow?"

    def may_lack(self, branch: Branch) -> bool:
        """Whether a crash may have taken back what *branch* wrote just here: same code, and nothing it asked later is left."""
        left = self._places.get(branch.prefix, ())
        return not (self._code_changed or any(ordinal >= branch.ordinal for ordinal in left))

    def awaits(self, before: int) -> bool:
        """Whether something that was asked *before* a place in the log has not been asked yet."""
        return any(each.start.sequence < before for places in self._places.values() for each in places.values())

    def unasked(self) -> ReplayDivergence | None:
        """Return the divergence that a record which nobody asked for is, None when all were asked."""
        left = [record.start for places in self._places.values() for record in places.values()]
        if not left:
            return None
        first = min(left, key=lambda start: start.sequence)
        likely = "The flow no longer asks for it"
        return ReplayDivergence(
            execution_id=self._execution_id,
            scope=scope_of(first.payload.id),
            ordinal=first.payload.ordinal,
            recorded=recorded_side(first),
            asked=None,
            likely=f"{likely}: its code changed." if self._code_changed else f"{likely}, with the same code.",
        )


def _is_same_text(start: Event, call: Call) -> bool:
    """Whether the arguments are written alike: then their digests are alike, and need not be made."""
    if start.type != "STEP_STARTED":
        return False
    return orjson.dumps(start.payload.args) == orjson.dumps(call.syscall.asked() or None)
