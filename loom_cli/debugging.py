"""Opening the debugger: is there a terminal, and is what draws on it installed?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from loom.kernel.codec import decode_events
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.errors import CommandRefused, Usage
from loom_cli.exits import ExitCode
from loom_cli.hints import Hints
from loom_cli.tui.exporting import view_json
from loom_cli.tui.loading import opened, rest
from loom_cli.tui.model import Model, at_event
from loom_cli.tui.open_log import OpenLog
from loom_cli.watching import is_terminal

_DRAWN_A_SECOND: Final = "120"
"""Textual draws so often at most, and reads it when it is imported. A key waits half as long for its turn as by its own 60."""


async def _read(storage: Storage, text: str) -> OpenLog:
    """Return the whole log of the run that *text* means."""
    log = await opened(storage, text)
    if not log.is_read:
        async with aclosing(rest(storage, log)) as pages:
            async for page in pages:
                log.add(decode_events(log.run_id, page))
    return log


class NotInstalled(CommandRefused):
    """What the debugger draws with is not installed."""

    code = "extra-missing"
    hint = "pip install 'loom-runtime[debug]'"

    def __init__(self) -> None:
        super().__init__("loom debug draws with textual, which is not installed")


class Debugging:
    """Opens the debugger for a command."""

    def __init__(self, cli: Cli, *, app: str | None, store: str | None, principal: str | None) -> None:
        self._cli, self._app, self._store = cli, app, store
        self._principal = principal

    def look(self, text: str, at: int | None, against: int | None) -> ExitCode:
        """Show the run that *text* means until somebody leaves.

        Raises:
            Usage: there is no terminal to show it on.
            NotInstalled: textual is not.
            ExecutionNotFound, AmbiguousExecution: *text* means none, or several.
        """
        self._require_terminal(text, at)
        debugger = self._debugger(text, at, against)
        debugger.run()
        if debugger.failure is not None:
            raise debugger.failure
        return ExitCode.DONE

    def print(self, text: str, at: int | None, against: int | None) -> ExitCode:
        """Print what there is to see of the run that *text* means after event *at*, compared with that after *against*.

        Raises:
            Usage: there is no such event.
            LogCompacted: it was moved to an archive.
        """
        log = self._cli.run(_read(self._cli.reader(self._store), text))
        if log.problem is not None:
            raise log.problem
        for flag, number in (("--at", at), ("--against", against)):
            if number is not None and number > log.moments.last:
                raise Usage(f"there is no event {number}", hint=f"{flag} {log.moments.last} is the last one")
            if number is not None:
                log.require_known(number)
        model = at_event(Model(), log, len(log.rows) - 1 if at is None else log.index(at))
        mark = None if against is None else log.index(against)
        self._cli.screen.json(view_json(log, replace(model, mark=mark)))
        return ExitCode.DONE

    def _require_terminal(self, text: str, at: int | None) -> None:
        streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
        if self._cli.screen.interactive and all(map(is_terminal, streams)) and os.environ.get("TERM") != "dumb":
            return
        number = "N" if at is None else str(at)
        hint = f"{Hints(text, store=self._store).command('show', f'--at {number}')} prints how it stood after an event"
        raise Usage("loom debug needs a terminal", hint=hint)

    def _debugger(self, text: str, at: int | None, against: int | None) -> Any:
        os.environ.setdefault("TEXTUAL_FPS", _DRAWN_A_SECOND)
        try:
            import textual  # noqa: F401
        except ModuleNotFoundError as missing:
            raise NotInstalled from missing
        from loom_cli.tui.acting import Wired
        from loom_cli.tui.app import Debugger

        now_ms: Callable[[], int] = self._cli.now_ms
        wired = Wired(self._app, self._store, self._principal)
        return Debugger(
            self._cli.reader(self._store),
            text,
            at=at,
            against=against,
            now_ms=now_ms,
            folder=self._cli.folder,
            wired=wired,
        )
