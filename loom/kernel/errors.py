"""What the kernel refuses, and why.

    LoomError
    |- InvalidId, InvalidDeclaration, UnknownFlow,        core/errors.py
    |  ExecutionTerminated
    |- Failure: TypedFailure, StepFailed, GateTimedOut,   core/failures.py: the only ones a flow may catch
    |           ReceiveTimedOut, DecisionFailed, ChildFailed, NestingTooDeep, CompensationFailed, ScopeTimedOut,
    |           BranchWasCut
    |- StoreError: StoreUnavailable, StoreCorrupt,        spi/errors.py
    |              StoreNewer, StoreNotFound; ContentMissing     spi/content_store.py
    |              CursorUnknown                         spi/change_feed.py
    |- NotSerializable: ValueTooLarge: ResultTooLarge;    values/ and its parts
    |  RecordUnreadable, InvalidPayload
    |- EntryTooLarge, a NotSerializable too               spi/limits.py
    |- ContentNotWired, DigestTooLarge                    core/claims.py
    |- WhereInvalid                                       spi/where_text.py
    |- SequenceConflict: Fenced                           spi/conflicts.py
    |- LogNewerThanCode, LogCorrupt
    |- ExecutionNotFound, ExecutionAlreadyExists,                  driving/errors.py
    |  Denied, DecisionNotFound, ExecutionNotPaused, CodeChanged,
    |  CodeNotPresent, ExecutionDriven, MigrationRefused,
    |  ExecutionNotFailed, ExecutionCompensated, ChildrenCancelled, GateNotOpen, AmbiguousGate, AlreadyAnswered,
    |  ApprovalMismatch, AmbiguousDoubt, NotInDoubt, SnapshotUnusable
    |- ReplayRefuses, ReplayTookTooLong                            driving/replaying.py
    |- ResourceNotOpened                                           app/resources.py
    `- DriveStopped: ReplayDivergence, ForeignTask, StepIdReused, CannotContinue, UnrecordedCancellation, DriveInterrupted,
                     DriveFaulted; Offered, Reached                driving/: how a drive ends that only asks, or replays

A `DriveStopped` ends the drive and reaches the caller of the verb; inside the flow it is never an ordinary exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loom.core.errors import LoomError
from loom.core.sides import side_words


class LogNewerThanCode(LoomError):
    """The log holds facts that this version of Loom does not know; it can be looked at, not driven."""

    code = "log-newer"
    hint = "Upgrade Loom to drive this execution; logs and show still work."

    def __init__(self, *, execution_id: str, what: str) -> None:
        self.execution_id, self.what = execution_id, what
        super().__init__(f"the log of {execution_id} holds {what}, which this version does not know")


class LogCorrupt(LoomError):
    """A record of the log cannot be read as what it says it is."""

    code = "log-corrupt"
    hint = "The rows before it are intact: `loom logs` shows them. Restore the store from a backup."

    def __init__(self, *, execution_id: str, sequence: int, why: str) -> None:
        self.execution_id, self.sequence, self.why = execution_id, sequence, why
        super().__init__(f"event {sequence} of {execution_id} cannot be read: {why}")


class DriveStopped(LoomError):
    """The drive had to stop; the run stays as its log says, and can be driven again."""

    code = "drive-stopped"


class ReplayDivergence(DriveStopped):
    """What the code asks is not what the log recorded. Both sides are fields, as JSON objects."""

    code = "replay-divergence"
    hint = "The log is untouched. Restore the code that wrote it, or mend the flow, and resume."

    def __init__(
        self,
        *,
        execution_id: str,
        scope: str,
        ordinal: int,
        recorded: Mapping[str, Any] | None,
        asked: Mapping[str, Any] | None,
        likely: str,
    ) -> None:
        self.execution_id, self.scope, self.ordinal = execution_id, scope, ordinal
        self.recorded, self.asked, self.likely = recorded, asked, likely
        where = f"place {ordinal}" + (f" of {scope.rstrip('/')}" if scope else "")
        super().__init__(
            f"{execution_id} diverged at {where}: recorded {side_words(recorded)}, asked {side_words(asked)}. {likely}"
        )

    def because(self, likely: str, where: str) -> ReplayDivergence:
        """Return the same divergence with what is *likely* to blame, and *where* in the author's code."""
        told = f"{likely} ({where})." if where else f"{likely}."
        sides = {"recorded": self.recorded, "asked": self.asked}
        return ReplayDivergence(
            execution_id=self.execution_id, scope=self.scope, ordinal=self.ordinal, likely=told, **sides
        )

    def as_json(self) -> dict[str, Any]:
        """Return both sides for the log."""
        return {name: getattr(self, name) for name in ("scope", "ordinal", "recorded", "asked", "likely")}


class ForeignTask(DriveStopped):
    """A syscall was called from a task that is no branch of the flow, so its place would be left to chance."""

    code = "foreign-task"
    hint = "Open branches with ctx.parallel, ctx.map or ctx.scope; inside a step use plain Python."

    def __init__(self, *, syscall: str, task: str, where: str) -> None:
        self.syscall, self.task, self.where = syscall, task, where
        super().__init__(f"ctx.{syscall} was called from {task} at {where}, not from the flow or a branch of it")


class StepIdReused(DriveStopped):
    """A name or key given to a step was used again with other arguments (spec 4.3.1)."""

    code = "step-id-reused"

    def __init__(self, *, step_id: str, first: str, second: str) -> None:
        self.step_id, self.first, self.second = step_id, first, second
        self.hint = "Give each call its own name or key, for example step.keyed(item.id), or leave the name off."
        super().__init__(f"{step_id} was asked with {first} and again with {second}")


class CannotContinue(DriveStopped):
    """`ctx.continue_as_new` was called in a branch, or while something else of the run is still open (kernel rule 11.2)."""

    code = "cannot-continue"
    hint = "Call it in the body of the flow, once branches have joined and gates, sleeps and messages are settled."

    def __init__(self, *, execution_id: str, branch: str, left: Sequence[str], where: str) -> None:
        self.execution_id, self.branch, self.left, self.where = execution_id, branch, tuple(left), where
        why = f"{', '.join(left[:5])} is open" if left else f"the branch {branch.rstrip('/')} is no whole run"
        super().__init__(f"{execution_id} cannot continue as new at {where}: {why}")


class UnrecordedCancellation(DriveStopped):
    """Something inside the flow cancelled a syscall by the clock, which no replay could repeat."""

    code = "unrecorded-cancellation"
    hint = (
        "Use ctx.scope(timeout=...), ctx.select, or the step's own timeout, not asyncio.timeout, wait_for, a TaskGroup."
    )

    def __init__(self, *, syscall: str, where: str) -> None:
        self.syscall, self.where = syscall, where
        super().__init__(f"{syscall} was cancelled from inside the flow at {where}")


class DriveInterrupted(DriveStopped):
    """The process was asked to stop. Nothing is recorded because of it; the run can be resumed."""

    code = "interrupted"
    hint = "Resume it: nothing committed is lost."

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"the drive of {execution_id} was interrupted")


class DriveFaulted(DriveStopped):
    """An outcome could not be recorded. What was committed before it stands; the run can be resumed."""

    code = "drive-faulted"
    hint = "This is a fault of Loom or of a plugin: please report it with the traceback (--debug)."

    def __init__(self, *, execution_id: str, what: str, why: str) -> None:
        self.execution_id, self.what, self.why = execution_id, what, why
        super().__init__(f"the outcome of {what} of {execution_id} could not be recorded: {why}")
