"""What goes wrong in one simulation: faults, each at its place, as one short text.

    append.3:crash-after insert.1:twice append.5:pause-before:60

says that the process which makes the third append dies right after it, that the first request reaches the store twice, and
that the process of the fifth append stands still for a minute before it. Places are counted over all processes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from loom.core.errors import InvalidDeclaration

FAULTS_MAX: Final = 6
"""So many faults a schedule has that is made from a seed."""

LONGER_S: Final = (1.0, 8.0, 20.0, 60.0)
SLOW_S: Final = (0.05, 0.5, 3.0, 20.0)
AMOUNTS: Final[Mapping[str, tuple[float, ...]]] = {"pause-before": LONGER_S, "pause-after": LONGER_S, "slow": SLOW_S}
"""The kinds that take a number of seconds, and those from which a seed chooses."""

_CRASHES: Final = ("crash-before", "crash-after")
_FAILURES: Final = ("fail-before", "fail-after")
_PAUSES: Final = ("pause-before", "pause-after")
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "append": (*_CRASHES, *_FAILURES, "reject", *_PAUSES, "slow"),
    "insert": (*_CRASHES, *_FAILURES, "twice", *_PAUSES, "slow"),
    "lease": (*_CRASHES, *_FAILURES, *_PAUSES, "slow"),
    "line": (*_CRASHES, *_FAILURES, "slow"),
    "read": ("crash-before", "fail-before", "pause-after", "slow"),
    "step": (*_CRASHES, "slow"),
}
"""What can go wrong where: at an append, the insert of a request, a claim or renewal of a lease, a line, a read, a step."""

_WEIGHTS: Final = {"append": 8, "step": 6, "insert": 4, "lease": 3, "read": 2, "line": 1}
_FAULT: Final = re.compile(
    r"(?P<place>[a-z]+)\.(?P<nth>[1-9]\d{0,8}):(?P<kind>[a-z-]+)(?::(?P<seconds>\d+(?:\.\d+)?))?"
)


class Fault(NamedTuple):
    """One thing that goes wrong, at the *nth* operation of its *place*; *seconds* where it is a matter of time."""

    place: str
    nth: int
    kind: str
    seconds: float = 0.0

    @property
    def strikes_after(self) -> bool:
        """Whether the operation is done when it strikes."""
        return self.kind.endswith("-after")

    def __str__(self) -> str:
        amount = f":{self.seconds:g}" if self.kind in AMOUNTS else ""
        return f"{self.place}.{self.nth}:{self.kind}{amount}"


_WHAT: Final[Mapping[str, str]] = {
    "append": "append to a log",
    "insert": "request that somebody makes",
    "lease": "claim, renewal or release of a lease",
    "line": "step of a line",
    "read": "reading of the store",
    "step": "step",
}
_WORDS: Final[Mapping[str, str]] = {
    "crash-before": "the process dies right before {it}",
    "crash-after": "the process dies right after {it}, before anybody is told",
    "fail-before": "{it} does not reach the store",
    "fail-after": "{it} is done, and its answer is lost",
    "reject": "{it} is refused, as if another had written first",
    "twice": "{it} reaches the store twice",
    "pause-before": "the process stands still for {seconds:g} s before {it}",
    "pause-after": "the process stands still for {seconds:g} s after {it}",
    "slow": "{it} takes {seconds:g} s",
}


def words(fault: Fault) -> str:
    """Return what *fault* is, in words."""
    return _WORDS[fault.kind].format(it=f"{_WHAT[fault.place]} {fault.nth}", seconds=fault.seconds)


class Schedule(NamedTuple):
    """The faults of one simulation. Of several at one place, the first counts."""

    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.faults))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return what *text* says, as `str` of a schedule writes it.

        Raises:
            InvalidDeclaration: a word of it is no fault.
        """
        return cls(tuple(_parsed(word) for word in text.split()))

    @classmethod
    def of(cls, seed: int, counts: Mapping[str, int]) -> Schedule:
        """Return the schedule that *seed* stands for, in a world where so many operations happen at each place: *counts*."""
        chance = random.Random(f"schedule {seed}")
        places = [place for place in _WEIGHTS if counts.get(place)]
        if not places:
            return cls()
        number = 1 + min(int(chance.expovariate(0.6)), FAULTS_MAX - 1)
        weights = [_WEIGHTS[place] for place in places]
        chosen = [_drawn(chance, place, counts[place]) for place in chance.choices(places, weights, k=number)]
        return cls(tuple(sorted({(fault.place, fault.nth): fault for fault in chosen}.values())))

    def without(self, dropped: Iterable[int]) -> Schedule:
        """Return the schedule without the faults at these numbers."""
        gone = set(dropped)
        return Schedule(tuple(fault for number, fault in enumerate(self.faults) if number not in gone))


class Places:
    """Counts the operations of a simulation, and says what goes wrong at each."""

    def __init__(self, schedule: Schedule) -> None:
        self.counts = dict.fromkeys(KINDS, 0)
        self._faults = {(fault.place, fault.nth): fault for fault in reversed(schedule.faults)}

    def next(self, place: str) -> Fault | None:
        """Count an operation at *place*, and return what goes wrong with it."""
        self.counts[place] += 1
        return self._faults.get((place, self.counts[place])) if self._faults else None


def simpler(fault: Fault) -> Iterator[Fault]:
    """Yield faults that are easier to think about than *fault*, the easiest first."""
    order = ("crash-after", "crash-before", "fail-before", "fail-after")
    known = [kind for kind in order if kind in KINDS[fault.place]]
    limit = known.index(fault.kind) if fault.kind in known else len(known)
    for kind in known[:limit]:
        yield Fault(fault.place, fault.nth, kind)
    for seconds in AMOUNTS.get(fault.kind, ()):
        if seconds < fault.seconds:
            yield fault._replace(seconds=seconds)
    if fault.nth > 1:
        yield fault._replace(nth=1)
        yield fault._replace(nth=fault.nth - 1)


def _drawn(chance: random.Random, place: str, count: int) -> Fault:
    kind = chance.choice(KINDS[place])
    seconds = chance.choice(AMOUNTS[kind]) if kind in AMOUNTS else 0.0
    return Fault(place, 1 + chance.randrange(count + 1 + count // 4), kind, seconds)


def _parsed(word: str) -> Fault:
    found = _FAULT.fullmatch(word)
    place, kind = (found["place"], found["kind"]) if found else ("", "")
    if found is None or kind not in KINDS.get(place, ()) or (found["seconds"] is not None) != (kind in AMOUNTS):
        kinds = ", ".join(KINDS[place]) if place in KINDS else "one of " + ", ".join(KINDS)
        hint = f"A fault reads PLACE.NUMBER:KIND, or PLACE.NUMBER:KIND:SECONDS for {', '.join(AMOUNTS)}; {place or 'a place'}: {kinds}."
        raise InvalidDeclaration(f"{word[:60]!r} is no fault", hint=hint)
    return Fault(place, int(found["nth"]), kind, float(found["seconds"] or 0))
