"""Declaring how runs of a flow may begin: how many at once, how fast, after what quiet, and once for what.

Each part is for the flow as a whole, or for each *key* apart: a dotted path into the input, as in `customer.id`. A declaration
does nothing by itself; driving/admission.py asks the store whether a run may begin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from loom.core.errors import InvalidDeclaration

COUNT_MAX: Final = 10_000
"""So many runs one key may have at once, or begin in one window, at most."""
SPAN_MAX: Final = timedelta(days=366)

_PATH: Final = re.compile(r"[^\s.$]+(\.[^\s.$]+)*")
_PATH_HINT: Final = "Write it as in 'customer.id': names of fields, with a dot between."


@dataclass(frozen=True, slots=True)
class Limit:
    """At most *runs* runs that have begun and have not ended, those that wait for something included."""

    runs: int
    key: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_count(f"Limit({self.runs!r})", self.runs)
        _refuse_path("Limit", self.key)


@dataclass(frozen=True, slots=True)
class Rate:
    """At most *runs* runs begin within any span of the length *per*."""

    runs: int
    per: timedelta = field(kw_only=True)
    key: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_count(f"Rate({self.runs!r})", self.runs)
        _refuse_span(f"Rate(per={self.per!r})", self.per)
        _refuse_path("Rate", self.key)


@dataclass(frozen=True, slots=True)
class Debounce:
    """A run begins once nobody has started another for the time *wait*; one that is started meanwhile takes its place."""

    wait: timedelta
    key: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_span(f"Debounce({self.wait!r})", self.wait)
        _refuse_path("Debounce", self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """How runs of a flow may begin. `@loom.flow(starts=loom.Starts(concurrency=loom.Limit(2, key="customer.id")))`.

    A run waits for its quiet time (*debounce*) first, then for a place (*concurrency*), then for its turn (*rate*). *dedupe* is
    the path of what one run is started for: a second start for the same thing is told where the first stands.

    Raises:
        InvalidDeclaration: a part is not what its name says, or nothing is declared.
    """

    concurrency: Limit | None = None
    rate: Rate | None = None
    debounce: Debounce | None = None
    dedupe: str | None = None

    def __post_init__(self) -> None:
        for name, kind in (("concurrency", Limit), ("rate", Rate), ("debounce", Debounce)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                hint = f"Write it as in {name}=loom.{kind.__name__}(...)."
                raise InvalidDeclaration(f"Starts({name}={given!r}) is no loom.{kind.__name__}", hint=hint)
        _refuse_path("Starts(dedupe=...)", self.dedupe)
        if not self.is_counted and self.dedupe is None:
            raise InvalidDeclaration("Starts() declares nothing", hint="Leave it off, or name a part.")

    @property
    def is_counted(self) -> bool:
        """Whether a run may have to wait before it begins."""
        return not (self.concurrency is None and self.rate is None and self.debounce is None)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths into the input that the parts name."""
        parts = (self.concurrency, self.rate, self.debounce)
        keys = [part.key for part in parts if part is not None and part.key is not None]
        return (*keys, self.dedupe) if self.dedupe is not None else tuple(keys)


def _refuse_count(told: str, runs: object) -> None:
    if type(runs) is not int or not 1 <= runs <= COUNT_MAX:
        raise InvalidDeclaration(f"{told}: a number of runs, from 1 to {COUNT_MAX:,}")


def _refuse_span(told: str, span: object) -> None:
    if not isinstance(span, timedelta) or not timedelta(milliseconds=1) <= span <= SPAN_MAX:
        hint = "Write it as in timedelta(minutes=1), up to a year."
        raise InvalidDeclaration(f"{told}: no time that a run can be kept waiting for", hint=hint)


def _refuse_path(told: str, path: object) -> None:
    if path is not None and (not isinstance(path, str) or not _PATH.fullmatch(path)):
        raise InvalidDeclaration(f"{told}: {path!r} is no path into an input", hint=_PATH_HINT)
