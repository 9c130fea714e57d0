"""Showing a run that somebody else drives: the changes of its log, each as it becomes durable."""

from __future__ import annotations

import asyncio
from typing import Any

from loom.coordination.live_query import Change, Changes
from loom.core.outcome import outcome_of
from loom.core.state import ExecutionState
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode, exit_code_of_status
from loom_cli.hints import Hints
from loom_cli.ids import meant_id
from loom_cli.outcomes import Teller, outcome_json
from loom_cli.progress import progress_of
from loom_cli.readable import readable
from loom_cli.watching import Silent, Watcher, watcher_for


class Live:
    """Shows one run of a store until it has ended. What changes is the result of the command, and goes to stdout."""

    def __init__(self, cli: Cli, store: str | None, *, as_json: bool) -> None:
        self._cli, self._store, self._as_json = cli, store, as_json
        self._screen = cli.screen.of_results()
        self._watcher: Watcher = Silent(self._screen, progress_of(()))
        self._task: asyncio.Task[Any] | None = None

    async def run(self, text: str) -> ExitCode:
        """Show every change of the run that *text* means, and how it has ended."""
        self._task = asyncio.current_task()
        storage = self._cli.reader(self._store)
        run_id = await meant_id(storage, text)
        changes = Changes(storage, run_id)
        async for change in changes:
            self._show(change, changes.before)
        assert changes.state is not None
        self._tell(changes.state)
        return exit_code_of_status(changes.state.status)

    def _show(self, change: Change, before: ExecutionState) -> None:
        if self._as_json:
            self._cli.screen.json(state_line(change), indent=None)
            self._cli.screen.flush()
            return
        known = self._watcher.progress.state
        if change.event.sequence == 0 or known.length != before.length:  # a log begins, or events of it were moved away
            self._watcher.end()
            progress = progress_of((), base=before if before.length else None)
            self._watcher = watcher_for(self._screen, progress, self._cli.now_ms, quiet=False)
            self._watcher.say(f"{change.event.execution_id} {'goes on' if before.length else 'started'}", "bold")
        self._watcher.event(change.event)

    def _tell(self, state: ExecutionState) -> None:
        self.end()
        if not self._as_json:
            hints = Hints(state.execution_id, store=self._store)
            teller = Teller(self._screen, hints, self._cli.now_ms)
            teller.outcome(state, outcome_of(state, readable(state.facts.result)))

    def stop(self) -> None:
        """Stop watching; the run goes on."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Give the terminal back."""
        self._watcher.end()

    def left(self) -> ExitCode:
        """Give the terminal back before the process is ended the hard way, and return its status."""
        self.end()
        return ExitCode.INTERRUPTED


def state_line(change: Change) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md: the state after one event, and which event that was."""
    event, state = change
    about = {"sequence": event.sequence, "at": event.at, "event": event.type}
    return about | outcome_json(state, outcome_of(state, state.facts.result))
