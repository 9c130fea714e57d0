"""Stopping in the body of a flow while its run is replayed: for a debugger, and for who wants to see where it stands.

The body is the real one, its calls are served from the log, and nothing is written or caused (replaying.py). What stops it is told
synchronously, in the frame that asks: as long as the callee does not return, nothing moves. A body that goes another way
afterwards, since somebody changed a variable, is a divergence like any other, and ends the replay.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Literal, NamedTuple, TypeAlias

from loom.core.envelope import EventEnvelope
from loom.core.errors import LoomError
from loom.core.step import Step
from loom.driving.replay_drive import PATIENCE_S, Reached, ReplayDrive
from loom.fingerprint.places import running_frames, standing_frames, traced_frames
from loom.kernel.asking import Asking
from loom.kernel.calls import Branch, Call, DriveEnding, Syscall
from loom.kernel.context import Context
from loom.kernel.errors import DriveStopped
from loom.kernel.scopes import ScopeSyscall

When: TypeAlias = Literal["before", "after", "breakpoint", "end"]

_NO_FRAME: Sequence[tuple[FrameType, int]] = ()


class Point(NamedTuple):
    """Where to stop: *before* or *after* the call with the identity *id* (None: any call), or at the *end* of the log."""

    when: When
    id: str | None = None


class Stop(NamedTuple):
    """Where a replayed body stands, while nothing moves.

    *frames* are the author's, each with its line, the outermost first; *runs* tells whether the last one is running, so that a
    debugger can go on from it, or only to be looked at. Of a call, *id* is its identity and *sequence* the event that it stands
    before or after, None where the log holds none; *value* is what it gives the body, *error* what it raises there. At a
    *breakpoint* of the author's, *sequence* is the event that the body has seen last. At the *end* it is the last one, and *error* is what the body ended with, or why it does not fit its log.
    """

    when: When
    id: str
    sequence: int | None
    frames: Sequence[tuple[FrameType, int]]
    runs: bool
    value: Any = None
    error: BaseException | None = None


class Left(DriveStopped):
    """Who looks at a replayed body has seen enough."""

    code = "debugger-left"
    hint = "Nothing was written; the run is as it was."

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"the replay of {execution_id} was left")


class Breaks:
    """Where replays are to stop, and whom to tell; *on_stop* returns whether the replay is to go on.

    A body that is busy with something of its own is given *patience_s* seconds.
    """

    time_max_s: float | None = None
    """A replay that stops takes as long as who looks at it."""

    def __init__(
        self, points: Sequence[Point], on_stop: Callable[[Stop], bool], *, patience_s: float = PATIENCE_S
    ) -> None:
        self._points, self._on_stop, self.patience_s = frozenset(points), on_stop, patience_s
        self.left = self._steps = self._is_told = False
        self._drive: BreakingDrive | None = None

    def drive(self, *given: Any, **named: Any) -> ReplayDrive:
        """Return the drive of a replay that stops; a replay makes one with it."""
        self._drive = BreakingDrive(self, *given, **{**named, "patience_s": self.patience_s})
        return self._drive

    def context(self, drive: Any, tools: Mapping[str, Step[Any, Any]], log: logging.LoggerAdapter[Any]) -> Context:
        """Return what the body of a replay that stops is given."""
        return BreakingContext(self, drive, tools, log)

    def before(self, branch: Branch, id: str) -> None:
        """*branch* is about to ask the call *id*."""
        if self._steps or self._is_meant("before", id):
            self._steps = False
            start, _ = self._known(id)
            frames, runs = _frames_of(branch)
            self._tell(Stop("before", id, start, frames, runs))

    def after(self, call: Call, *, value: Any = None, error: BaseException | None = None) -> None:
        """*call* is about to give its branch *value*, or to raise *error* there."""
        if self._is_meant("after", call.id) and not _is_block(call.syscall):
            _, outcome = self._known(call.id)
            frames, runs = _frames_of(call.branch)
            self._tell(Stop("after", call.id, outcome, frames, runs, value, error))

    def at_end(self, error: BaseException | None = None) -> None:
        """The log is used up; or the body does not fit it, which *error* says."""
        if self._is_told or self.left or not self._is_meant("end", ""):
            return
        self._is_told = True
        for stop in self._ends(error):
            self._tell(stop)

    def _ends(self, error: BaseException | None) -> list[Stop]:
        drive = self._drive
        assert drive is not None
        sequence, body = drive.state.sequence, drive.body
        if error is not None:
            task = asyncio.current_task() or body
            frames = _frames_of(drive.delivery.branches[task])[0] if task in drive.delivery.branches else _NO_FRAME
            return [Stop("end", "", sequence, frames, runs=False, error=error)]
        if body is not None and body.done():
            raised = None if body.cancelled() else body.exception()
            return [Stop("end", "", sequence, traced_frames(raised) if raised else _NO_FRAME, runs=False, error=raised)]
        standing = {branch.standing: branch for branch in drive.delivery.strands() if branch.standing is not None}
        leaves = {call: branch for call, branch in standing.items() if not isinstance(call.syscall, ScopeSyscall)}
        if leaves:
            return [Stop("end", call.id, sequence, _stands(branch), runs=False) for call, branch in leaves.items()]
        return [Stop("end", "", sequence, [(f, f.f_lineno) for f in standing_frames(body)], runs=False)]

    def _is_meant(self, when: When, id: str) -> bool:
        return Point(when, id) in self._points or Point(when) in self._points

    def _known(self, id: str) -> tuple[int | None, int | None]:
        assert self._drive is not None
        return self._drive.known.get(id, (None, None))

    def _tell(self, stop: Stop) -> None:
        if self.left or self._on_stop(stop):
            return
        self.leave()
        if stop.when != "end":
            raise DriveEnding

    def here(self, frames: Sequence[tuple[FrameType, int]]) -> None:
        """The author's own code asks to stop in *frames*, which run just now."""
        drive = self._drive
        task = asyncio.current_task()
        branch = drive.delivery.branches.get(task) if drive is not None and task is not None else None
        if branch is not None:
            self._tell(Stop("breakpoint", "", branch.seen.sequence, frames, runs=True))

    def step(self) -> None:
        """Stop before the next call, whichever it is."""
        self._steps = True

    def leave(self) -> None:
        """Have the replay end at once."""
        self.left = True
        if self._drive is not None:
            self._drive.stop(Left(execution_id=self._drive.state.execution_id))


def _is_block(syscall: Syscall) -> bool:
    """Whether this is the block of `ctx.scope`, which is entered where others end."""
    return isinstance(syscall, ScopeSyscall) and syscall.about["kind"] == "scope"


def _frames_of(branch: Branch) -> tuple[Sequence[tuple[FrameType, int]], bool]:
    """Return the frames that *branch* stands in, and whether the last one runs just now."""
    frames = running_frames(inspect.currentframe()) if asyncio.current_task() is branch.task else []
    if frames:
        return [(frame, frame.f_lineno) for frame in frames], True
    return _stands(branch), False


def _stands(branch: Branch) -> Sequence[tuple[FrameType, int]]:
    return [(frame, frame.f_lineno) for frame in standing_frames(branch.task)]


class BreakingContext(Context):
    """What a flow is given while it is looked at: a call is told before it is asked."""

    def __init__(self, breaks: Breaks, *given: Any) -> None:
        super().__init__(*given)
        self._breaks = breaks

    def _call(self, branch: Branch, syscall: Syscall, text: str, compared: Any) -> Call:
        self._breaks.before(branch, text)
        return super()._call(branch, syscall, text, compared)


class BreakingAsking(Asking):
    """What the body asks while it is looked at: what a call gives is told before the body gets it."""

    def __init__(self, breaks: Breaks, *given: Any) -> None:
        super().__init__(*given)
        self._breaks = breaks

    def _revived(self, call: Call, event: EventEnvelope[Any]) -> Any:
        try:
            value = super()._revived(call, event)
        except Exception as error:
            self._breaks.after(call, error=error)
            raise
        self._breaks.after(call, value=value)
        return value


class BreakingDrive(ReplayDrive):
    """The drive of a replay that stops where it is told to."""

    def __init__(self, breaks: Breaks, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._breaks = breaks
        self.asking = BreakingAsking(breaks, self, self.recorded)
        state = self.state
        self.known: dict[str, tuple[int, int | None]] = {
            start.payload.id: (start.sequence, None) for start in state.open.values()
        } | {settled.start.payload.id: (settled.start.sequence, settled.outcome.sequence) for settled in state.settled}
        """Of each recorded call, by its identity, the event that asked it, and the one that settled it."""

    async def reached(self) -> None:
        await self._give_time()
        self._breaks.at_end()
        await super().reached()

    def stop(self, error: LoomError) -> None:
        is_news = self.ending is None and not isinstance(error, Reached | Left)
        super().stop(error)
        if is_news:
            self._breaks.at_end(error)
