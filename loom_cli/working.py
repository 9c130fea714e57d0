"""A worker as a command: under signals, with a line for what it does, until it is stopped."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from loom import values
from loom.services.piling import PILE
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.interrupting import Interruption, end_children
from loom_cli.readable import readable
from loom_cli.safe_text import safe
from loom_cli.screen import STATUS_STYLES, Styled
from loom_cli.wording import crowded_words

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom.app.work import WorkOptions
    from loom.services.worker import Report, Worker


_FOUND: Final = {"lapsed": "its lease had lapsed", "gone": "its process is gone", "released": "it was let go"}
_DID: Final = {
    "lost": ("is driven by another, and left to it", "running"),
    "left": ("was stopped where it stood; nothing committed is lost", "running"),
    "refused": ("cannot be driven here, and is left as it was: {}", "diverged"),
    "ticked": ("was started by its schedule", "running"),
    "failing": ("{}; it is tried again", "failed"),
    "recovered": ("the store answers again", "running"),
    "unknown": ("runs of {} wait, and this app has no such flow: they are left to a worker that has it", "diverged"),
}

_PARKED: Final = frozenset({"suspended", "paused", "in_doubt"})
_PARKED_MAX: Final = 10_000


def report_json(report: Report, now_ms: int) -> dict[str, Any]:
    """Return what a worker did in the shape of docs/reference/json.md."""
    outcome, error = report.outcome, report.error
    return {
        "at": now_ms,
        "did": report.did,
        "id": report.execution_id or None,
        "flow": report.flow or None,
        "found": report.claim.found if report.claim is not None else None,
        "status": outcome.status if outcome is not None else None,
        "result": _plain(outcome.value) if outcome is not None and outcome.status == "completed" else None,
        "wake_at": outcome.wake_at if outcome is not None else None,
        "error": {"code": error.code, "message": str(error)} if error is not None else None,
    }


def opening_words(store: str) -> str:
    """Return what a worker says first: on which *store* it works."""
    return f"working on {store}"


def report_words(report: Report) -> tuple[str, str]:
    """Return what is said of a report, and the status whose style it has; nothing for what is of no interest."""
    if report.outcome is not None:
        return report.outcome.status.replace("_", " "), report.outcome.status
    if report.did == "took":
        found = _FOUND.get(report.claim.found if report.claim is not None else "due", "")
        return (f"is taken over: {found}", "running") if found else ("", "")
    if report.did == "crowded":
        return crowded_words(report.flow, PILE), "suspended"
    words, status = _DID[report.did]
    return words.format(report.error or safe(report.flow)), status


def _plain(value: Any) -> Any:
    try:
        plain = values.plain(value)
        json.dumps(plain, allow_nan=False)
    except ValueError:
        return readable(values.encode(value))
    return plain


class Parked:
    """How runs that are parked stood when that was told last: one that is only looked at again is not worth a line."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, int]] = {}

    def is_told(self, report: Report) -> bool:
        """Return whether it was told before that the run of *report* stands so, with the log that it has; it is told now."""
        outcome = report.outcome
        if outcome is None:
            return False
        stands = outcome.status, outcome.length
        is_told = self._told.pop(report.execution_id, None) == stands
        if outcome.status in _PARKED:
            if len(self._told) >= _PARKED_MAX:
                self._told.pop(next(iter(self._told)))
            self._told[report.execution_id] = stands
        return is_told


class Working:
    """Runs the worker of *app* until a signal stops it."""

    def __init__(self, cli: Cli, app: LoomApp, *, quiet: bool, as_json: bool) -> None:
        self._cli, self._app, self._quiet, self._as_json = cli, app, quiet, as_json
        self._worker: Worker | None = None
        self._parked = Parked()
        self._interruption = Interruption(softly=self._softly, heard=self._heard, leaving=lambda: ExitCode.INTERRUPTED)

    def run(self, options: WorkOptions) -> ExitCode:
        """Work until stopped: 0 after the first signal, 130 if it had to be cut short by a second."""
        options["told"] = self._told
        worker = self._worker = self._app.worker(**options)
        if not self._quiet:
            self._cli.screen.note(Styled(opening_words(self._app.storage.url), "bold"))
        try:
            with self._interruption.handling():
                self._cli.run(self._interruption.watch(self._run(worker)))
        except (KeyboardInterrupt, asyncio.CancelledError):
            end_children()
            return ExitCode.INTERRUPTED
        return ExitCode.DONE

    async def _run(self, worker: Worker) -> None:
        async with self._app:
            await worker.run()

    def _softly(self) -> None:
        assert self._worker is not None
        self._worker.stop()
        self._app.runtime.interrupt()

    def _heard(self, count: int) -> None:
        if not self._quiet:
            self._cli.screen.note("stopping at once" if count > 1 else "stopping; again to stop at once")

    def _told(self, report: Report) -> None:
        if self._as_json:
            self._cli.screen.json(report_json(report, self._cli.now_ms()), indent=None)
            self._cli.screen.flush()
        words, status = report_words(report)
        is_trouble = report.did in ("refused", "failing", "recovered", "crowded", "unknown")
        if words and (is_trouble or not self._quiet) and not self._parked.is_told(report):
            about = [report.execution_id, " "] if report.execution_id else []
            self._cli.screen.note(*about, Styled(words, STATUS_STYLES.get(status, "")))
