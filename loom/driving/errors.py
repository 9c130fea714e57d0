"""What the verbs refuse, beside what the kernel does. The tree of all errors is drawn in loom/kernel/errors.py."""

from __future__ import annotations

from collections.abc import Sequence

from loom.core.errors import LoomError


class Denied(LoomError):
    """The app's authorizer does not let *principal* do that. The refusal stands on the log; nothing else happened."""

    code = "denied"
    hint = "Act as somebody who may, or have it allowed by the authorizer of the app."

    def __init__(self, *, execution_id: str, action: str, principal: str | None, reason: str) -> None:
        self.execution_id, self.action, self.principal, self.reason = execution_id, action, principal, reason
        super().__init__(f"{principal or 'nobody in particular'} may not {action} {execution_id}: {reason}")


class ExecutionNotFailed(LoomError):
    """Only a failed execution can be retried."""

    code = "execution-not-failed"
    hint = "`loom resume` goes on with a run that waits or was cut off."

    def __init__(self, *, execution_id: str, status: str) -> None:
        self.execution_id, self.status = execution_id, status
        super().__init__(f"{execution_id} is {status}, not failed, so there is nothing to retry")


class ExecutionCompensated(LoomError):
    """What a retry would go on from was undone by a saga."""

    code = "execution-compensated"
    hint = "Start it anew, under another id."

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"{execution_id} undid what it had done before it failed, so a retry has nothing to build on")


class ExecutionNotPaused(LoomError):
    """Only a paused execution can be unpaused."""

    code = "execution-not-paused"
    hint = "`loom resume` goes on with a run that waits or was cut off."

    def __init__(self, *, execution_id: str, status: str) -> None:
        self.execution_id, self.status = execution_id, status
        super().__init__(f"{execution_id} is {status}, not paused")


class DecisionNotFound(LoomError):
    """No decision of the run has this address, or several have; they are listed."""

    code = "decision-not-found"

    def __init__(self, *, execution_id: str, decision: str, decisions: Sequence[str], fitting: Sequence[str]) -> None:
        self.execution_id, self.decision = execution_id, decision
        self.decisions, self.fitting = tuple(decisions), tuple(fitting)
        self.hint = f"Name one of these: {', '.join(fitting or decisions)}." if decisions else "It has decided nothing."
        found = f"{len(fitting)} decisions of {execution_id} are" if fitting else f"no decision of {execution_id} is"
        super().__init__(f"{found} called {decision!r}")
