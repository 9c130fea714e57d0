"""A standby of a server: it follows, can be read, and cannot be written."""

from __future__ import annotations

import asyncio
import shutil
from typing import Final

from tests.plugins.postgres.server import Server

PATIENCE_S: Final = 30.0


class Standby:
    """A hot standby of *primary*, below its folder; it must be stopped before its primary is."""

    def __init__(self, primary: Server) -> None:
        self._primary, self._folder = primary, primary.home / "standby"
        self._folder.mkdir()
        primary.give_away(self._folder)
        self._data = self._folder / "data"
        primary.run("pg_basebackup", "-D", self._data, "-h", primary.home, "-U", "postgres", "-R", "-c", "fast")
        options = f"-k {self._folder} -h '' -c shared_buffers=32MB -c fsync=off"
        primary.run("pg_ctl", "-w", "-D", self._data, "-l", self._folder / "log", "-o", options, "start")

    def of(self, dsn: str) -> str:
        """Return how the copy of the database of *dsn* is reached."""
        return dsn.replace(str(self._primary.home), str(self._folder))

    async def catch_up(self) -> None:
        """Return once all that the primary has committed is here."""
        [[upto]] = await self._primary.execute("SELECT pg_current_wal_lsn()::text")
        behind = "SELECT coalesce(pg_last_wal_replay_lsn() < $1::text::pg_lsn, true)"
        async with asyncio.timeout(PATIENCE_S):
            while (await self._primary.execute(behind, upto, dsn=self.of(self._primary.dsn("postgres"))))[0][0]:
                await asyncio.sleep(0.02)

    def remove(self) -> None:
        """Stop it, and delete all that it has."""
        self._primary.run("pg_ctl", "-w", "-D", self._data, "-m", "immediate", "stop", check=False)
        shutil.rmtree(self._folder)
