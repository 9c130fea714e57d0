"""Money moves exactly once, wherever the process dies.

A crash leaves a prefix of the log, and a world in which the payment under way has happened or has not. Each such prefix
and world is handed to a fresh app here, which has to bring the claim to the same end.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import loom
from app import DATA, refund_desk
from ledger import Ledger, Transfer
from loom.core.ids import ExecutionId
from loom.spi.event_store import Append, EventRecord, ExecutionQuery
from models import Receipt, Request, Settlement
from orders import Orders

RISKY, SMALL, OVER_THE_LIMIT_OF_THE_BANK = map(ExecutionId, ("C-101", "C-128", "C-098"))


@pytest.mark.proves("RNG-13", "RNG-14")
@pytest.mark.parametrize(
    ("claim", "verdicts"),
    [(RISKY, ["retry", "done"]), (SMALL, ["retry", "done"]), (OVER_THE_LIMIT_OF_THE_BANK, ["retry"])],
)
async def test_money_moves_exactly_once_wherever_the_process_dies(
    claim: ExecutionId, verdicts: list[str], tmp_path: Path
) -> None:
    lived, ledger = loom.MemoryStorage(), Ledger(tmp_path / "lived.db", mail_failures=0)
    settled = await bring_to_its_end(claim, lived, ledger)
    log, payments = await lived.read(claim), ledger.transfers()
    given = []

    for length, moved in crashes(log, payments):
        ledger = Ledger(tmp_path / f"crash-{length}-{len(moved)}.db", mail_failures=0)
        ledger.create()
        for made in moved:
            ledger.transfer(made.claim, made.account, made.amount_cents, key=made.idempotency_key)
        storage = await prefix_of(lived, claim, length)

        assert await bring_to_its_end(claim, storage, ledger) == settled
        assert ledger.transfers() == payments, f"after a crash behind event {length - 1}"
        given += [verdict for event in await storage.read(claim) if (verdict := verdict_in(event))]
    assert given == verdicts


def crashes(log: Sequence[EventRecord], payments: list[Transfer]) -> Iterator[tuple[int, list[Transfer]]]:
    """Yield how much of *log* a crash may leave behind, and what money may have moved by then."""
    asked = next(event.sequence for event in log if event.type == "STEP_STARTED" and b'"id":"pay"' in event.payload)
    for length in range(1, asked + 2):
        yield length, []
    for length in range(asked + 1 if payments else asked + 2, len(log)):
        yield length, payments


async def prefix_of(lived: loom.MemoryStorage, claim: ExecutionId, length: int) -> loom.MemoryStorage:
    """Return a store with the first *length* events of *claim* that *lived* has."""
    storage, events = loom.MemoryStorage(), await lived.read(claim, stop=length)
    [row] = await lived.find(ExecutionQuery())
    index = replace(row.index, status="running", ended=False)
    item = Append(execution_id=claim, incarnation=None, expected=0, append_id="copy", events=events, index=index)
    await storage.append([item])
    return storage


async def bring_to_its_end(claim: ExecutionId, storage: loom.MemoryStorage, ledger: Ledger) -> Settlement:
    """Start or resume the run, say yes to the claim, and decide a payment in doubt by what the ledger says."""
    async with refund_desk(Orders(DATA), ledger, storage=storage) as app:
        runtime, known = app.runtime, await storage.head(claim)
        outcome: loom.Outcome[Settlement] = await (
            runtime.resume(claim) if known else runtime.start("refund", Request(claim), id=claim)
        )
        if outcome.status == "suspended":
            outcome = await runtime.resume(claim, answer={"approved": True})
        if outcome.status == "in_doubt":
            made = ledger.transfers(claim)
            if made:
                receipt = Receipt(made[0].reference, made[0].amount_cents)
                outcome = await runtime.resolve(claim, "pay", "done", value=receipt)
            else:
                outcome = await runtime.resolve(claim, "pay", "retry")
        return outcome.result()


def verdict_in(event: EventRecord) -> str | None:
    return json.loads(event.payload)["verdict"] if event.type == "EFFECT_RESOLVED" else None
