"""A sweep of contents at the terminal: where they are, how far it has come, and stopped by Ctrl-C between two pages."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Final

from loom.core.retention import PinPredicate
from loom.services.ageing import SweepTally
from loom.services.sweeping import ContentSweep
from loom_cli.cli import Cli
from loom_cli.content_places import content_places
from loom_cli.exits import ExitCode
from loom_cli.interrupting import Interruption
from loom_cli.sweeping import SweepPass, sweep_lines
from loom_cli.wording import counted

TOLD_EVERY_S: Final = 2.0


class SweepRun:
    """One sweep, by a TTL; it tells how far it is, unless it is to be *quiet*."""

    def __init__(self, cli: Cli, ttl: timedelta, *, pins: PinPredicate | None, dry_run: bool, quiet: bool) -> None:
        self._cli, self._ttl, self._pins, self._dry_run, self._quiet = cli, ttl, pins, dry_run, quiet
        self._sweep: ContentSweep | None = None
        self._url, self._told_at = "", time.monotonic()
        self._interruption = Interruption(softly=self._stop, heard=self._heard, leaving=self._leaving)

    def run(self, *, app: str | None, store: str | None) -> SweepPass:
        """Carry it out, and return what came of it.

        Raises:
            StoreNotFound: there are no logs; nothing was looked at.
            ContentNotWired, StoreError: what was removed so far is; each content is there whole, or gone whole.
        """
        try:
            with self._interruption.handling():
                self._cli.run(self._interruption.watch(self._work(app, store)))
        except asyncio.CancelledError:
            if not self._interruption.count:
                raise
        return self._done()

    async def _work(self, app: str | None, store: str | None) -> None:
        async with content_places(self._cli, app=app, store=store) as (logs, contents):
            self._url = contents.url
            await logs.open()  # where there are none, every run would seem to be gone
            ttl_ms = self._ttl // timedelta(milliseconds=1)
            self._sweep = ContentSweep(contents, logs, ttl_ms=ttl_ms, dry_run=self._dry_run, pins=self._pins)
            await self._sweep.run(told=self._tell)

    def _tell(self, tally: SweepTally) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            looked = counted(tally.looked_at, "content", "contents")
            self._cli.screen.note(f"looked at {looked} so far, {tally.removed:,} to go")
            self._cli.screen.err.flush()

    def _stop(self) -> None:
        if self._sweep is not None:
            self._sweep.stop()

    def _heard(self, count: int) -> None:
        self._cli.screen.note("stopping after this page" if count == 1 else "stopping at once")

    def _done(self) -> SweepPass:
        sweep, interrupted = self._sweep, self._interruption.count > 0
        before, tally = (sweep.before, sweep.tally) if sweep is not None else (0, SweepTally())
        return SweepPass(self._url, self._ttl, before, self._dry_run, tally, interrupted)

    def _leaving(self) -> ExitCode:
        for line in sweep_lines(self._done()):
            self._cli.screen.note(line)
        return ExitCode.INTERRUPTED
