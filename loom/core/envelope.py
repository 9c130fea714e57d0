"""One entry of a log, decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from loom.core.ids import ExecutionId

P = TypeVar("P", covariant=True)

NO_METADATA: Final[Mapping[str, Any]] = {}
EDITED: Final = "edited"
"""Metadata key of what a person put into a fork in the place of what its source has there: the sequence of that."""
SERVED: Final = "served"
"""Metadata key of an outcome that a fork took over from the run it is a fork of: the sequence of that there."""
AS_OF: Final = "as_of"
"""Metadata key of an outcome that stands for one of another time: that time, ms since the epoch, which is `ctx.now()` after it."""
SIMULATED: Final = "simulated"
"""Metadata key of the event from which on the effects of a run are simulated."""


class EventEnvelope(NamedTuple, Generic[P]):
    """A fact about one execution, at its place in the log.

    *at* is in milliseconds since the epoch, UTC, and never runs backward within a log. *payload* is the fact of
    the kernel's type, or the plain JSON value of a user's type. *metadata* holds what is about the event and not
    part of the fact: `v` (payload version, absent: 1), `principal`, `request`, `edited`, `served`, `as_of`, `simulated`.
    """

    # A named tuple, not a frozen dataclass: a third of the time to make one, and a log has many (docs/adr/0001).
    execution_id: ExecutionId
    sequence: int
    type: str
    at: int
    payload: P
    metadata: Mapping[str, Any] = NO_METADATA
