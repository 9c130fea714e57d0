"""What a chooser of a decision may return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a chooser returns when it knows more than the choice.

    By which *policy* it chose, with what *propensity* (the probability of this choice, for off-policy evaluation),
    from what *context*.
    """

    value: Any
    policy: Any = None
    propensity: float | None = None
    context: Any = None
