"""The state of an execution: what a fold of its log says (kernel/fold.py). Immutable, with shared structure.

The hot fields are few, since every event makes a new state; what changes rarely is in `facts`. Settled syscalls hang on a
list that shares its tail with every earlier state, so keeping all states of a run costs about the changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from rpds import HashTrieMap, List

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId, Incarnation

Status: TypeAlias = Literal[
    "new",
    "running",
    "suspended",
    "in_doubt",
    "diverged",
    "forked",
    "paused",
    "completed",
    "failed",
    "cancelled",
    "continued",
]
FOLD_VERSION: Final = "1.0.0"
"""Of what a fold makes of a log: raised with the shape of a state, and with the meaning of an event."""
TERMINAL: Final[frozenset[str]] = frozenset({"completed", "failed", "cancelled", "continued"})


class Settled(NamedTuple):
    """A syscall and its outcome. A syscall that is its own outcome (a decision) has the same event twice."""

    start: EventEnvelope[Any]
    outcome: EventEnvelope[Any]


def is_cut(start: EventEnvelope[Any], cuts: Mapping[int, Settled]) -> bool:
    """Whether *start* stood open below one of the scopes when that was cut, and under no shield."""
    return any(
        start.sequence < cut.outcome.sequence
        and start.payload.id.startswith(f"{cut.start.payload.id}/")
        and start.sequence not in (cut.outcome.payload.shielded or ())
        for cut in cuts.values()
    )


class Attempts(NamedTuple):
    """How an open step stands.

    How many attempts failed so far, when the next may begin (ms since the epoch), whether one may be in flight, the
    event that put it in doubt while it is, the last failure, and how many drivers were lost while it was in flight.
    """

    failed: int = 0
    due_at: int = 0
    in_flight: bool = True
    doubt: EventEnvelope[Any] | None = None
    last: Mapping[str, Any] | None = None
    crashes: int = 0


UNTRIED: Final = Attempts()


class RunFacts(NamedTuple):
    """What changes rarely in a run. *result* and *failure* are as encoded; times are ms since the epoch.

    *chain* is the id and incarnation of the first link, None in a run that is its own first. *drives* is how often a driver took
    the run up, *recoveries* how many drivers in a row were lost, *why* what a run waits for that may not begin yet. *cancel* and
    *grace_ended* are the events (the end itself, where it was forced), *held* the topics that an operator holds back, *outcomes*
    what was learned of decisions later.
    """

    flow: str = ""
    version: str = "1"
    fingerprint: str = ""
    seed: str = ""
    rules: Mapping[str, Any] = {}
    input: Any = None
    defaulted: bool | None = None
    attributes: Mapping[str, Any] = {}
    principal: str | None = None
    started_at: int = 0
    generation: int = 0
    drives: int = 0
    wake_at: int | None = None
    why: str | None = None
    result: Any = None
    failure: Mapping[str, Any] | None = None
    cause: int | None = None
    difference: Mapping[str, Any] | None = None
    noted: Mapping[int, str] = {}
    """By the sequence of a start: the digest of other arguments that changed code asked it with, and that was noted."""
    patches: Mapping[str, bool] = {}
    """By the name of a patch: whether the run takes its way."""
    chain: tuple[ExecutionId, Incarnation] | None = None
    link: int = 1
    next: str | None = None
    parent: Mapping[str, Any] | None = None
    due_at: int | None = None
    recoveries: int = 0
    cancel: EventEnvelope[Any] | None = None
    grace_ended: EventEnvelope[Any] | None = None
    is_paused: bool = False
    held: frozenset[str] = frozenset()
    outcomes: tuple[EventEnvelope[Any], ...] = ()
    forked: EventEnvelope[Any] | None = None
    """The event with which the run left the one that it is a fork of."""
    simulated: bool = False
    """Whether simulators stand in for its effects."""
    seeds: tuple[tuple[int, str], ...] = ()
    """The seeds that were in force before *seed*, each with the sequence that ended it."""

    def seed_at(self, sequence: int) -> str:
        """Return the seed in force where event *sequence* was the last that was seen (kernel rule 5.5)."""
        return next((seed for end, seed in self.seeds if sequence < end), self.seed)


class ExecutionState(NamedTuple):
    """Where an execution stands after its first `length` events.

     *open* are the syscalls asked and not settled, by the sequence of their start; *settled* the others, newest
    outcome first; *attempts* what is known of open steps beyond their start; *gates* the open syscalls that wait
    for a person (gates and effects in doubt); *cuts* the scopes that were cut, closed or timed out, by their start.
    """

    execution_id: ExecutionId
    status: Status
    sequence: int
    at: int
    open: HashTrieMap[int, EventEnvelope[Any]]
    settled: List[Settled]
    gates: HashTrieMap[int, EventEnvelope[Any]]
    attempts: HashTrieMap[int, Attempts]
    cuts: HashTrieMap[int, Settled]
    facts: RunFacts

    @property
    def length(self) -> int:
        """The number of events folded."""
        return self.sequence + 1

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL


def empty_state(execution_id: ExecutionId) -> ExecutionState:
    """Return the state of an execution before its first event."""
    nothing: Any = HashTrieMap()
    return ExecutionState(execution_id, "new", -1, 0, nothing, List(), nothing, nothing, nothing, RunFacts())
