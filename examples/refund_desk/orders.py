"""The shop's records: read only, from the SQLite file that make_data.py makes."""

import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from models import Claim, History

CLAIM = """
    SELECT claims.id, order_id, item, claims.amount_cents, reason, ordered_on, claimed_on, customer_id, name, email, account
    FROM claims JOIN orders ON orders.id = order_id JOIN customers ON customers.id = customer_id
    WHERE claims.id = ?
"""
HISTORY = """
    SELECT since,
        (SELECT count(*) FROM orders WHERE customer_id = :customer AND ordered_on <= :day),
        (SELECT total(amount_cents) FROM orders WHERE customer_id = :customer AND ordered_on <= :day),
        (SELECT count(*) FROM earlier WHERE claimed_on >= :year_ago),
        (SELECT count(*) FROM earlier WHERE settled_as = 'refused')
    FROM customers WHERE id = :customer
"""
EARLIER = """
    WITH earlier AS (
        SELECT claims.* FROM claims JOIN orders ON orders.id = order_id
        WHERE customer_id = :customer AND claimed_on < :day AND claims.id <> :claim
    )
"""


class UnknownClaim(LookupError):
    """The shop has no such claim."""


class Orders:
    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self, claim_id: str) -> Claim:
        row = self._first(CLAIM, (claim_id,))
        if row is None:
            raise UnknownClaim(f"there is no claim {claim_id!r} in {self.path.name}")
        claim, order, item, cents, reason, ordered_on, claimed_on, *customer = row
        days = date.fromisoformat(ordered_on), date.fromisoformat(claimed_on)
        return Claim(claim, order, item, cents, reason, *days, *customer)

    def history(self, claim: Claim) -> History:
        about = {
            "claim": claim.id,
            "customer": claim.customer,
            "day": str(claim.claimed_on),
            "year_ago": str(claim.claimed_on - timedelta(days=365)),
        }
        since, orders, spent, claims, refused = self._first(EARLIER + HISTORY, about)
        known_for = claim.claimed_on - date.fromisoformat(since)
        return History(known_for.days, orders, int(spent), claims, refused)

    def open_claims(self) -> list[str]:
        with closing(self._connect()) as shop:
            return [row[0] for row in shop.execute("SELECT id FROM claims WHERE settled_as IS NULL ORDER BY id")]

    def _first(self, query: str, values: Any) -> Any:
        with closing(self._connect()) as shop:
            return shop.execute(query, values).fetchone()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
