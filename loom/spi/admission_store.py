"""Where runs stand in line before they begin, for flows that say how many may (loom/core/starts.py).

A run passes up to three stages: a *quiet* time in which a newer start may take its place, a *line* for one of a number of
slots, and its *turn*, of which there are so many in a span of time. Then it has *begun*, and keeps its slot until it has ended.
The lines lie beside the logs, in the same store, so that one transaction sees both.

A run joins before its log is written, so that it cannot be there unseen. Until its log has grown it stands in line on trust,
for `VOID_AFTER_MS`; then it counts for nothing. Nor does a run count that has ended, whoever failed to say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId

ADMISSION_STORE_SPI_VERSION: Final = "1.0.0"

VOID_AFTER_MS: Final = 60_000
"""So long a run that has joined may take to be written."""

Stage: TypeAlias = Literal["quiet", "line", "turn", "begun"]


class Slots(NamedTuple):
    """At most *runs* of those in *line* have begun and have not ended."""

    line: str
    runs: int


class Pace(NamedTuple):
    """At most *runs* of those in *line* begin within any *per_ms*."""

    line: str
    runs: int
    per_ms: int


class Quiet(NamedTuple):
    """A run of *line* begins once *wait_ms* have passed in which no other joined."""

    line: str
    wait_ms: int


class Terms(NamedTuple):
    """What a run has to pass before it begins, in this order: *quiet*, *slots*, *pace*."""

    quiet: Quiet | None = None
    slots: Slots | None = None
    pace: Pace | None = None


class Admission(NamedTuple):
    """How a run stands. It may begin when its *stage* is `begun`.

    Else it can go on at *wake_at* (ms since the epoch, by the store's clock), or, where that is None, once its driver is called;
    *ahead* stand before it in its line. *newer* has taken its place: it never begins. *older* are those whose place it has
    taken just now.
    """

    stage: Stage
    wake_at: int | None = None
    ahead: int = 0
    newer: ExecutionId | None = None
    older: tuple[ExecutionId, ...] = ()


@runtime_checkable
class AdmissionStore(Protocol):
    """The lines. Each method is one transaction; a run is named by its id, a chain of runs by that of its first link.

    Whoever is given a slot has its driver called in that transaction (see `LeaseStore.claim`). Slots are given in the order
    in which the runs joined; one that is paused is passed over. Every method raises `StoreUnavailable`, with nothing changed.
    """

    async def join_lines(self, run: ExecutionId, terms: Terms, *, length: int, begins: bool = True) -> Admission | None:
        """Put a run at the end of its lines that is about to be written, after the first *length* events of its log.

        It passes as many stages as it can, the last only if it *begins* at once. None, with nothing changed, when the log has
        another length. A run that joined already, to be written at the same place, keeps where it stands.
        """
        ...

    async def admit(self, run: ExecutionId, terms: Terms, *, has_begun: bool = False) -> Admission:
        """Let a run begin if it may, and return how it stands. *terms* replace those it joined with.

        One that is in no line joins now: at the end, or, if it *has_begun* before there were lines, as begun.
        """
        ...

    async def leave_lines(self, run: ExecutionId) -> Sequence[ExecutionId]:
        """Take a run out that has ended, and return those that were given its slot."""
        ...

    async def sweep_lines(self) -> Sequence[ExecutionId]:
        """Make up for what was cut off in between, and return whose drivers were called.

        Runs that have ended or were never written leave; free slots are given; who can go on and sleeps is called.
        """
        ...

    async def admissions(self, runs: Sequence[ExecutionId]) -> Mapping[ExecutionId, Admission]:
        """Return how those of *runs* stand that are in a line; nothing is changed."""
        ...
