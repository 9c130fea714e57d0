"""The order in which work that is ready gets a place, as an interface. It decides when, never what: no log depends on it."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

SCHEDULER_SPI_VERSION: Final = "1.0.0"


class Job(NamedTuple):
    """Something that waits for a place: *id* is unique among the jobs at hand.

    *key* is on whose account it is (a flow, a tenant); a smaller *priority* comes first, where that counts.
    """

    id: str
    key: str = ""
    priority: int = 0


class Scheduler(Protocol):
    """Which job is next. It keeps everything in memory, waits for nothing, and is asked from one task at a time."""

    def add(self, job: Job) -> None:
        """Have *job* wait for a place. An id that waits or runs already is left as it is."""
        ...

    def take(self) -> Job | None:
        """Give the next job a place and return it; None while there is no place, or nobody who may have one."""
        ...

    def done(self, id: str) -> None:
        """Free the place of a job that was taken; an id that has none is no error."""
        ...

    def cancel(self, id: str) -> bool:
        """Take a waiting job out, and return whether there was one; what runs is its driver's to stop."""
        ...

    def waiting(self) -> int:
        """Return how many jobs wait for a place."""
        ...
