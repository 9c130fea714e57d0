"""Declaring how long what has ended is kept. A declaration does nothing by itself: `loom retention run --policy` deletes by it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from loom.core.errors import InvalidDeclaration

TTL_MIN: Final = timedelta(minutes=1)
"""So long, at least, an id stays taken by a run that has ended: whoever started it may still be asking whether it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How long what has ended is kept: a run, with its links and children, for *terminal_ttl* after the last of it.

    Raises:
        InvalidDeclaration: that is no such time.
    """

    terminal_ttl: timedelta

    def __post_init__(self) -> None:
        given: object = self.terminal_ttl
        if not isinstance(given, timedelta) or given < TTL_MIN:
            hint = "Write it as in terminal_ttl=timedelta(days=30): a minute at least."
            raise InvalidDeclaration(f"terminal_ttl={given!r} is no time to keep what has ended", hint=hint)


def retention_policy(**keys: timedelta) -> RetentionPolicy:
    """Return how long what has ended is kept: `POLICY = loom.retention_policy(terminal_ttl=timedelta(days=30))`.

    *terminal_ttl* is how long a run is kept after it has ended. Nothing is deleted unless `loom retention run` is called.

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
