"""The world outside: a small fleet, its metrics and its deploys, in one SQLite file. What is done to it changes how it does.

The fleet is as careless as a real one: nothing here would stop a second roll back, and each leaves a row.
To look into it: python fleet.py
"""

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from models import Deploy, Health, Pool, Rate
from physics import Traits, health

DATA = Path(__file__).parent / "data" / "fleet.db"
DEFAULT_PATH = Path(".loom/fleet.db")

TRUE_TRAITS = {"v41": Traits(errors=0.002, cpu_ms=2.6), "v42": Traits(errors=0.09, cpu_ms=3.9)}
"""What the versions are like. The war room does not know: it has metrics."""

POOLS = """
    SELECT zone, version, count(*) FROM hosts WHERE service = ? AND in_service GROUP BY zone, version ORDER BY zone, version
"""
RATES = """
    SELECT {by}, 100.0 * sum(failed) / sum(requests), avg(cpu) FROM metrics
    WHERE service = ? AND minute BETWEEN ? AND ? GROUP BY {by} ORDER BY {by}
"""


class Act(NamedTuple):
    """What was done to the fleet, for which incident, under which key."""

    incident: str
    what: str
    detail: str
    key: str


class Fleet:
    """The fleet in the file at *path*, which is made as a copy of the shipped one when it is changed first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Fleet"]:
        """Make what is missing: the app does this once a process, when a first run needs it."""
        self.create()
        yield self

    def create(self) -> None:
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(DATA, self.path)

    # What is measured

    def pools(self, service: str) -> list[Pool]:
        """Return the hosts that are in service now."""
        return [Pool(*row) for row in self._read(POOLS, service)]

    def rates(self, service: str, by: str, minutes: tuple[int, int]) -> list[Rate]:
        """Return what metrics say of each version, or of each zone, in these minutes."""
        rows = self._read(RATES.format(by={"version": "version", "zone": "zone"}[by]), service, *minutes)
        return [Rate(name, round(errors, 2), round(cpu, 3)) for name, errors, cpu in rows]

    def traffic_rps(self, service: str, minutes: tuple[int, int]) -> float:
        query = "SELECT sum(requests) / 60.0 / count(DISTINCT minute) FROM metrics WHERE service = ? AND minute BETWEEN ? AND ?"
        return round(float(self._read(query, service, *minutes)[0][0]), 1)

    def last_minute(self, service: str) -> int:
        return int(self._read("SELECT max(minute) FROM metrics WHERE service = ?", service)[0][0])

    def deploys(self, service: str, *, since: int) -> list[Deploy]:
        query = "SELECT version, minute, by FROM deploys WHERE service = ? AND minute >= ? ORDER BY minute"
        return [Deploy(*row) for row in self._read(query, service, since)]

    def health(self, service: str) -> Health:
        """Return how the service does now: that of the last minutes' traffic on the hosts that there are."""
        last = self.last_minute(service)
        return health(self.pools(service), self.traffic_rps(service, (last - 9, last)), TRUE_TRAITS)

    # What is done

    def roll_back(self, service: str, version: str, *, incident: str, key: str) -> None:
        """Put every host on *version*."""
        self._do(
            "UPDATE hosts SET version = ? WHERE service = ?",
            (version, service),
            Act(incident, "roll back", version, key),
        )

    def scale_out(self, service: str, hosts: int, *, incident: str, key: str) -> None:
        """Add *hosts* of what was deployed last, over the zones in turn."""
        add = """
            INSERT INTO hosts (service, zone, version, in_service)
            SELECT ?, char(97 + value % 3), (SELECT version FROM deploys WHERE service = ? ORDER BY minute DESC LIMIT 1), 1
            FROM json_each(?)
        """
        numbers = f"[{','.join(map(str, range(hosts)))}]"
        self._do(add, (service, service, numbers), Act(incident, "scale out", f"{hosts} hosts", key))

    def fail_over(self, service: str, zone: str, *, incident: str, key: str) -> None:
        """Take a zone out of service; the others get its traffic."""
        out = "UPDATE hosts SET in_service = 0 WHERE service = ? AND zone = ?"
        self._do(out, (service, zone), Act(incident, "fail over", f"zone {zone}", key))

    def acts(self) -> list[Act]:
        """Return all that was done, in order."""
        return [Act(*row) for row in self._read("SELECT incident, what, detail, key FROM acts ORDER BY number")]

    def _do(self, statement: str, values: tuple[Any, ...], act: Act) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute(statement, values)
            database.execute("INSERT INTO acts (incident, what, detail, key) VALUES (?, ?, ?, ?)", act)

    def _read(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchall()


def main() -> None:
    fleet = Fleet(Path(os.environ.get("WAR_ROOM_FLEET", DEFAULT_PATH)))
    fleet.create()
    for pool in fleet.pools("checkout"):
        print(f"zone {pool.zone}  {pool.hosts} hosts of {pool.version}")
    now = fleet.health("checkout")
    print(
        f"checkout fails {now.errors_percent} % of its requests, and its busiest hosts are busy at {now.busiest_cpu:.0%}"
    )
    for act in fleet.acts():
        print(f"done: {act.what}, {act.detail}, for {act.incident}")
    if not fleet.acts():
        print("nothing was done")


if __name__ == "__main__":
    main()
