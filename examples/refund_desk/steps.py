"""What touches the world. Each step runs once in a run; its outcome is on the log before the flow goes on.

Plain functions run in a worker thread, so a blocking call like those of sqlite3 holds up nothing.
"""

from datetime import timedelta

import loom
import risk
from ledger import Ledger, OverLimit
from models import Claim, Declined, Letter, Receipt, Risk
from orders import Orders


@loom.step(reads=True)
def read_claim(step: loom.StepContext, claim: str) -> Claim:
    orders: Orders = step.resources["orders"]
    return orders.claim(claim)


@loom.step(reads=True)
def assess_risk(step: loom.StepContext, claim: Claim) -> Risk:
    orders: Orders = step.resources["orders"]
    return risk.score(claim, orders.history(claim))


@loom.step(idempotent=False, failures={"declined": Declined})
def pay(step: loom.StepContext, claim: Claim) -> Receipt:
    """Send the money. Twice would be twice the money, so Loom never repeats this step unless a person says so."""
    ledger: Ledger = step.resources["ledger"]
    try:
        reference = ledger.transfer(claim.id, claim.account, claim.amount_cents, key=step.idempotency_key)
    except OverLimit as refusal:
        raise loom.fail("declined", Declined(str(refusal))) from refusal
    return Receipt(reference, claim.amount_cents)


@loom.step(retry=loom.Retry(attempts=4, delay=timedelta(milliseconds=200)))
def send_email(step: loom.StepContext, letter: Letter) -> None:
    """Write to the customer. The key is the same in every attempt, so that one letter goes out."""
    ledger: Ledger = step.resources["ledger"]
    ledger.deliver(letter, key=step.idempotency_key)
