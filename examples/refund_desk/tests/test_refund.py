"""What the refund desk does with a claim."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import loom
import make_data
from app import DATA, refund_desk
from conftest import Desk
from ledger import Ledger
from models import Request, Settlement
from orders import Orders

SMALL = "C-128"
RISKY = "C-101"
OVER_THE_LIMIT_OF_THE_BANK = "C-098"


async def test_a_small_claim_is_paid_at_once(desk: Desk) -> None:
    outcome = await desk.settle(SMALL)

    assert outcome.result() == Settlement(SMALL, "refunded", 1799, "T-1")
    assert [(t.claim, t.amount_cents) for t in desk.ledger.transfers()] == [(SMALL, 1799)]


async def test_a_risky_claim_waits_for_a_person_and_says_why(desk: Desk) -> None:
    outcome = await desk.settle(RISKY)

    assert outcome.status == "suspended"
    [gate] = outcome.gates
    assert gate.gate == "approval"
    assert "a claim was refused before" in str(gate.show)
    assert desk.ledger.transfers() == []


async def test_an_approved_claim_is_paid(desk: Desk) -> None:
    await desk.settle(RISKY)

    outcome = await desk.answer(RISKY, approved=True)

    assert outcome.result().status == "refunded"
    assert len(desk.ledger.transfers(RISKY)) == 1


async def test_a_refused_claim_is_not_paid_and_the_customer_is_told_why(desk: Desk) -> None:
    await desk.settle(RISKY)

    outcome = await desk.answer(RISKY, approved=False, reason="the photo shows another lamp")

    assert outcome.result() == Settlement(RISKY, "refused", note="the photo shows another lamp")
    assert desk.ledger.transfers() == []
    assert "another lamp" in (await desk.app.runtime.events(RISKY))[-3].payload.args["letter"]["body"]


async def test_three_days_of_silence_are_no_approval(desk: Desk) -> None:
    await desk.settle(RISKY)
    desk.clock.advance(timedelta(days=3) // timedelta(milliseconds=1))

    outcome = await desk.app.runtime.resume(RISKY)

    assert outcome.result().status == "expired"
    assert desk.ledger.transfers() == []


async def test_what_is_no_answer_is_refused_and_the_claim_goes_on_waiting(desk: Desk) -> None:
    await desk.settle(RISKY)

    with pytest.raises(loom.LoomError, match="approved"):
        await desk.answer(RISKY, approved="perhaps")

    assert (await desk.app.runtime.load_state(RISKY)).status == "suspended"


async def test_a_declined_payment_is_an_ordinary_end(desk: Desk) -> None:
    await desk.settle(OVER_THE_LIMIT_OF_THE_BANK)

    outcome = await desk.answer(OVER_THE_LIMIT_OF_THE_BANK, approved=True)

    claim = OVER_THE_LIMIT_OF_THE_BANK
    assert outcome.result() == Settlement(claim, "declined", note="379.99 EUR is over 300.00 EUR")
    assert desk.ledger.transfers() == []


async def test_the_mail_server_fails_twice_and_the_log_shows_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    async with refund_desk(Orders(DATA), ledger) as app:
        await app.runtime.start("refund", Request(SMALL), id=SMALL)
        events = await app.runtime.events(SMALL)

    failed = [event.payload for event in events if event.type == "STEP_ATTEMPT_FAILED"]
    assert [attempt.failure["type"] for attempt in failed] == ["ledger.MailServerDown"] * 2
    assert [letter[1:] for letter in ledger.outbox()] == [(f"Your claim {SMALL}", 3)]


async def test_one_claim_has_one_run(desk: Desk) -> None:
    await desk.settle(SMALL)

    with pytest.raises(loom.LoomError, match="exists already"):
        await desk.settle(SMALL)

    assert len(desk.ledger.transfers(SMALL)) == 1


def test_the_records_that_ship_are_those_that_the_generator_makes(tmp_path: Path) -> None:
    make_data.make(tmp_path / "orders.db")

    assert content(tmp_path / "orders.db") == content(DATA)


def content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as shop:
        return list(shop.iterdump())
