"""Whose database a file is, and bringing it to the present schema.

The application id says that it is ours, the user version which migrations it has had. All missing ones run in
one immediate transaction: of several processes one migrates, and a migration killed half-way never happened.

The views that people read are written out whole in the last migration called `views`, which is run once more after each later one.
While tables change they are hollow, so that whatever stands on them still does, and no migration has to know what they read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from loom.spi.errors import StoreCorrupt, StoreNewer, StoreNotFound, StoreUnavailable

APPLICATION_ID: Final = 0x4C6F6F6D  # "Loom"
SCHEMA_VERSION: Final = 14
VIEWS: Final = ("loom_runs", "loom_events", "loom_attributes", "loom_gates", "loom_read_models")
"""What people may read with SQL (docs/guide/sql.md)."""

_COLUMNS_OF: Final = "SELECT name FROM pragma_table_info(?)"
_FOLDER: Final = Path(__file__).parent / "migrations"
_STAMP: Final = """
    SELECT (SELECT application_id FROM pragma_application_id),
           (SELECT user_version FROM pragma_user_version),
           (SELECT count(*) FROM sqlite_master)
"""


class Stamp(NamedTuple):
    """What a database says of itself."""

    application_id: int
    version: int
    objects: int

    @property
    def empty(self) -> bool:
        """Whether nobody has put anything into the database."""
        return self == (0, 0, 0)


def accept(raw: sqlite3.Connection, *, url: str) -> Stamp:
    """Return the stamp of a database that is ours or empty, touching nothing.

    Raises:
        StoreCorrupt: it belongs to another application.
        StoreNewer: its schema is newer than this code.
    """
    stamp = Stamp(*raw.execute(_STAMP).fetchone())
    if not stamp.empty and stamp.application_id != APPLICATION_ID:
        hint = "Name another file; this one was left as it is."
        raise StoreCorrupt("the database belongs to another application", store=url, hint=hint)
    if stamp.version > SCHEMA_VERSION:
        message = f"the schema is version {stamp.version}, and this Loom knows {SCHEMA_VERSION}"
        raise StoreNewer(message, store=url, hint="Upgrade Loom; the database was left as it is.")
    return stamp


def accept_for_reading(raw: sqlite3.Connection, *, url: str) -> None:
    """Accept a database whose schema is the present one.

    Raises:
        StoreNotFound: nothing was ever stored in it.
        StoreUnavailable: its schema is older, and a reader does not migrate.
        StoreCorrupt, StoreNewer: as for `accept`.
    """
    stamp = accept(raw, url=url)
    if stamp.empty:
        raise StoreNotFound(
            "the database is empty",
            store=url,
            hint="Run a flow first, go to the folder of its project, or name another file.",
        )
    if stamp.version < SCHEMA_VERSION:
        message = f"the schema is version {stamp.version}, and reading needs {SCHEMA_VERSION}"
        raise StoreUnavailable(message, store=url, hint="Run a flow with this Loom: the first writer migrates.")


def migrate(raw: sqlite3.Connection, *, url: str) -> None:
    """Bring the database to the present schema, or wait (busy) for the process that does.

    Raises:
        StoreCorrupt, StoreNewer: as for `accept`, and nothing was changed.
    """
    if accept(raw, url=url).version == SCHEMA_VERSION:
        return
    raw.execute("BEGIN IMMEDIATE")
    try:
        _run_missing(raw, accept(raw, url=url).version)
        raw.execute("COMMIT")
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")


def _run_missing(raw: sqlite3.Connection, version: int) -> None:
    scripts = migrations()
    missing = [file for number, file in scripts if number > version]
    if missing and not is_views(missing[-1]):
        missing += [file for _, file in scripts if is_views(file)][-1:]
    for file in missing:
        _hollow(raw)
        for statement in statements(file.read_text("utf-8")):
            raw.execute(statement)
    raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    raw.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _hollow(raw: sqlite3.Connection) -> None:
    """Let the views have their columns and no rows, and read no table."""
    for name in VIEWS:
        columns = [f'NULL AS "{column}"' for (column,) in raw.execute(_COLUMNS_OF, (name,))]
        if columns:
            raw.execute(f"DROP VIEW {name}")
            raw.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} WHERE 0")


def is_views(file: Path) -> bool:
    """Whether a migration is the text of the views."""
    return file.stem.endswith("_views")


def migrations() -> list[tuple[int, Path]]:
    """Return the migrations with their numbers, in order."""
    return sorted((int(file.name[:4]), file) for file in _FOLDER.glob("*.sql"))


def statements(script: str) -> Iterator[str]:
    """Split *script* into statements: `executescript` would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
