"""Make data/orders.db, the records of a shop that does not exist: python make_data.py [FILE]

The same seed makes the same rows, on every machine: of a seeded generator only random() is promised never to change.
"""

import random
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SEED = 7
TODAY = date(2026, 1, 15)
OPEN_CLAIMS = 40

SCHEMA = """
CREATE TABLE customers (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, since TEXT NOT NULL, account TEXT NOT NULL
);
CREATE TABLE orders (
    id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers, item TEXT NOT NULL,
    amount_cents INTEGER NOT NULL, ordered_on TEXT NOT NULL
);
CREATE TABLE claims (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL UNIQUE REFERENCES orders, reason TEXT NOT NULL,
    amount_cents INTEGER NOT NULL, claimed_on TEXT NOT NULL,
    settled_as TEXT  -- 'refunded' or 'refused'; NULL while it is open
);
"""

FIRST = (
    "Ada", "Ben", "Cleo", "Dario", "Edda", "Finn", "Greta", "Hugo", "Ines", "Jonas", "Kaja", "Liam", "Mira",
    "Nils", "Olga", "Pelle", "Rosa", "Sven", "Tilda", "Yara",
)  # fmt: skip
LAST = (
    "Ahlers", "Brandt", "Corvin", "Dahl", "Ebner", "Falk", "Grün", "Hofer", "Iversen", "Jansen", "Keller",
    "Lund", "Moreau", "Novak", "Oster",
)  # fmt: skip
ITEMS = (
    ("tea towels", 14), ("enamel mug", 18), ("candle holder", 24), ("bread knife", 32), ("wall clock", 45),
    ("desk lamp", 69), ("kettle", 79), ("wool blanket", 95), ("toaster", 110), ("bookshelf", 240),
    ("coffee machine", 380), ("armchair", 690),
)  # fmt: skip
REASONS = ("arrived broken", "not as described", "never arrived", "the wrong colour", "stopped working")


class Chance(random.Random):
    def one_of(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))


def rows(seed: int = SEED) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each row with its table."""
    chance = Chance(seed)
    ordered: list[tuple[str, int, date]] = []
    for number in range(1, 61):
        name = f"{chance.one_of(FIRST)} {chance.one_of(LAST)}"
        since = TODAY - timedelta(days=chance.between(30, 900))
        account = f"LM{chance.between(10, 99)}{chance.between(10**9, 10**10 - 1)}"
        email = f"{name.lower().replace(' ', '.').replace('ü', 'ue')}{number}@example.com"
        yield "customers", (f"K-{number:03}", name, email, str(since), account)
        for _ in range(chance.between(1, 8)):
            item, price = chance.one_of(ITEMS)
            day = since + timedelta(days=chance.between(0, (TODAY - since).days - 7))
            ordered.append((f"B-{len(ordered) + 1:04}", price * 100 - chance.one_of((0, 1, 50)), day))
            yield "orders", (ordered[-1][0], f"K-{number:03}", item, ordered[-1][1], str(day))
    yield from claims(chance, ordered)


def claims(chance: Chance, ordered: list[tuple[str, int, date]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield a claim for four orders in ten; the latest are open."""
    claimed = []
    for order, cents, day in ordered:
        if chance.random() < 0.4:
            day_of_claim = min(TODAY, day + timedelta(days=chance.between(2, 90)))
            amount = cents if chance.random() < 0.8 else cents // 2
            settled_as = "refused" if chance.random() < 0.15 else "refunded"
            claimed.append((day_of_claim, order, chance.one_of(REASONS), amount, settled_as))
    for number, (day, order, reason, amount, settled_as) in enumerate(sorted(claimed), 1):
        is_open = number > len(claimed) - OPEN_CLAIMS
        yield "claims", (f"C-{number:03}", order, reason, amount, str(day), None if is_open else settled_as)


def make(path: Path, seed: int = SEED) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.executescript(SCHEMA)
        for table, row in rows(seed):
            shop.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data" / "orders.db")
