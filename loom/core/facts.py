"""The facts that a log may hold: one payload a type, with the names its JSON has.

A fact that starts a syscall carries where it was asked (`id`, `ordinal`, see kernel rule 9.1) and the digest of what it
was asked with; the fact that ends it cites the start by sequence. Facts are named tuples (docs/adr/0001), made by keyword;
a field that is None is left out of the JSON. Nothing is ever removed from here: a change of shape is a new version.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from loom.core.json import JsonObject

Verdict: TypeAlias = Literal["done", "failed", "retry"]


class ExecutionStarted(NamedTuple):
    """An execution began. *seed* feeds every derived value; *rules* pins identity, delivery and derivation."""

    flow: str
    fingerprint: str
    seed: str
    rules: JsonObject
    version: str = "1"
    input: Any = None
    defaulted: bool | None = None
    attributes: JsonObject | None = None


class ExecutionSuspended(NamedTuple):
    """Nothing could move; *wake_at* is when the run goes on by itself, ms since the epoch, None: only when asked."""

    wake_at: int | None = None


class ExecutionResumed(NamedTuple):
    """A driver took the run up again; *cut_off* says that the drive before did not end by parking."""

    cut_off: bool | None = None


class ExecutionCompleted(NamedTuple):
    """The flow returned *result*."""

    result: Any = None


class ExecutionFailed(NamedTuple):
    """*failure* escaped the flow; *cause* is the start of the syscall it came from, None: the flow's own error."""

    failure: JsonObject
    cause: int | None = None


class ExecutionRetried(NamedTuple):
    """A failed run was opened again.

    *void* are starts that are as if never asked, *reopened* starts whose outcome is void and that are tried again
    under their old key (kernel rule 8.1).
    """

    generation: int
    void: list[int]
    reopened: list[int]
    cuts: list[int]


class ExecutionMigrated(NamedTuple):
    """The run went on under other code; *differences* are arguments that differ from the recorded ones."""

    before: str
    after: str
    differences: list[JsonObject]


class ExecutionDiverged(NamedTuple):
    """What the code asks is not what the log recorded; *difference* shows both sides. Parked until code is mended."""

    difference: JsonObject


class StepStarted(NamedTuple):
    """A step was asked with *args* (by name).

    *tool* is its declared id where the identity does not say it; *once* marks a step that is not idempotent,
    *gen* the generation after retries of the run.
    """

    id: str
    ordinal: int
    digest: str
    args: Any = None
    tool: str | None = None
    once: bool | None = None
    gen: int | None = None


class StepAttempted(NamedTuple):
    """A further attempt of a step that is not idempotent begins; on disk before the attempt."""

    start: int
    attempt: int


class StepAttemptFailed(NamedTuple):
    """Attempt *attempt* failed and another may follow, not before *due_at* (ms since the epoch)."""

    start: int
    attempt: int
    failure: JsonObject
    due_at: int


class StepCompleted(NamedTuple):
    """A step ran to its end; *result* is what every replay is given."""

    start: int
    result: Any = None


class StepFailed(NamedTuple):
    """A step failed for good after *attempts* tries; every replay raises this again."""

    start: int
    failure: JsonObject
    attempts: int


class EffectIndoubt(NamedTuple):
    """A step that is not idempotent was started and nobody knows whether it happened; a person decides."""

    start: int
    reason: str


class EffectResolved(NamedTuple):
    """A person decided an effect in doubt.

    It was *done* (with *result*), *failed* (with *failure*), or is to *retry* under the same key.
    """

    start: int
    verdict: Verdict
    result: Any = None
    failure: JsonObject | None = None


class GateOpened(NamedTuple):
    """The run waits for an answer at *label*.

    *schema* is the JSON Schema of the answer, *show* what is shown, *shown* its digest, *key* what outside
    systems match, *due_at* when it times out (ms since the epoch).
    """

    id: str
    ordinal: int
    digest: str
    label: str
    schema: JsonObject | None = None
    show: Any = None
    shown: str | None = None
    key: str | None = None
    due_at: int | None = None
    gen: int | None = None


class GateAnswered(NamedTuple):
    """A person or program answered; the principal is in the metadata."""

    start: int
    answer: Any = None


class GateTimedOut(NamedTuple):
    """Nobody answered in time."""

    start: int


class TimerSet(NamedTuple):
    """The run sleeps until *due_at*, ms since the epoch."""

    id: str
    ordinal: int
    digest: str
    due_at: int
    gen: int | None = None


class TimerFired(NamedTuple):
    """A sleep is over."""

    start: int


class ScopeOpened(NamedTuple):
    """Branches opened: *kind* is parallel or map, *branches* their number or names."""

    id: str
    ordinal: int
    digest: str
    kind: str
    branches: Any = None
    gen: int | None = None


class ScopeCut(NamedTuple):
    """Branch *branch* of a scope failed, and the others were cut where they stood."""

    start: int
    branch: str


class DecisionRecorded(NamedTuple):
    """A non-deterministic choice: what, from what (*candidates*), by which *policy*, with what *propensity*.

    A chooser that raised has *failure* instead of *choice*.
    """

    id: str
    ordinal: int
    digest: str
    choice: Any = None
    candidates: Any = None
    policy: Any = None
    propensity: float | None = None
    context: Any = None
    failure: JsonObject | None = None
    gen: int | None = None


class StreamSettled(NamedTuple):
    """A stream ended; *chunks* is the one durable record of what went out live."""

    id: str
    ordinal: int
    digest: str
    chunks: Any = None
    failure: JsonObject | None = None
    gen: int | None = None


class UserEvent(NamedTuple):
    """A domain event of the author's own type; the kernel folds it to nothing but remembers that it was made."""

    id: str
    ordinal: int
    digest: str
    data: Any = None
    gen: int | None = None


class RequestDropped(NamedTuple):
    """A request of the lane came too late to take effect."""

    kind: str
    key: str
    reason: str


Start: TypeAlias = "StepStarted | GateOpened | TimerSet | ScopeOpened | DecisionRecorded | StreamSettled | UserEvent"
"""Facts that a syscall writes when it is asked, comparable on replay."""
