"""A fork that is served what its source has recorded: one thing is another, and all else is taken from there (ADR 0045).

Behind the fork, what the flow asks just as its source did (same identity, same digest of what it is asked with) gets the outcome that
the source recorded, as an ordinary outcome of the fork's own log, marked `served`. So nothing is done for it, and the fork replays without
its source. Outcomes come in the order of the source, with its times: who was first there is first here, and `ctx.now()` is what it was.
What was edited is done live, in its place of that order. What the source never asked, or asked otherwise, ends the drive, unless the fork
was made to let it happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from loom.core.envelope import AS_OF, NO_METADATA, SERVED, EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, Settled, is_cut
from loom.driving.errors import ForkRefused
from loom.driving.parents import CHILD_TOPIC, SPAWN
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

_NEVER_SERVED: Final = frozenset({"SCOPE_OPENED"})
_ENDS_OF_STEPS: Final = frozenset({"STEP_COMPLETED", "STEP_FAILED"})


class NotRecorded(DriveStopped):
    """A fork that is served from its source asks for something that this has no outcome for; nothing was done."""

    code = "not-recorded"

    def __init__(self, *, execution_id: str, source: str, call: str, why: str) -> None:
        self.execution_id, self.source, self.call, self.why = execution_id, source, call, why
        self.hint = (
            "What it came to so far: `loom diff`. Fork it again with --live, and what is not recorded is done for real."
        )
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

    def start(self, call: Call) -> None:
        if not self._serving.serve(call):
            super().start(call)


class ReusingDrive(Drive):
    """The drive of a fork that is served from its source; `find` has to be awaited before it goes on."""

    def __init__(self, journal: Journal, setting: Setting) -> None:
        super().__init__(journal, setting)
        self.asking = ReusingAsking(self, self.asking.recorded)
        self.timers: HeldTimers = HeldTimers(self.around.clock, signal=DriveEnding)
        self._source: Source | None = None
        self._pending: dict[int, tuple[Call, Settled]] = {}
        self._edited: Call | None = None

    async def find(self) -> None:
        """Read what the source has recorded, and see what of it the fork waits for already.

        Raises:
            LoomError: it cannot be read.
        """
        forked = self.state.facts.forked
        assert forked is not None
        source = self._source = await read_source(self.around.storage, forked)
        given = forked.payload.given["start"] if forked.payload.given is not None else None
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
        source = self._source
        if source is None or call.syscall.starts in _NEVER_SERVED or call.syscall.starts.startswith("user."):
            return False
        known = self._known(source, call)
        if known is not None:
            self._pending[known.outcome.sequence], self.timers.is_held = (call, known), True
            self.delivery.stir()
            return True
        if call.id in source.cut and source.unsettled[call.id].payload.digest == call.digest:
            self._begin(call, source.unsettled[call.id])  # it stands open until its scope is cut, as it did there
            return True
        if any(call.id.startswith(f"{each.id}/") for each, _, _ in self._late(source)):
            self.asking.held.append(call)  # there the time of its scope was over before it began
            return True
        if self._may_be_done(call):
            return False
        self.stop(
            NotRecorded(execution_id=self.state.execution_id, source=source.id, call=call.id, why=_why(source, call))
        )
        return True

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
            self._serve_next(self._source)
            if self.timers.is_held and not (self.delivery.queue or self.closing or self.flights):
                self.timers.is_held = False  # nothing of the source is waited for any more
                self.timers.arm()
        super()._on_still()

    def _serve_next(self, source: Source) -> None:
        """Have the next outcome of the source that is waited for written, unless what was edited comes before it."""
        pending = {at: each for at, each in self._pending.items() if not self._is_over(each[0])}
        late = {at: end for _, at, end in self._late(source)}
        if not pending and not late:
            return
        first, slot = min([*pending, *late]), source.slot
        waits = self._edited is not None and not self._edited.settled and slot is not None and slot.sequence < first
        if waits and self._edited is not None and self.wants(self._edited):
            return
        if first in late:
            late[first]()
            return
        call, known = self._pending.pop(first)
        self.delivery.queue.append(self._write(call, known))

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


def _at(event: Event) -> int:
    at: int = event.metadata.get(AS_OF, event.at)
    return at


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
