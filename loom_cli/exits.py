"""What the process says to the shell: one status for each way a command can end."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """The exit statuses of every command."""

    DONE = 0
    FAILED = 1
    """The run failed or was cancelled, a check found something, or the store refused."""
    USAGE = 2
    """Wrong usage, invalid input, a refused answer, an app that cannot be used."""
    WAITING = 3
    """The run is suspended, in doubt or diverged, or its code has changed: somebody has to do something."""
    NOT_FOUND = 4
    INTERRUPTED = 130
    """Stopped by a signal; what was committed is kept, and a run can be resumed."""


_BY_ERROR: Final = {
    "archive-is-the-store": ExitCode.USAGE,
    "already-answered": ExitCode.USAGE,
    "approval-mismatch": ExitCode.USAGE,
    "code-changed": ExitCode.WAITING,
    "code-not-present": ExitCode.USAGE,
    "secret-too-short": ExitCode.USAGE,
    "content-missing": ExitCode.NOT_FOUND,
    "content-not-wired": ExitCode.USAGE,
    "compacted-fork-point": ExitCode.USAGE,
    "decision-not-found": ExitCode.NOT_FOUND,
    "denied": ExitCode.USAGE,
    "duplicate-id": ExitCode.USAGE,
    "event-not-there": ExitCode.USAGE,
    "event-stays": ExitCode.USAGE,
    "children-cancelled": ExitCode.USAGE,
    "execution-compensated": ExitCode.USAGE,
    "doubt-ambiguous": ExitCode.USAGE,
    "execution-driven": ExitCode.USAGE,
    "execution-ended": ExitCode.USAGE,
    "execution-not-failed": ExitCode.USAGE,
    "execution-not-paused": ExitCode.USAGE,
    "execution-not-found": ExitCode.NOT_FOUND,
    "gate-ambiguous": ExitCode.USAGE,
    "file-there": ExitCode.USAGE,
    "flow-not-declared": ExitCode.NOT_FOUND,
    "gate-not-open": ExitCode.USAGE,
    "interrupted": ExitCode.INTERRUPTED,
    "invalid-declaration": ExitCode.USAGE,
    "invalid-id": ExitCode.USAGE,
    "invalid-payload": ExitCode.USAGE,
    "fork-refused": ExitCode.USAGE,
    "simulation-refused": ExitCode.USAGE,
    "not-simulated": ExitCode.WAITING,
    "not-recorded": ExitCode.WAITING,
    "log-compacted": ExitCode.USAGE,
    "name-refused": ExitCode.USAGE,
    "no-value": ExitCode.USAGE,
    "not-a-bundle": ExitCode.USAGE,
    "not-in-doubt": ExitCode.USAGE,
    "not-serializable": ExitCode.USAGE,  # an input or an answer: what a step returns fails the run
    "redaction-refused": ExitCode.USAGE,
    "replay-divergence": ExitCode.WAITING,
    "source-invalid": ExitCode.USAGE,
    "store-not-found": ExitCode.NOT_FOUND,
    "unknown-flow": ExitCode.NOT_FOUND,
    "unknown-read-model": ExitCode.NOT_FOUND,
    "value-too-large": ExitCode.USAGE,  # an input or an answer, as with not-serializable
    "where-invalid": ExitCode.USAGE,
}
"""By the stable code of an error; all others are `FAILED`. By code and not by class, so that nothing is imported."""

_BY_STATUS: Final = {
    "failed": ExitCode.FAILED,
    "cancelled": ExitCode.FAILED,
    "suspended": ExitCode.WAITING,
    "paused": ExitCode.WAITING,
    "in_doubt": ExitCode.WAITING,
    "diverged": ExitCode.WAITING,
    "forked": ExitCode.WAITING,
}


def exit_code_of_error(error: BaseException) -> ExitCode:
    """Return the status for *error*: its own `exit_code`, else that of its `code`, else `FAILED`."""
    own = getattr(error, "exit_code", None)
    if isinstance(own, ExitCode):
        return own
    return _BY_ERROR.get(getattr(error, "code", ""), ExitCode.FAILED)


def exit_code_of_status(status: str) -> ExitCode:
    """Return the status for a run that stands so after a verb; one that goes on elsewhere is `DONE`."""
    return _BY_STATUS.get(status, ExitCode.DONE)
