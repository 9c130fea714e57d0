"""The proof at the end of the demo can fail."""

from pathlib import Path

import pytest

import demo
from app import DATA
from ledger import Ledger, MailServerDown
from models import Letter
from orders import Orders

CLAIMS = (demo.RISKY, demo.PAID, demo.UNPAID)


def paid_and_told(path: Path, *claims: str) -> Ledger:
    """Return a ledger with a transfer for each of *claims*, and with the three letters."""
    ledger = Ledger(path / "ledger.db")
    ledger.create()
    for claim in map(Orders(DATA).claim, claims):
        ledger.transfer(claim.id, claim.account, claim.amount_cents, key=f"pay {claim.id}")
    for claim_id in CLAIMS:
        for _ in range(2):
            with pytest.raises(MailServerDown):
                ledger.deliver(Letter("", "", ""), key=claim_id)
        ledger.deliver(Letter("", "", ""), key=claim_id)
    return ledger


def test_one_transfer_a_claim_is_accepted(tmp_path: Path) -> None:
    demo.prove(paid_and_told(tmp_path, *CLAIMS))


def test_a_second_transfer_is_seen(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="C-101 was paid 2 times"):
        demo.prove(paid_and_told(tmp_path, *CLAIMS, demo.RISKY))


def test_a_missing_transfer_is_seen(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="C-102 was paid 0 times"):
        demo.prove(paid_and_told(tmp_path, demo.RISKY, demo.PAID))
