"""Declaring how long what has ended is kept. A declaration does nothing by itself: `loom retention run --policy` deletes by it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol, TypedDict, Unpack

from loom.core.errors import InvalidDeclaration


class RetentionKeys(TypedDict, total=False):
    """What `retention_policy` takes; see there."""

    terminal_ttl: timedelta
    snapshots: int | None
    content: timedelta | None
    pins: PinPredicate | None


TTL_MIN: Final = timedelta(minutes=1)
"""So long, at least, an id stays taken by a run that has ended: whoever started it may still be asking whether it is there."""


class PinPredicate(Protocol):
    """Says what is to stay, however old: evidence that a finding names, or what a court has asked for. Asked anew by each pass.

    What it raises ends the pass.
    """

    async def pinned_runs(self, executions: Sequence[str]) -> Collection[str]:
        """Return which of *executions* are pinned; the contents that they cite are, too."""
        ...

    async def pinned_contents(self, refs: Sequence[str]) -> Collection[str]:
        """Return which of *refs* are pinned."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How long what has ended is kept: a run, with its links and children, for *terminal_ttl* after the last of it.

    Of each run the newest *snapshots* are kept, all of them where it is None. A content is kept for *content* after the last run that cites it has ended, which is no shorter. What *pins* name stays.

    Raises:
        InvalidDeclaration: that is no such time or number, or nothing that names pins.
    """

    terminal_ttl: timedelta
    snapshots: int | None = None
    content: timedelta | None = None
    pins: PinPredicate | None = None

    def __post_init__(self) -> None:
        _require_time("terminal_ttl", self.terminal_ttl, "what has ended")
        if self.snapshots is not None and (type(self.snapshots) is not int or self.snapshots < 1):
            hint = "Write it as in snapshots=3: of each run one is kept at least, the newest."
            raise InvalidDeclaration(f"snapshots={self.snapshots!r} is no number of snapshots to keep", hint=hint)
        if self.content is not None:
            _require_time("content", self.content, "what nobody needs any more")
            if self.content < self.terminal_ttl:
                hint = "Keep contents at least as long as the logs that name them."
                raise InvalidDeclaration(f"content={self.content} is shorter than terminal_ttl", hint=hint)
        if self.pins is not None and not (hasattr(self.pins, "pinned_runs") and hasattr(self.pins, "pinned_contents")):
            hint = "Give an object with pinned_runs and pinned_contents: see loom.PinPredicate."
            raise InvalidDeclaration(f"pins={self.pins!r} names no pins", hint=hint)


def _require_time(name: str, given: object, what: str) -> None:
    if not isinstance(given, timedelta) or given < TTL_MIN:
        hint = f"Write it as in {name}=timedelta(days=30): a minute at least."
        raise InvalidDeclaration(f"{name}={given!r} is no time to keep {what}", hint=hint)


def retention_policy(**keys: Unpack[RetentionKeys]) -> RetentionPolicy:
    """Return how long what has ended is kept: `POLICY = loom.retention_policy(terminal_ttl=timedelta(days=30))`.

    *terminal_ttl* is how long a run is kept after it has ended, *snapshots* how many of each run are, and *content* how long a
    content is after that: nothing is deleted unless `loom retention run` or `loom sweep content` is called. *pins* say what both
    leave alone.

    Raises:
        InvalidDeclaration: a key is none, which is named, is missing, or its value is none.
    """
    known = RetentionPolicy.__dataclass_fields__
    for name in keys:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There is {', '.join(known)}."
            raise InvalidDeclaration(f"retention_policy() has no key {name!r}", hint=hint)
    if "terminal_ttl" not in keys:
        hint = "Write it as in terminal_ttl=timedelta(days=30)."
        raise InvalidDeclaration("retention_policy() needs terminal_ttl", hint=hint)
    return RetentionPolicy(**keys)
