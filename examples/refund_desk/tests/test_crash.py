"""Money moves exactly once, wherever the process dies.

A crash leaves a prefix of the log, and a world in which the payment under way has happened or has not. Each such prefix
and world is handed to a fresh app here, which has to bring the claim to the same end.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import loom
from app import DATA, refund_desk
from ledger import Ledger
from loom.core.ids import ExecutionId
from loom.spi.event_store import Append, EventRecord, ExecutionQuery
from models import Receipt, Request, Settlement
from orders import Orders

CLAIM = ExecutionId("C-101")


async def test_money_moves_exactly_once_wherever_the_process_dies(tmp_path: Path) -> None:
    lived = loom.MemoryStorage()
    settled = await bring_to_its_end(lived, ledger := Ledger(tmp_path / "lived.db", mail_failures=0))
    log, [payment] = await lived.read(CLAIM), ledger.transfers()
    verdicts = []

    for length, has_paid in crashes(log):
        ledger = Ledger(tmp_path / f"crash-{length}-{has_paid}.db", mail_failures=0)
        ledger.create()
        if has_paid:
            ledger.transfer(payment.claim, payment.account, payment.amount_cents, key=payment.idempotency_key)

        again = await bring_to_its_end(storage := await prefix_of(lived, length), ledger)

        assert again == settled
        assert ledger.transfers() == [payment], f"after a crash behind event {length - 1}"
        verdicts += [verdict for event in await storage.read(CLAIM) if (verdict := verdict_in(event))]
    assert verdicts == ["retry", "done"]


def crashes(log: Sequence[EventRecord]) -> Iterator[tuple[int, bool]]:
    """Yield how much of *log* a crash may leave behind, and whether the money may have moved by then."""
    asked = next(event.sequence for event in log if event.type == "STEP_STARTED" and b'"id":"pay"' in event.payload)
    for length in range(1, len(log)):
        if length <= asked + 1:
            yield length, False
        if length > asked:
            yield length, True


async def prefix_of(lived: loom.MemoryStorage, length: int) -> loom.MemoryStorage:
    """Return a store with the first *length* events of the run that *lived* has."""
    storage, events = loom.MemoryStorage(), await lived.read(CLAIM, stop=length)
    [row] = await lived.find(ExecutionQuery())
    item = Append(execution_id=CLAIM, incarnation=None, expected=0, append_id="copy", events=events, index=row.index)
    await storage.append([item])
    return storage


async def bring_to_its_end(storage: loom.MemoryStorage, ledger: Ledger) -> Settlement:
    """Start or resume the run, say yes to the claim, and decide a payment in doubt by what the ledger says."""
    async with refund_desk(Orders(DATA), ledger, storage=storage) as app:
        runtime, known = app.runtime, await storage.head(CLAIM)
        outcome: loom.Outcome[Settlement] = await (
            runtime.resume(CLAIM) if known else runtime.start("refund", Request(CLAIM), id=CLAIM)
        )
        if outcome.status == "suspended":
            outcome = await runtime.resume(CLAIM, answer={"approved": True})
        if outcome.status == "in_doubt":
            made = ledger.transfers(CLAIM)
            if made:
                receipt = Receipt(made[0].reference, made[0].amount_cents)
                outcome = await runtime.resolve(CLAIM, "pay", "done", value=receipt)
            else:
                outcome = await runtime.resolve(CLAIM, "pay", "retry")
        return outcome.result()


def verdict_in(event: EventRecord) -> str | None:
    return json.loads(event.payload)["verdict"] if event.type == "EFFECT_RESOLVED" else None
