"""A fork that is served what its source has recorded: one thing is another, and all else is taken from there (ADR 0045).

Behind the fork, what the flow asks just as its source did (same identity, same digest of what it is asked with) gets the outcome that
the source recorded, as an ordinary outcome of the fork's own log, marked `served`. So nothing is done for it, and the fork replays without
its source. Outcomes come in the order of the source, with its times: who was first there is first here, and `ctx.now()` is what it was.
What was edited is done live, in its place of that order. What the source never asked, or asked otherwise, ends the drive, unless the fork
was made to let it happen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from loom.core.child_names import CHILD_TOPIC, SPAWN
from loom.core.envelope import AS_OF, EDITED, NO_METADATA, SERVED, EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, Settled, is_cut
from loom.driving.errors import ForkRefused
from loom.driving.forked_again import forked_again
from loom.driving.stored_log import log_of
from loom.kernel.asking import Asking
from loom.kernel.calls import Call, DriveEnding
from loom.kernel.drive import Drive, Setting
from loom.kernel.errors import DriveStopped
from loom.kernel.journal import Journal
from loom.kernel.records import DecisionSyscall, StreamSyscall
from loom.kernel.scopes import ScopeSyscall
from loom.kernel.steps import StepSyscall
from loom.kernel.succession import SuccessionSyscall
from loom.spi.event_store import Storage
from loom.spi.timers import Timers

Event = EventEnvelope[Any]

_ENDS_OF_STEPS: Final = frozenset({"STEP_COMPLETED", "STEP_FAILED"})


class NotRecorded(DriveStopped):
    """A fork that is served from its source asks for something that this has no outcome for; nothing was done."""

    code = "not-recorded"

    def __init__(self, *, execution_id: str, source: str, call: str, why: str, again: str) -> None:
        self.execution_id, self.source, self.call, self.why, self.again = execution_id, source, call, why, again
        self.hint = f"`loom diff {source} {execution_id}` shows what it came to. This does what is not recorded for real: {again}"
        super().__init__(f"{execution_id} asks for {call}, {why}")


class Source(NamedTuple):
    """What a source has recorded, by identity: its calls, those without an outcome, and the ends of scopes that were cut.

    *cut* are the calls that were open in such a scope, and *slot* is the outcome of what was edited.
    """

    id: str
    settled: Mapping[str, Settled]
    unsettled: Mapping[str, Event]
    ends: Mapping[str, Event]
    cut: frozenset[str]
    slot: Event | None


def source_of(state: ExecutionState, given: int | None) -> Source:
    """Return what the run in *state* has recorded; *given* is the start there of the step that was given another input."""
    settled = {each.start.payload.id: each for each in state.settled}
    heard = {
        each.start.payload.topic.removeprefix(CHILD_TOPIC)
        for each in state.settled
        if each.outcome.type == "MESSAGE_RECEIVED" and each.start.payload.topic.startswith(CHILD_TOPIC)
    }
    for id, each in list(settled.items()):
        name, result = id.rpartition("/")[2], getattr(each.outcome.payload, "result", None)
        if name.startswith(SPAWN) and each.start.type == "STEP_STARTED" and result not in heard:
            del settled[id]  # a child whose end nobody has heard would never be heard of here
    slot = next((each for each in settled.values() if each.start.sequence == given), None)
    cut = frozenset(start.payload.id for start in state.open.values() if is_cut(start, state.cuts))
    unsettled = {start.payload.id: start for start in state.open.values()}
    ends = {each.start.payload.id: each.outcome for each in state.cuts.values()}
    return Source(state.execution_id, settled, unsettled, ends, cut, slot.outcome if slot is not None else None)


async def read_source(storage: Storage, forked: Event) -> Source:
    """Return what the source of a fork has recorded.

    Raises:
        ForkRefused: it is not there any more.
    """
    fact = forked.payload
    source_id = ExecutionId(fact.source["execution_id"])
    row = await storage.row(source_id)
    if row is None or row.incarnation != fact.source["incarnation"]:
        raise ForkRefused(execution_id=forked.execution_id, why=f"{source_id}, which it is served from, is gone")
    log = await log_of(storage, source_id)
    return source_of(log.state(), fact.given["start"] if fact.given is not None else None)


def drive_of(journal: Journal, setting: Setting) -> Drive:
    """Return the drive of a run: one that is served, where it is a fork that was made so."""
    forked = journal.state.facts.forked
    is_served = forked is not None and forked.payload.reuse is not None
    return ReusingDrive(journal, setting) if is_served else Drive(journal, setting)


class HeldTimers(Timers):
    """Timers that stand still while *is_held*: what was in time there is in time here, though that time is past."""

    is_held = True

    def fire_due(self) -> bool:
        return not self.is_held and super().fire_due()

    def arm(self) -> None:
        if not self.is_held:
            super().arm()


class ReusingAsking(Asking):
    """What a served fork asks."""

    def __init__(self, drive: ReusingDrive, *given: Any) -> None:
        super().__init__(drive, *given)
        self._serving = drive

    def begin(self, call: Call) -> None:
        """As ever; but what was begun in the source is begun here, though its scope is closing already."""
        is_over = call.branch.is_cut or self._serving.cancelling.dooms(call)
        if self._serving.was_begun(call) and not (is_over or self.is_paused):
            self.start(call)
        else:
            super().begin(call)

    def start(self, call: Call) -> None:
        if not self._serving.serve(call):
            self.do(call)

    def do(self, call: Call) -> None:
        """Do what *call* asks, whatever the source has."""
        super().start(call)


class ReusingDrive(Drive):
    """The drive of a fork that is served from its source; `find` has to be awaited before it goes on."""

    def __init__(self, journal: Journal, setting: Setting) -> None:
        super().__init__(journal, setting)
        self.asking = self._asks = ReusingAsking(self, self.asking.recorded)
        self.timers: HeldTimers = HeldTimers(self.around.clock, signal=DriveEnding)
        self._source: Source | None = None
        self._pending: dict[int, tuple[Call, Settled]] = {}
        self._edited: Call | None = None
        self._unheard: list[Call] = []
        self._is_another = False

    async def find(self) -> None:
        """Read what the source has recorded, and see what of it the fork waits for already.

        Raises:
            LoomError: it cannot be read.
        """
        forked = self.state.facts.forked
        assert forked is not None
        source = self._source = await read_source(self.around.storage, forked)
        given = forked.payload.given["start"] if forked.payload.given is not None else None
        own = [each.outcome for each in self.state.settled if each.outcome.sequence > forked.sequence]
        self._is_another = given is not None or any(EDITED in outcome.metadata for outcome in own)
        for call in list(self.asking.taken_up):
            if call.sequence == given:
                self._edited = call
            elif (known := self._known(source, call)) is not None:
                self._pending[known.outcome.sequence] = call, known
                self.asking.taken_up.remove(call)
            elif call.id in source.cut:
                self.asking.taken_up.remove(call)

    def serve(self, call: Call) -> bool:
        """Take *call* in to be served in its turn, and return whether it is; False: it is to be done.

        What may not be done stops the drive.
        """
        source, starts = self._source, call.syscall.starts
        if source is None:
            return False
        is_new = call.id not in source.settled and call.id not in source.unsettled
        if is_new and any(call.id.startswith(f"{scope}/") for scope in source.ends):
            self._unheard.append(call)  # there its scope was over before it began, and so may it be here
            self.delivery.stir()
            return True
        known = self._known(source, call)
        if known is not None:
            self._pending[known.outcome.sequence], self.timers.is_held = (call, known), True
            self.delivery.stir()
            return True
        if _is_own(starts):
            return False
        if call.id in source.cut and source.unsettled[call.id].payload.digest == call.digest:
            self._begin(call, source.unsettled[call.id])  # it stands open until its scope is cut, as it did there
            return True
        return not self._may_begin(source, call)

    def was_begun(self, call: Call) -> bool:
        """Whether the source has begun *call*, asked with the same."""
        source = self._source
        known = source.settled.get(call.id) if source is not None else None
        start = known.start if known is not None else None
        if source is not None and start is None:
            start = source.unsettled.get(call.id)
        return start is not None and start.type == call.syscall.starts and start.payload.digest == call.digest

    def _may_begin(self, source: Source, call: Call) -> bool:
        """Return whether *call*, which the source does not know, may be done; one that may not stops the drive."""
        if self._may_be_done(call):
            return True
        about = {"call": call.id, "why": _why(source, call), "again": forked_again(self.state)}
        self.stop(NotRecorded(execution_id=self.state.execution_id, source=source.id, **about))
        return False

    def commit(
        self, type_: str, payload: Any, metadata: Mapping[str, Any] = NO_METADATA, *, consumes: int | None = None
    ) -> Event:
        there = None if self._source is None else self._stands_for(self._source, type_, payload)
        if there is not None and AS_OF not in metadata:
            metadata = {**metadata, AS_OF: _at(there)}
        return super().commit(type_, payload, metadata, consumes=consumes)

    def _stands_for(self, source: Source, type_: str, fact: Any) -> Event | None:
        """Return the event of the source in whose place a fact is that is not served: it happens at the time of that."""
        known = source.settled.get(getattr(fact, "id", ""))
        if known is not None:
            return known.outcome if known.outcome.type == type_ else None
        call = self.delivery.calls.get(getattr(fact, "start", -1))
        if call is not None and call is self._edited:
            return source.slot if type_ in _ENDS_OF_STEPS else None
        end = source.ends.get(call.id) if call is not None else None
        return end if end is not None and end.type == type_ else None

    def _known(self, source: Source, call: Call) -> Settled | None:
        known = source.settled.get(call.id)
        if known is None or known.start.type != call.syscall.starts:
            return None
        return known if known.start.payload.digest == call.digest else None

    def _may_be_done(self, call: Call) -> bool:
        """Whether a call that the source does not know may happen: it touches nothing, or that was wished, or simulators stand in."""
        touches = isinstance(call.syscall, StepSyscall | DecisionSyscall | StreamSyscall | SuccessionSyscall)
        forked, simulates = (
            self.state.facts.forked,
            self.state.facts.simulated and isinstance(call.syscall, StepSyscall),
        )
        return not touches or simulates or (forked is not None and forked.payload.reuse == "live")

    # -- in the order of the source ------------------------------------------------------------------------------

    def _on_still(self) -> None:
        is_free = not (self.ending or self.is_interrupted or self.asking.is_paused or self.asking.is_replaying)
        if is_free and self._source is not None and not self.delivery.queue:
            if self._serve_next(self._source):
                return
            if not (self.delivery.queue or self.closing or self.flights):
                self._go_beyond(self._source)
        super()._on_still()

    def _go_beyond(self, source: Source) -> None:
        """Nothing of the source is waited for any more: what it never asked has its turn, and then its own times have."""
        unheard, self._unheard = self._unheard, []
        for call in unheard:
            if not self._is_over(call) and self._may_begin(source, call):
                self._asks.do(call)
        if self.timers.is_held and not unheard:
            self.timers.is_held = False
            self.timers.arm()

    def _close_next(self) -> bool:
        if self._source is not None:
            ends = self._source.ends
            for call, scope in self.closing.items():
                end = ends.get(call.id)
                if end is not None and end.type == "SCOPE_TIMED_OUT" and not self._is_another:
                    scope.is_late = (
                        True  # there, too, it failed at first, and its time was over before that was written
                    )
            self.closing = dict(sorted(self.closing.items(), key=lambda each: _place(ends.get(each[0].id))))
        return super()._close_next()

    def _serve_next(self, source: Source) -> bool:
        """Have the next outcome of the source that is waited for written, unless what was edited comes before it.

        Return whether that was one which no outcome is served for, so that the drive has moved on.
        """
        pending = {at: each for at, each in self._pending.items() if not self._is_over(each[0])}
        late = {at: end for _, at, end in self._late(source)}
        if not pending and not late:
            return False
        first, slot = min([*pending, *late]), source.slot
        closing = [call for call, scope in self.closing.items() if not scope.is_written]
        if any(_place(source.ends.get(call.id)) < first for call in closing):
            return False  # there, a scope was closed before
        waits = self._edited is not None and not self._edited.settled and slot is not None and slot.sequence < first
        if waits and self._edited is not None and self.wants(self._edited):
            return False
        if first in late:
            late[first]()
            return False
        call, known = self._pending.pop(first)
        if _is_own(known.start.type):
            self._asks.do(call)
            return True
        self.delivery.queue.append(self._write(call, known))
        return False

    def _late(self, source: Source) -> Iterator[tuple[Call, int, Callable[[], None]]]:
        """Yield the scopes that are open here whose time was over in the source, each with when that was, and what ends it."""
        for call in self.delivery.calls.values():
            end, scope = source.ends.get(call.id), call.syscall
            if end is None or end.type != "SCOPE_TIMED_OUT" or not isinstance(scope, ScopeSyscall):
                continue
            if not (call.settled or scope.is_late or scope.is_written or call in self.closing):
                yield call, end.sequence, partial(scope.time_is_over, call, self)

    def _is_over(self, call: Call) -> bool:
        return call.settled or call.branch.is_cut or self.cancelling.dooms(call)

    def _write(self, call: Call, known: Settled) -> Event:
        """Write the outcome of *call*, and its start where it has none, as facts of this log."""
        outcome, by = known.outcome, known.outcome.metadata.get("principal")
        about = {SERVED: outcome.sequence, AS_OF: _at(outcome), **({"principal": by} if by else {})}
        if outcome is known.start or outcome.sequence == known.start.sequence:
            event = self.commit(outcome.type, self._as_asked(call, outcome.payload), about)
            self.started(call, event)
            return event
        if call.start is None:
            self._begin(call, known.start)
        return self.commit(outcome.type, outcome.payload._replace(start=call.sequence), about)

    def _begin(self, call: Call, start: Event) -> None:
        self.started(call, self.commit(start.type, self._as_asked(call, start.payload), {SERVED: start.sequence}))

    def _as_asked(self, call: Call, fact: Any) -> Any:
        return fact._replace(ordinal=call.ordinal, digest=call.digest, gen=self.state.facts.generation or None)


def _is_own(type_: str) -> bool:
    """Whether what events of *type_* tell of is this flow's own doing: it is done here as well, in its turn."""
    return type_ == "SCOPE_OPENED" or type_.startswith("user.")


def _at(event: Event) -> int:
    at: int = event.metadata.get(AS_OF, event.at)
    return at


def _place(event: Event | None) -> float:
    return math.inf if event is None else event.sequence


def _why(source: Source, call: Call) -> str:
    known = source.settled.get(call.id)
    start = known.start if known is not None else source.unsettled.get(call.id)
    if isinstance(call.syscall, SuccessionSyscall):
        return "and what comes then is served from nothing"
    if start is None:
        return f"which {source.id} never asked"
    if start.payload.digest != call.digest:
        return f"with other arguments than {source.id} (event {start.sequence} there)"
    return f"whose outcome {source.id} has not" if known is None else f"which is another call than in {source.id}"
