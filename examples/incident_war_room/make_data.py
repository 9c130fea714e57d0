"""Make data/fleet.db, two hours of a service that does not exist: python make_data.py [FILE]

The same seed makes the same rows, on every machine: of a seeded generator only random() is promised never to change.
"""

import math
import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from fleet import DATA, TRUE_TRAITS
from physics import host_cpu, host_errors, host_latency_ms

SEED = 11
SERVICE = "checkout"
ZONES = "abc"
HOSTS_A_ZONE = 4
MINUTES = 120
DEPLOYED_AT = {"a": 94, "b": 97}
"""When the new version came to a zone. It never came to the third: the pager was faster."""

SCHEMA = """
CREATE TABLE hosts (
    number INTEGER PRIMARY KEY, service TEXT NOT NULL, zone TEXT NOT NULL, version TEXT NOT NULL,
    in_service INTEGER NOT NULL
);
CREATE TABLE deploys (service TEXT NOT NULL, version TEXT NOT NULL, minute INTEGER NOT NULL, by TEXT NOT NULL);
CREATE TABLE metrics (
    minute INTEGER NOT NULL, service TEXT NOT NULL, host INTEGER NOT NULL, zone TEXT NOT NULL, version TEXT NOT NULL,
    requests INTEGER NOT NULL, failed INTEGER NOT NULL, latency_ms INTEGER NOT NULL, cpu REAL NOT NULL
);
CREATE TABLE acts (
    number INTEGER PRIMARY KEY, incident TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL,
    key TEXT NOT NULL  -- not unique: doing it twice must show
);
"""


def rows(seed: int = SEED) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each row with its table."""
    chance = random.Random(seed)
    hosts = [(number, zone) for number, zone in enumerate(ZONES * HOSTS_A_ZONE, 1)]
    for number, zone in hosts:
        yield "hosts", (number, SERVICE, zone, "v42" if zone in DEPLOYED_AT else "v41", 1)
    yield "deploys", (SERVICE, "v41", 12, "jonas")
    yield "deploys", (SERVICE, "v42", min(DEPLOYED_AT.values()), "kaja")
    for minute in range(MINUTES):
        traffic_rps = 1_900 + 200 * math.sin(minute / 40)
        for number, zone in hosts:
            version = "v42" if minute >= DEPLOYED_AT.get(zone, MINUTES) else "v41"
            yield (
                "metrics",
                (minute, SERVICE, number, zone, version, *measured(chance, traffic_rps / len(hosts), version)),
            )


def measured(chance: random.Random, rps: float, version: str) -> tuple[int, int, int, float]:
    """Return what a host shows in a minute: requests, how many failed, latency and cpu; no two are the same."""
    rps *= 0.95 + 0.1 * chance.random()
    cpu = host_cpu(rps, TRUE_TRAITS[version]) * (0.97 + 0.06 * chance.random())
    requests = round(60 * rps)
    failed = round(requests * host_errors(cpu, TRUE_TRAITS[version]) * (0.8 + 0.4 * chance.random()))
    return requests, failed, round(host_latency_ms(cpu)), round(cpu, 3)


def make(path: Path, seed: int = SEED) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as fleet, fleet:
        fleet.executescript(SCHEMA)
        for table, row in rows(seed):
            fleet.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
