"""The world outside: a monitor, a pager, a load balancer and a rota, all in one SQLite file, which is the ledger, too.

To look into it: python outside.py
To make a host ill: python outside.py alarm checkout web-3 "errors over 5 %"
"""

import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from models import Alarm, Page, Shift

DEFAULT_PATH = Path(".loom/outside.db")
PEOPLE = ("ines", "jonas", "kaja", "liam")
MANAGER = "mira"

TABLES = """
CREATE TABLE IF NOT EXISTS alarms (
    number INTEGER PRIMARY KEY, service TEXT NOT NULL, host TEXT NOT NULL, symptom TEXT NOT NULL,
    taken_by TEXT,  -- the key of whoever took it
    ended TEXT      -- how; NULL while it is open
);
CREATE TABLE IF NOT EXISTS pages (
    number INTEGER PRIMARY KEY, idempotency_key TEXT NOT NULL UNIQUE, person TEXT NOT NULL, incident TEXT NOT NULL,
    reason TEXT NOT NULL, text TEXT NOT NULL  -- person, incident and reason are not unique: calling twice must show
);
CREATE TABLE IF NOT EXISTS moves (
    number INTEGER PRIMARY KEY, incident TEXT NOT NULL, what TEXT NOT NULL, target TEXT NOT NULL,
    UNIQUE (incident, what, target)
);
CREATE TABLE IF NOT EXISTS shifts (day TEXT PRIMARY KEY, first TEXT NOT NULL, second TEXT NOT NULL);
"""


class Move(NamedTuple):
    """What the load balancer did."""

    what: str
    target: str


class Ledger:
    """The file, opened when it is first used, and again when it is used after it was closed. Threads take turns with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = Lock()
        self._database: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._turn:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the turn for one transaction."""
        with self._turn:
            self._database = self._database or opened(self.path)
            with self._database:
                yield self._database

    def write(self, statement: str, *values: Any) -> bool:
        """Return whether anything was written."""
        with self.transaction() as database:
            return database.execute(statement, values).rowcount > 0

    def read(self, query: str, *values: Any) -> list[Any]:
        with self.transaction() as database:
            return database.execute(query, values).fetchall()


def opened(path: Path) -> sqlite3.Connection:
    """Return the file at *path*, made if it is missing. Several processes may have it open."""
    path.parent.mkdir(parents=True, exist_ok=True)  # loom: allow[effect-class] once, not by who reads
    database = sqlite3.connect(path, check_same_thread=False)
    database.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;" + TABLES
    )  # it need not outlive a power cut
    return database


class Monitor:
    """Sees ill hosts, and hands each alarm to whoever takes it first."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def raise_alarm(self, service: str, host: str, symptom: str) -> None:
        self._ledger.write("INSERT INTO alarms (service, host, symptom) VALUES (?, ?, ?)", service, host, symptom)

    def take(self, *, key: str) -> list[Alarm]:
        """Give what is new to whoever has *key*, and return all that was given to it: asked again, nothing is lost."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE alarms SET taken_by = ? WHERE taken_by IS NULL", (key,))
            query = "SELECT number, service, host, symptom FROM alarms WHERE taken_by = ? ORDER BY number"
            return [Alarm(f"A-{number}", *rest) for number, *rest in database.execute(query, (key,))]

    def close(self, alarm: str, ended: str) -> None:
        self._ledger.write("UPDATE alarms SET ended = ? WHERE 'A-' || number = ?", ended, alarm)

    def ends(self) -> dict[str, str | None]:
        """Return how each alarm ended, None: not yet."""
        return {f"A-{number}": ended for number, ended in self._ledger.read("SELECT number, ended FROM alarms")}


class Pager:
    """Rings people. What has rung under a key does not ring again."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.heard: Callable[[Page], None] = lambda call: None
        """Who listens. The people of the tests do."""

    def ring(self, call: Page, *, key: str) -> None:
        statement = (
            "INSERT OR IGNORE INTO pages (idempotency_key, person, incident, reason, text) VALUES (?, ?, ?, ?, ?)"
        )
        if self._ledger.write(statement, key, call.person, call.incident, call.reason, call.text):
            self.heard(call)

    def calls(self, incident: str | None = None) -> list[Page]:
        """Return who was called, in order."""
        rows = self._ledger.read("SELECT person, incident, reason, text FROM pages ORDER BY number")
        return [Page(*row) for row in rows if incident in {None, row[1]}]


class Balancer:
    """Sends traffic where it is told to. What an incident asks for twice is done once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def do(self, what: str, target: str, *, incident: str) -> None:
        self._ledger.write(
            "INSERT OR IGNORE INTO moves (incident, what, target) VALUES (?, ?, ?)", incident, what, target
        )

    def undo(self, what: str, target: str, *, incident: str, by: str) -> None:
        """Do *by*, if *what* was done at all."""
        self._ledger.write(
            "INSERT OR IGNORE INTO moves (incident, what, target)"
            " SELECT incident, ?, target FROM moves WHERE incident = ? AND what = ? AND target = ?",
            by, incident, what, target,
        )  # fmt: skip

    def moves(self, incident: str) -> list[Move]:
        """Return what was done for *incident*, in order."""
        rows = self._ledger.read("SELECT what, target FROM moves WHERE incident = ? ORDER BY number", incident)
        return [Move(*row) for row in rows]


class Rota:
    """Knows who is on call: two of four people, by the week, and always the same manager."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def begin(self, day: date) -> Shift:
        """Put the people of the week of *day* on call. Each is second for a week, and then first."""
        week = (day.toordinal() - 1) // 7  # the first day of the calendar was a Monday
        first, second = PEOPLE[week % len(PEOPLE)], PEOPLE[(week + 1) % len(PEOPLE)]
        self._ledger.write("INSERT OR REPLACE INTO shifts VALUES (?, ?, ?)", str(day), first, second)
        return Shift(first, second, MANAGER)

    def shift(self) -> Shift:
        latest = self._ledger.read("SELECT first, second FROM shifts ORDER BY day DESC LIMIT 1")
        return Shift(*(latest[0] if latest else PEOPLE[:2]), MANAGER)


class Outside:
    """All of it, in the file at *path*."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger(path)
        self.monitor, self.pager = Monitor(self.ledger), Pager(self.ledger)
        self.balancer, self.rota = Balancer(self.ledger), Rota(self.ledger)

    def __enter__(self) -> "Outside":
        return self

    def __exit__(self, *raised: object) -> None:
        self.ledger.close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Outside"]:
        """Have it for as long as the app is open: the app asks for it once a process, when a first run needs it."""
        with self:
            yield self


def main(*arguments: str) -> None:
    with Outside(Path(os.environ.get("ON_CALL_OUTSIDE", DEFAULT_PATH))) as outside:
        if arguments:
            _, service, host, symptom = arguments
            outside.monitor.raise_alarm(service, host, symptom)
        show(outside)


def show(outside: Outside) -> None:
    for alarm, ended in outside.monitor.ends().items():
        print(f"{alarm}  {ended or 'open'}")
    incidents = dict.fromkeys(call.incident for call in outside.pager.calls())
    for incident in incidents:
        print(incident)
        for call in outside.pager.calls(incident):
            print(f"  called {call.person}: {call.text}")
        for move in outside.balancer.moves(incident):
            print(f"  {move.what} {move.target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
