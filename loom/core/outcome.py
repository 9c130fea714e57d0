"""What a verb returns: where a run stands, as a value. Suspended is an ordinary outcome (spec P3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from loom.core.errors import ExecutionTerminated
from loom.core.failures import FailureRecord, failure_from
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState
from loom.core.views import OpenGate, open_gates

T = TypeVar("T")

OutcomeStatus = Literal[
    "running",
    "suspended",
    "in_doubt",
    "diverged",
    "forked",
    "paused",
    "completed",
    "failed",
    "cancelled",
    "continued",
    "accepted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[T]):
    """Where an execution stands after a verb.

    *status* is `completed` (then *value* is what the flow returned), `failed` (*failure* says why), `suspended` or
    `in_doubt` (*gates* wait for a person, *wake_at* is when it goes on by itself, ms since the epoch, *reason* what a run waits
    for that may not begin yet), `cancelled` (*reason*
    is what was said of it, *failure* what its clean-up failed with), or `accepted`: what was asked is durable, and another
    driver, which *driver* names unless none has the run yet, will journal it.
    """

    execution_id: ExecutionId
    status: OutcomeStatus
    value: T | None = None
    failure: FailureRecord | None = None
    gates: tuple[OpenGate, ...] = ()
    wake_at: int | None = None
    length: int = 0
    reason: str | None = None
    driver: str = ""

    @property
    def why(self) -> str:
        """What is known of why it did not complete, empty when nothing is."""
        return "; ".join(str(known) for known in (self.reason, self.failure) if known)

    def result(self) -> T:
        """Return the value of a completed run.

        Raises:
            ExecutionTerminated: it failed, was cancelled, or has not completed yet; the error says which, and why.
        """
        if self.status != "completed":
            raise ExecutionTerminated(execution_id=self.execution_id, status=self.status, cause=self.why)
        return self.value  # type: ignore[return-value]  # None is what T says then


def outcome_of(state: ExecutionState, value: Any = None) -> Outcome[Any]:
    """Return the outcome that *state* is; *value* is the decoded result of a completed run."""
    status: Any = "running" if state.status == "new" else state.status
    cancel = state.facts.cancel if state.status == "cancelled" else None
    return Outcome(
        execution_id=state.execution_id,
        status=status,
        value=value,
        failure=failure_from(state.facts.failure) if state.facts.failure else None,
        gates=tuple(open_gates(state)),
        wake_at=state.facts.wake_at,
        length=state.length,
        reason=cancel.payload.reason if cancel is not None else state.facts.why,
    )
