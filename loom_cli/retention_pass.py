"""A retention pass at the terminal: over which store, how far it has come, and stopped by Ctrl-C between two transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from loom.core.retention import PinPredicate
from loom.services.expiry import Tally
from loom.services.retention import Retention
from loom.services.snapshot_pruning import Pruned, prune_snapshots
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.interrupting import Interruption
from loom_cli.retaining import Pass, lines_of
from loom_cli.wording import counted

TOLD_EVERY_S: Final = 2.0


class RetentionPass:
    """One pass, by a TTL; it tells how far it is, unless it is to be *quiet*."""

    def __init__(
        self,
        cli: Cli,
        ttl: timedelta,
        *,
        dry_run: bool,
        runs_max: int | None,
        quiet: bool,
        pins: PinPredicate | None = None,
        snapshots: int | None = None,
        archive: ArchiveStore | None = None,
    ) -> None:
        self._archive = archive
        self._pins, self._snapshots = pins, snapshots
        self._pruning: asyncio.Future[Pruned] | None = None
        self._pruned: Pruned | None = None
        self._cli, self._ttl, self._dry_run, self._runs_max, self._quiet = cli, ttl, dry_run, runs_max, quiet
        self._retention: Retention | None = None
        self._url, self._told_at = "", time.monotonic()
        self._interruption = Interruption(softly=self._stop, heard=self._heard, leaving=self._leaving)

    def run(self, store: str | None) -> Pass:
        """Carry it out, and return what came of it.

        Raises:
            RetentionNotPossible, StoreError: what was done so far is done; each family is there whole, or gone whole.
        """
        try:
            with self._interruption.handling():
                self._cli.run(self._interruption.watch(self._work(store)))
        except asyncio.CancelledError:
            if not self._interruption.count:
                raise
        return self._done()

    async def _work(self, store: str | None) -> None:
        if self._dry_run:
            reader = self._cli.reader(store)
            try:
                await self._pass(reader)
            finally:
                await reader.close()
        else:
            async with self._cli.writer(store) as writer, _open(self._archive):
                await self._pass(writer)

    async def _pass(self, storage: Storage) -> None:
        self._url = storage.url
        if self._snapshots is not None:
            await self._prune(storage, self._snapshots)
        if self._interruption.count:
            return
        ttl_ms = self._ttl // timedelta(milliseconds=1)
        self._retention = Retention(
            storage,
            ttl_ms=ttl_ms,
            dry_run=self._dry_run,
            runs_max=self._runs_max,
            pins=self._pins,
            archive=self._archive,
        )
        await self._retention.run(told=self._tell)

    async def _prune(self, storage: Storage, keep: int) -> None:
        """Prune snapshots before runs are deleted, so that a dry run counts the same ones; what is pruned when it is cut off is."""
        self._pruning = asyncio.ensure_future(prune_snapshots(storage, keep=keep, dry_run=self._dry_run))
        try:
            self._pruned = await self._pruning
        except asyncio.CancelledError:
            if not self._interruption.count:
                raise

    def _tell(self, tally: Tally) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            did = "looked at" if self._dry_run else "deleted"
            self._cli.screen.note(f"{did} {counted(tally.runs, 'run', 'runs')} so far")
            self._cli.screen.err.flush()

    def _stop(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
        if self._retention is not None:
            self._retention.stop()

    def _heard(self, count: int) -> None:
        self._cli.screen.note("stopping after this transaction" if count == 1 else "stopping at once")

    def _done(self) -> Pass:
        retention, interrupted = self._retention, self._interruption.count > 0
        before, tally = (retention.before, retention.tally) if retention is not None else (0, Tally())
        return Pass(self._url, self._ttl, before, self._dry_run, tally, interrupted, self._pruned)

    def _leaving(self) -> ExitCode:
        for line in lines_of(self._done()):
            self._cli.screen.note(line)
        return ExitCode.INTERRUPTED


@asynccontextmanager
async def _open(archive: ArchiveStore | None) -> AsyncIterator[None]:
    if archive is None:
        yield
        return
    await archive.open()
    try:
        yield
    finally:
        await archive.close()
