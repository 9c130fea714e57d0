"""The floors: what the same rows cost with nothing but sqlite3 and orjson, measured in the same process and minute.

A floor takes the rows that a benchmarked run wrote, read back from its database, so that it moves the same bytes. It is as
fast as the standard library allows: one thread, one statement for each transaction, nothing between the rows.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

GROUP: Final = 100
"""Rows in one transaction of the floor `rows`."""

DECODE_PASSES: Final = 20

_COLUMNS: Final = "run, sequence, type, at, payload, metadata"
_SCHEMA: Final = "SELECT sql FROM sqlite_master WHERE tbl_name = 'events' AND sql IS NOT NULL ORDER BY type DESC"
_INSERT: Final = f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"


class Written(NamedTuple):
    """What a run left in its database: how the table of events is made, and its rows in the order of their commit."""

    schema: Sequence[str]
    rows: Sequence[tuple[Any, ...]]

    @property
    def texts(self) -> list[bytes]:
        """The JSON texts of the rows: each payload, and metadata where there is any."""
        return [text for row in self.rows for text in row[4:] if text]


def written(database: Path) -> Written:
    """Return what stands in *database*, without writing to it."""
    raw = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    try:
        schema = [sql for (sql,) in raw.execute(_SCHEMA)]
        return Written(schema, raw.execute(f"SELECT {_COLUMNS} FROM events ORDER BY position").fetchall())
    finally:
        raw.close()


def rows_per_second(done: Written, database: Path, *, group: int = GROUP) -> float:
    """Insert the rows into the new *database*, *group* in each transaction, and return how many go into a second."""
    raw = sqlite3.connect(database, isolation_level=None)
    try:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        for statement in done.schema:
            raw.execute(statement)
        begun = time.perf_counter()
        for part in _groups(done.rows, group):
            raw.execute("BEGIN IMMEDIATE")
            raw.executemany(_INSERT, part)
            raw.execute("COMMIT")
        return len(done.rows) / (time.perf_counter() - begun)
    finally:
        raw.close()


def decode_seconds(texts: Sequence[bytes], *, passes: int = DECODE_PASSES) -> float:
    """Return how long it takes to decode all of *texts* into a list, the median of *passes*."""
    return statistics.median(_decode_once(texts) for _ in range(passes))


def _decode_once(texts: Sequence[bytes]) -> float:
    loads = orjson.loads
    begun = time.perf_counter()
    kept = [loads(text) for text in texts]
    took = time.perf_counter() - begun
    assert len(kept) == len(texts)
    return took


def _groups(rows: Sequence[tuple[Any, ...]], size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]
