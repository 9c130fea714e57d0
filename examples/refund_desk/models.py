"""What the refund desk talks about. Plain dataclasses: Loom writes them to the log and brings them back as they were."""

from dataclasses import dataclass
from datetime import date
from typing import Literal


@dataclass(frozen=True)
class Request:
    """What starts a run: the number of a claim."""

    claim: str


@dataclass(frozen=True)
class Claim:
    """A customer wants money back for an order."""

    id: str
    order: str
    item: str
    amount_cents: int
    reason: str
    ordered_on: date
    claimed_on: date
    customer: str
    name: str
    email: str
    account: str

    @property
    def ordered_days_ago(self) -> int:
        return (self.claimed_on - self.ordered_on).days


@dataclass(frozen=True)
class History:
    """What we know of a customer on the day of a claim, that claim left out."""

    customer_for_days: int
    orders: int
    spent_cents: int
    claims_last_year: int
    refused_ever: int


@dataclass(frozen=True)
class Risk:
    """How careful to be with a claim, from 0 to 100, and why."""

    score: int
    reasons: list[str]


@dataclass(frozen=True)
class Approval:
    """What the person answers."""

    approved: bool
    reason: str = ""


@dataclass(frozen=True)
class Receipt:
    """The bank took the transfer."""

    reference: str
    amount_cents: int


@dataclass(frozen=True)
class Declined:
    """The bank did not take the transfer."""

    reason: str


@dataclass(frozen=True)
class Settlement:
    """How a claim ended."""

    claim: str
    status: Literal["refunded", "refused", "expired", "declined"]
    paid_cents: int = 0
    note: str = ""


@dataclass(frozen=True)
class Letter:
    """An e-mail to a customer."""

    to: str
    subject: str
    body: str


def euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} EUR"
