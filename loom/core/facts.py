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
    """An execution began. *seed* feeds every derived value; *rules* pins identity, delivery and derivation.

    *chain* is the id and incarnation of the first link of a chain, *link* this one's number, from 2 (kernel rule 11.2).
    *parent* says who spawned it (`execution_id`, `policy`, `depth`), *due_at* when its deadline is, ms since the epoch.
    """

    flow: str
    fingerprint: str
    seed: str
    rules: JsonObject
    version: str = "1"
    input: Any = None
    defaulted: bool | None = None
    attributes: JsonObject | None = None
    chain: list[Any] | None = None
    link: int | None = None
    parent: JsonObject | None = None
    due_at: int | None = None


class ExecutionSuspended(NamedTuple):
    """Nothing could move; *wake_at* is when the run goes on by itself, ms since the epoch, None: only when asked.

    *why* says in words what a run waits for that may not begin yet.
    """

    wake_at: int | None = None
    why: str | None = None


class ExecutionResumed(NamedTuple):
    """A driver took the run up again; *cut_off* says that the drive before did not end by parking."""

    cut_off: bool | None = None


class ExecutionTakenOver(NamedTuple):
    """A driver took the run from another that had stopped without parking: *driver*, whose lease was *found* so.

    *token* is the place of this fact in the log, so it is higher than that of every driver before; from here on each append of
    theirs is refused (kernel rule 7.2).
    """

    token: int
    driver: str
    found: Literal["lapsed", "gone", "released"]


class ExecutionPaused(NamedTuple):
    """A person stopped the run from going on; what others ask of it waits until it is unpaused."""

    reason: str | None = None


class ExecutionUnpaused(NamedTuple):
    """The run may go on."""


class ExecutionCancelRequested(NamedTuple):
    """Somebody, a parent or the run's deadline (*cause*) wants it to end; the flow sees it as `loom.Cancelled`.

    *due_at* is when its grace is over, ms since the epoch: what the flow still does then is cut off. *closed* are the starts
    of the gates and receives that nobody waits at any more.
    """

    cause: Literal["request", "parent", "deadline"]
    due_at: int
    reason: str | None = None
    closed: list[int] | None = None


class ExecutionGraceEnded(NamedTuple):
    """The grace of a cancelled run is over: even what is shielded is cut off."""


class ExecutionCancelled(NamedTuple):
    """The run ended because it was cancelled, after its clean-up; *failure* is what the clean-up itself failed with.

    One that was `superseded` made room for a newer one before it began; one that was `imported` goes on, if it does, in the store
    that it comes from.
    """

    cause: Literal["request", "parent", "deadline", "force", "superseded", "imported"]
    reason: str | None = None
    failure: JsonObject | None = None


class ExecutionContinued(NamedTuple):
    """This link of a chain is closed; the run goes on as *next*, started with *input* (kernel rule 11.2)."""

    next: str
    input: Any = None


class ExecutionDenied(NamedTuple):
    """An authorizer refused *action* to *principal*; nothing else happened."""

    action: str
    reason: str
    principal: str | None = None


class OutcomeAttached(NamedTuple):
    """What came of a decision was learned later: *value* belongs to the decision recorded at *start*."""

    start: int
    value: Any = None
    note: str | None = None


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


class ExecutionForked(NamedTuple):
    """This log is a copy of another up to here, and goes its own way from now on (kernel rule 11.1).

    *source* is that other (`execution_id`, `incarnation`, `sequence`: the last event that was copied), *seed* feeds what is
    derived from here on, *void* are the starts that stood open there and are asked anew. *parent* is the run that waits for this
    one, where a child was forked with its parent; `stands_for` in it is the child that it takes the place of. *given* are the
    arguments (`args`, by name) that a person put in the place of those of the step at `start`. *promotes* is the simulated fork
    that this one does for real. *reason* says why. *reuse* says that it is served, from here on, the outcomes that its source has for what
    it asks alike: `only` those, or what else it asks is `live`.
    """

    source: JsonObject
    seed: str
    void: list[int]
    parent: JsonObject | None = None
    given: JsonObject | None = None
    reason: str | None = None
    promotes: str | None = None
    reuse: Literal["only", "live"] | None = None


class ExecutionMigrated(NamedTuple):
    """The run went on under other code; *differences* are arguments that differ from the recorded ones.

    *unpatched* are the patches whose way the run does not take: it had passed them when it was asked for them first. Where
    somebody moved it on purpose, *flow* and *version* are what it is a run of from here on, *reason* says why, and *given* is
    what its body is given instead of its input: `input`, or `defaulted`; None: what it was given before.
    """

    before: str
    after: str
    differences: list[JsonObject]
    unpatched: list[str] | None = None
    flow: str | None = None
    version: str | None = None
    given: JsonObject | None = None
    reason: str | None = None


class PatchApplied(NamedTuple):
    """`ctx.patched(name)` was asked for the first time, and says yes in this run from here on."""

    name: str


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


class MessageAwaited(NamedTuple):
    """The run waits for the next message of *topic*, until *due_at* (ms since the epoch) where it has a timeout."""

    id: str
    ordinal: int
    digest: str
    topic: str
    due_at: int | None = None
    gen: int | None = None


class MessageReceived(NamedTuple):
    """The message with *number* in the lane was taken by the wait at *start*; *sent_at* is ms since the epoch."""

    start: int
    number: int
    sent_at: int
    message: Any = None


class MessageTimedOut(NamedTuple):
    """No message came in time."""

    start: int


class TopicHeld(NamedTuple):
    """An operator holds the messages of *topic* back from the flow."""

    topic: str
    reason: str | None = None


class TopicReleased(NamedTuple):
    """The messages of *topic* are delivered again, in their order."""

    topic: str


class ScopeOpened(NamedTuple):
    """Branches may run side by side: *kind* says how the scope ends, *branches* is their number or names.

    *due_at* is when the scope times out, ms since the epoch.
    """

    id: str
    ordinal: int
    digest: str
    kind: str
    branches: Any = None
    gen: int | None = None
    due_at: int | None = None


class ScopeClosed(NamedTuple):
    """Enough branches of a scope had ended: *counted* names them, in order; the others were cut where they stood.

    *shielded* are the syscalls below it that stood open under a shield, and go on.
    """

    start: int
    counted: list[str]
    shielded: list[int] | None = None


class ScopeTimedOut(NamedTuple):
    """The time of a scope was over, and its branches were cut where they stood, but for what is *shielded*."""

    start: int
    shielded: list[int] | None = None


class ScopeCut(NamedTuple):
    """Branch *branch* of a scope failed, and the others were cut where they stood, but for what is *shielded*."""

    start: int
    branch: str
    shielded: list[int] | None = None


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


Start: TypeAlias = (
    "StepStarted | GateOpened | TimerSet | MessageAwaited | ScopeOpened | DecisionRecorded | StreamSettled | UserEvent"
)
"""Facts that a syscall writes when it is asked, comparable on replay."""
