"""What `loom import` does, and what it says of what it brought in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loom.app.config import content_of
from loom.plugins.bundle import BundleStorage
from loom.plugins.bundle.importing import Imported, Importing, Phase
from loom.spi.content_store import ContentStore
from loom.spi.event_store import Storage
from loom_cli.bars import Bar
from loom_cli.cli import Cli
from loom_cli.errors import AppNotFound
from loom_cli.exits import ExitCode
from loom_cli.principals import principal_of
from loom_cli.screen import Screen
from loom_cli.wording import counted

_SHOWN_MAX: Final = 5
_TOLD_FROM: Final = 5_000
"""From so many events on it is told how far an import has come."""
_DONE: Final[Mapping[Phase, str]] = {"reading": "read", "writing": "wrote"}


class Import:
    """One bundle on its way into a store; *app* and *store* are as on the command line."""

    def __init__(self, cli: Cli, *, app: str | None, store: str | None) -> None:
        self._cli, self._app, self._store = cli, app, store

    def run(self, file: Path, principal: str | None, *, as_json: bool) -> ExitCode:
        """Bring it in, and say what became of its runs."""
        screen, acting = self._cli.screen, principal_of(principal)
        target, contents = self._places()
        bars = Bars(screen, quiet=as_json)
        try:
            imported = self._cli.run(_imported(BundleStorage(file), target, contents, principal=acting, bars=bars))
        finally:
            bars.end()
        if as_json:
            screen.json(imported_json(imported, file=file, store=target.url))
            return ExitCode.DONE
        screen.line(imported_words(imported, target.url))
        screen.flush()
        if ended := [log.execution_id for log in imported.logs if log.is_ended_here]:
            screen.note(ended_words(ended))
        return ExitCode.DONE

    def _places(self) -> tuple[Storage, ContentStore | None]:
        """Return the store and where its contents go: the app is asked where it is named, or there and no store is named."""
        if self._app is not None or self._store is None:
            try:
                loaded = self._cli.app(self._app, store=self._store)
            except AppNotFound:
                if self._app is not None:
                    raise
            else:
                return loaded.storage, loaded.content
        storage = self._cli.made(self._store)
        return storage, content_of(storage)


class Bars:
    """How far an import has come: with reading, and then with writing. What is done in a moment is not told."""

    def __init__(self, screen: Screen, *, quiet: bool) -> None:
        self._screen, self._is_quiet, self._events = screen, quiet, 0
        self._phase, self._bar = "", Bar(screen, doing="importing", done="imported")

    def begin(self, events: int) -> None:
        """There are *events* in the bundle."""
        self._events, self._is_quiet = events, self._is_quiet or events < _TOLD_FROM

    def told(self, phase: Phase, events: int) -> None:
        """So many *events* more were read, or written."""
        if phase != self._phase:
            self._bar.end()
            self._phase, self._bar = phase, Bar(self._screen, doing=f"{phase} events", done=_DONE[phase])
            self._bar.begin(self._events, quiet=self._is_quiet)
        self._bar.step(by=events)

    def end(self) -> None:
        """Take the bar away."""
        self._bar.end()


async def _imported(
    bundle: BundleStorage, target: Storage, contents: ContentStore | None, *, principal: str | None, bars: Bars
) -> Imported:
    await bundle.open()
    bars.begin(sum(log.row.length for log in bundle.file.manifest.logs))
    try:
        return await Importing(bundle, target, contents, principal=principal, told=bars.told).run()
    finally:
        for each in (contents, target, bundle):
            if each is not None:
                await each.close()


def imported_json(imported: Imported, *, file: Path, store: str) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    logs = [
        {
            "id": log.execution_id,
            "status": log.status,
            "length": log.length,
            "became": log.became,
            "ended_here": log.is_ended_here,
        }
        for log in imported.logs
    ]
    return {"file": str(file), "store": store, "logs": logs, "contents": imported.contents}


def ended_words(ids: Sequence[str]) -> str:
    """Return what is to be said of runs that had not ended."""
    if len(ids) == 1:
        return f"{ids[0]} had not ended: here it ends as imported, and a fork of it goes on"
    shown = ", ".join(ids[:_SHOWN_MAX]) + (", ..." if len(ids) > _SHOWN_MAX else "")
    return f"{len(ids)} runs had not ended: here they end as imported, and forks of them go on ({shown})"


def imported_words(imported: Imported, store: str) -> str:
    """Return the same for people, in one line."""
    new = [log for log in imported.logs if log.became == "imported"]
    there = len(imported.logs) - len(new)
    events = sum(log.length for log in new)
    brought = f"brought {counted(len(new), 'log', 'logs')} ({counted(events, 'event', 'events')}) into {store}"
    if not there:
        return brought
    told = f"{counted(there, 'log was', 'logs were')} there already"
    return f"{brought}; {told}" if new else f"nothing to do: {told}, in {store}"
