"""The world outside: a bank that moves money and a mail server that fails, both in one SQLite file.

The bank is as careless as a real one: nothing here would stop a second transfer for the same claim.
To look into it: python ledger.py [CLAIM]
"""

import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from models import Letter, euros

DEFAULT_PATH = Path(".loom/ledger.db")
LIMIT_CENTS = 300_00
"""The most that the bank moves in one transfer."""

TABLES = """
CREATE TABLE IF NOT EXISTS transfers (
    reference INTEGER PRIMARY KEY, claim TEXT NOT NULL, account TEXT NOT NULL, amount_cents INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL  -- not unique: paying twice must show
);
CREATE TABLE IF NOT EXISTS outbox (
    idempotency_key TEXT PRIMARY KEY, recipient TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
);
"""


class OverLimit(Exception):
    """The bank does not move that much at once."""


class MailServerDown(ConnectionError):
    """The mail server does not answer. It often does when it is asked again."""


class Transfer(NamedTuple):
    reference: str
    claim: str
    account: str
    amount_cents: int
    idempotency_key: str


class Ledger:
    def __init__(self, path: Path, *, mail_failures: int = 2) -> None:
        self.path, self.mail_failures = path, mail_failures

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Ledger"]:
        """Make what is missing: the app does this once a process, when a first run needs it."""
        self.create()
        yield self

    def create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path)) as database:
            database.executescript(TABLES)

    def transfer(self, claim: str, account: str, amount_cents: int, *, key: str) -> str:
        """Move money, and return the bank's reference."""
        if amount_cents > LIMIT_CENTS:
            raise OverLimit(f"{euros(amount_cents)} is over {euros(LIMIT_CENTS)}")
        made = self._write(
            "INSERT INTO transfers (claim, account, amount_cents, idempotency_key) VALUES (?, ?, ?, ?) RETURNING reference",
            (claim, account, amount_cents, key),
        )
        return f"T-{made}"

    def deliver(self, letter: Letter, *, key: str) -> None:
        """Hand *letter* to the mail server, which fails at first. What has gone out does not go out again."""
        attempts = self._write(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, 1)"
            " ON CONFLICT DO UPDATE SET attempts = min(attempts + 1, ?) RETURNING attempts",
            (key, letter.to, letter.subject, letter.body, self.mail_failures + 1),
        )
        if attempts <= self.mail_failures:
            raise MailServerDown(f"no answer from the mail server (attempt {attempts})")

    def transfers(self, claim: str | None = None) -> list[Transfer]:
        rows = self._read("SELECT reference, claim, account, amount_cents, idempotency_key FROM transfers ORDER BY 1")
        return [Transfer(f"T-{row[0]}", *row[1:]) for row in rows if claim in {None, row[1]}]

    def outbox(self) -> list[tuple[str, str, int]]:
        """Return recipient, subject and number of attempts of each letter."""
        return self._read("SELECT recipient, subject, attempts FROM outbox ORDER BY rowid")

    # A connection a call: steps run in threads, and a connection belongs to one.

    def _write(self, statement: str, values: tuple[Any, ...]) -> int:
        with closing(sqlite3.connect(self.path)) as database, database:
            (returned,) = database.execute(statement, values).fetchone()
            return int(returned)

    def _read(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(query).fetchall()


def main(claim: str | None = None) -> None:
    ledger = Ledger(Path(os.environ.get("REFUND_DESK_LEDGER", DEFAULT_PATH)))
    ledger.create()
    found = ledger.transfers(claim)
    for t in found:
        print(f"{t.reference}  {t.claim}  {euros(t.amount_cents):>10}  to {t.account}  key {t.idempotency_key}")
    if not found:
        print(f"no transfer for {claim}" if claim else "no transfers")


if __name__ == "__main__":
    main(*sys.argv[1:])
