"""Compaction at the terminal: over which runs, how far it has come, and stopped by Ctrl-C between two of them."""

from __future__ import annotations

import asyncio
from collections import deque

from loom.core.errors import LoomError
from loom.services.archiving import refuse_itself
from loom.services.compacting import Compacted, Wish, compact
from loom.spi.archive_store import ArchiveStore
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom_cli.bars import Bar
from loom_cli.cli import Cli
from loom_cli.compacting import COLUMNS, cells, compacted_json, summary
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode, exit_code_of_error
from loom_cli.ids import meant_id
from loom_cli.interrupting import Interruption
from loom_cli.replays import Meant, rows_where
from loom_cli.screen import Styled
from loom_cli.wording import counted

LINKS_MAX = 100_000
"""So many links of a chain are compacted with it, the newest."""


class CompactionPass:
    """Compacts runs one after the other, to *archive* (None in a dry run)."""

    def __init__(self, cli: Cli, wish: Wish, archive: ArchiveStore | None, *, quiet: bool, as_json: bool) -> None:
        self._cli, self._wish, self._archive = cli, wish, archive
        self._quiet, self._as_json = quiet or as_json, as_json
        self._left: deque[ExecutionRow] = deque()
        self._done: list[Compacted] = []
        self._errors: list[LoomError] = []
        self._bar = Bar(cli.screen, doing="compacting", done="compacted")
        self._is_stopped = False
        self._interruption = Interruption(softly=self._stop, heard=self._heard, leaving=self._leaving)

    def run(self, meant: Meant, store: str | None, *, yes: bool) -> ExitCode:
        """Carry it out for the runs that are meant, and tell what came of it.

        Raises:
            Usage: nobody is there to say whether to begin.
            ExecutionNotFound, AmbiguousExecution: an id is none.
            StoreError: a store cannot be used; what was moved is moved, and each run is whole.
        """
        try:
            with self._interruption.handling():
                self._cli.run(self._interruption.watch(self._work(meant, store, yes=yes)))
        except asyncio.CancelledError:
            if not self._interruption.count:
                raise
        finally:
            self._bar.end()
        return self._tell()

    async def _work(self, meant: Meant, store: str | None, *, yes: bool) -> None:
        if self._wish.dry_run:
            reader = self._cli.reader(store)
            try:
                await self._all(reader, meant, yes=True)
            finally:
                await reader.close()
            return
        async with self._cli.writer(store) as writer:
            assert self._archive is not None
            try:
                await self._all(writer, meant, yes=yes or meant.where is None)
            finally:
                await self._archive.close()

    async def _all(self, storage: Storage, meant: Meant, *, yes: bool) -> None:
        self._left.extend(await _rows(storage, meant))
        if self._archive is not None:
            await self._archive.open()  # before anything is asked: one that cannot be used is of no use
            await refuse_itself(storage, self._archive)
        if not yes and self._left and not self._is_agreed():
            self._left.clear()
            self._cli.screen.note("nothing was done")
            return
        self._bar.begin(len(self._left), quiet=self._quiet)
        while self._left and not self._is_stopped:
            row = self._left.popleft()
            try:
                done = await compact(storage, self._archive, row, self._wish)
            except StoreUnavailable:
                raise
            except LoomError as error:
                if meant.where is None and len(meant.ids) == 1:
                    raise
                self._errors.append(error)
                self._bar.step(failed=True)
                continue
            self._done.append(done)
            if self._as_json:
                self._cli.screen.json(compacted_json(done, dry_run=self._wish.dry_run), indent=None)
                self._cli.screen.flush()
            self._bar.step()

    def _is_agreed(self) -> bool:
        screen, many = self._cli.screen, counted(len(self._left), "run", "runs")
        if not screen.interactive:
            raise Usage(
                f"compact {many}: nobody is there to ask", hint="--yes goes on, --dry-run says what it comes to"
            )
        screen.note(f"compact {many}")
        screen.err.flush()
        try:
            return input("  go on? [no] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False

    def _stop(self) -> None:
        self._is_stopped = True

    def _heard(self, count: int) -> None:
        self._bar.say("stopping after this run" if count == 1 else "stopping at once")

    def _leaving(self) -> ExitCode:
        self._bar.end()
        return self._tell()

    def _tell(self) -> ExitCode:
        screen, done = self._cli.screen, self._done
        if not self._as_json and done:
            screen.table(COLUMNS, [cells(each) for each in done])
        for error in self._errors:
            screen.note(Styled(screen.sign("failed"), "red"), f" {error}")
        screen.note(summary(done, failed=len(self._errors), left=len(self._left), dry_run=self._wish.dry_run))
        screen.flush()
        if self._interruption.count:
            return ExitCode.INTERRUPTED
        return exit_code_of_error(self._errors[0]) if self._errors else ExitCode.DONE


async def _rows(storage: Storage, meant: Meant) -> list[ExecutionRow]:
    """Return the rows of the runs that are meant, the oldest first; the first link of a chain means all of it."""
    if meant.where is not None:
        return [row async for row in rows_where(storage, meant.where)][::-1]
    rows: dict[str, ExecutionRow] = {}
    for text in meant.ids:
        row = await storage.row(await meant_id(storage, text))
        links = [] if row is None else [row]
        if row is not None and row.index.link == 1:
            links = list(await storage.find(ExecutionQuery(chain=row.execution_id, limit=LINKS_MAX)))[::-1]
        rows |= {each.execution_id: each for each in links}
    return list(rows.values())
