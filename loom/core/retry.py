"""How often a step is tried, and how long it rests between two tries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from loom.core.errors import InvalidDeclaration

DELAY_MAX: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy: up to *attempts* tries in all, resting `delay * factor ** (n - 1)` after the n-th.

    The rest is at most *delay_max* (five minutes, or *delay* where that is longer), plus up to *jitter* (a fraction of it) that is derived from the run's seed, so
    it is the same however often it is asked. *on* limits retrying to these types of error; empty means any. A step
    with `idempotent=False` is only ever tried again after an error that *on* lists. A declared failure is final
    unless *on* lists its type.
    """

    attempts: int = 3
    delay: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    delay_max: timedelta | None = None
    jitter: float = 0.0
    on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidDeclaration(f"Retry(attempts={self.attempts!r}): at least one attempt is needed")
        if self.delay < timedelta(0) or self.factor < 1 or self.jitter < 0:
            raise InvalidDeclaration(f"{self!r}: delays are not negative, factor is at least 1, jitter at least 0")
        if self.delay_max is not None and self.delay_max < self.delay:
            raise InvalidDeclaration(f"{self!r}: delay_max is shorter than delay")

    def delay_ms(self, attempt: int, fraction: float) -> int:
        """Return the rest in milliseconds after attempt number *attempt* (from 1); *fraction* is in [0, 1)."""
        longest = self.delay_max or max(self.delay, DELAY_MAX)
        exponent = min(attempt - 1, 64)
        rest = min(self.delay.total_seconds() * self.factor**exponent, longest.total_seconds())
        return round(rest * 1000 * (1 + self.jitter * fraction))

    def rest_ms(self, error: BaseException, attempt: int, *, is_final: bool, fraction: float) -> int | None:
        """Return the rest before the attempt after number *attempt*, None when *error* ends it.

        *is_final* says that such an error is final unless `on` lists it: a declared failure, or any error of a step
        that is not idempotent.
        """
        if attempt >= self.attempts:
            return None
        if not isinstance(error, self.on) and (self.on or is_final):
            return None
        return self.delay_ms(attempt, fraction)


ONCE = Retry(attempts=1)
"""The default: a step that fails has failed."""
