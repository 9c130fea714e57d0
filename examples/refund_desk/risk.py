"""How risky a claim is: a table of rules, each worth some points. No clock, no database, so anybody can check the sum."""

from collections.abc import Callable
from typing import NamedTuple

from models import Claim, History, Risk


class Rule(NamedTuple):
    points: int
    reason: str
    holds: Callable[[Claim, History], bool]


RULES = (
    Rule(40, "over 100 EUR", lambda claim, _: claim.amount_cents > 100_00),
    Rule(20, "claimed more than 60 days after the order", lambda claim, _: claim.ordered_days_ago > 60),
    Rule(20, "a customer for less than 90 days", lambda _, past: past.customer_for_days < 90),
    Rule(20, "over half of all that was ever spent", lambda claim, past: claim.amount_cents * 2 > past.spent_cents),
    Rule(30, "three or more claims within a year", lambda _, past: past.claims_last_year >= 3),
    Rule(30, "a claim was refused before", lambda _, past: past.refused_ever > 0),
)

ASK_FROM = 40
"""From this score on a person decides."""


def score(claim: Claim, past: History) -> Risk:
    held = [rule for rule in RULES if rule.holds(claim, past)]
    return Risk(min(100, sum(rule.points for rule in held)), [rule.reason for rule in held])
