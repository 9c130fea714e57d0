"""What a chooser of a decision may return."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
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

    @staticmethod
    def of(chosen: Any) -> Choice:
        """Return what a chooser returned as a choice, its propensity as a number that a log keeps.

        Raises:
            TypeError, ValueError: the propensity is no number, or no finite one.
        """
        choice = chosen if isinstance(chosen, Choice) else Choice(value=chosen)
        given: Any = choice.propensity
        if given is None:
            return choice
        if not isinstance(given, Real):
            raise TypeError(f"a propensity is a number, not {type(given).__name__}")
        if not math.isfinite(given):
            raise ValueError(f"a propensity is a probability, not {given}")
        return replace(choice, propensity=float(given))
