"""What the verbs refuse, beside what the kernel does. The tree of all errors is drawn in loom/kernel/errors.py."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from loom.core.errors import LoomError
from loom.core.sides import side_words
from loom.driving.verdicts import Verdict
from loom.kernel.errors import LogNewerThanCode

_WAYS_SHOWN: Final = 10


class ExecutionNotFound(LoomError):
    """There is no such execution in this store."""

    code = "execution-not-found"

    def __init__(self, *, execution_id: str, store: str, near: Sequence[str] = ()) -> None:
        self.execution_id, self.store, self.near = execution_id, store, tuple(near)
        self.hint = f"Did you mean {', '.join(near)}?" if near else "`loom ps` lists what this store holds."
        super().__init__(f"no execution {execution_id!r} in {store}")


class ExecutionAlreadyExists(LoomError):
    """The id that the caller chose is taken; nothing ran (kernel rule 3.1)."""

    code = "execution-exists"
    hint = "Choose another id, or resume the execution that has it."

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"an execution {execution_id!r} exists already")


class Denied(LoomError):
    """The app's authorizer does not let *principal* do that. The refusal stands on the log; nothing else happened."""

    code = "denied"
    hint = "Act as somebody who may, or have it allowed by the authorizer of the app."

    def __init__(self, *, execution_id: str, action: str, principal: str | None, reason: str) -> None:
        self.execution_id, self.action, self.principal, self.reason = execution_id, action, principal, reason
        super().__init__(f"{principal or 'nobody in particular'} may not {action} {execution_id}: {reason}")


class CodeChanged(LoomError):
    """The code of the flow is not that of the run, and its setting is to refuse such runs; nothing was written."""

    code = "code-changed"

    def __init__(self, *, execution_id: str, flow: str, pinned: str, present: str, has_failed: bool = False) -> None:
        self.execution_id, self.flow, self.pinned, self.present = execution_id, flow, pinned, present
        move = f"migrate {execution_id} --to current" if not has_failed else f"retry {execution_id} --on-change check"
        self.hint = f"Deploy the code it began with, or have it go on with this one: loom {move}"
        super().__init__(
            f"{execution_id} began with {pinned} of {flow}, the code is {present}, and the app refuses that"
        )


class CodeNotPresent(LoomError):
    """A run was to be moved to code with another fingerprint than the code has; nothing was written."""

    code = "code-not-present"

    def __init__(self, *, execution_id: str, asked: str, present: str) -> None:
        self.execution_id, self.asked, self.present = execution_id, asked, present
        self.hint = f"Move it to the code as it is (--to {present}, or --to current), or deploy the code that is meant."
        super().__init__(f"{execution_id} cannot be moved to {asked}: the code is {present}")


class ExecutionDriven(LoomError):
    """Somebody drives the run, so its code cannot be exchanged under it; nothing was written."""

    code = "execution-driven"
    hint = "Pause it, or wait until it waits for something; then try again."

    def __init__(self, *, execution_id: str, driver: str) -> None:
        self.execution_id, self.driver = execution_id, driver
        super().__init__(f"{execution_id} is being driven by {driver}")


class ForkRefused(LoomError):
    """The run cannot be forked there, or not with that edit; nothing was written."""

    code = "fork-refused"

    def __init__(self, *, execution_id: str, why: str, hint: str = "") -> None:
        self.execution_id, self.why = execution_id, why
        self.hint = hint or f"`loom logs {execution_id}` shows its events and their numbers."
        super().__init__(f"{execution_id} cannot be forked: {why}")


class MigrationRefused(LoomError):
    """What the run has recorded does not fit the code that it was to be moved to; nothing was written.

    *recorded* and *asked* are both sides where they differ, as JSON objects, *where* is the place in the author's code.
    """

    code = "migration-refused"
    hint = "Have the code ask for what is recorded (`ctx.patched` keeps the old way), or give an input under which it does."

    def __init__(self, *, execution_id: str, why: str, verdict: Verdict | None = None) -> None:
        self.execution_id, self.why = execution_id, why
        self.recorded, self.asked, self.where = (
            (verdict.recorded, verdict.asked, verdict.where) if verdict else (None, None, "")
        )
        told = [f"what {execution_id} has recorded does not fit the code"]
        if self.recorded is not None or self.asked is not None:
            told += [f"recorded {side_words(self.recorded)}", f"asked {side_words(self.asked)}"]
        super().__init__("\n".join([*told, why]))


class ExecutionNotFailed(LoomError):
    """Only a failed execution can be retried."""

    code = "execution-not-failed"
    hint = "`loom resume` goes on with a run that waits or was cut off."

    def __init__(self, *, execution_id: str, status: str) -> None:
        self.execution_id, self.status = execution_id, status
        super().__init__(f"{execution_id} is {status}, not failed, so there is nothing to retry")


class ExecutionCompensated(LoomError):
    """What a retry would go on from was undone by a saga."""

    code = "execution-compensated"
    hint = "Start it anew, under another id."

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        super().__init__(f"{execution_id} undid what it had done before it failed, so a retry has nothing to build on")


class ChildrenCancelled(LoomError):
    """A retry would wait for children that were cancelled when the run failed."""

    code = "children-cancelled"

    def __init__(self, *, execution_id: str, children: Sequence[str], fork_at: int | None) -> None:
        self.execution_id, self.children, self.fork_at = execution_id, children, fork_at
        self.hint = "Start it anew, under another id"
        if fork_at is not None:
            self.hint += f"; or fork it from before they were started: loom fork {execution_id} --at {fork_at}"
        self.hint += "."
        named = ", ".join(children[:3]) + (f" and {len(children) - 3} more" if len(children) > 3 else "")
        super().__init__(
            f"{execution_id} had {named} cancelled when it failed, and what is cancelled has ended for good"
        )


class ExecutionNotPaused(LoomError):
    """Only a paused execution can be unpaused."""

    code = "execution-not-paused"
    hint = "`loom resume` goes on with a run that waits or was cut off."

    def __init__(self, *, execution_id: str, status: str) -> None:
        self.execution_id, self.status = execution_id, status
        super().__init__(f"{execution_id} is {status}, not paused")


class DecisionNotFound(LoomError):
    """No decision of the run has this address, or several have; they are listed. *link* is its number in its chain."""

    code = "decision-not-found"

    def __init__(
        self, *, execution_id: str, decision: str, decisions: Sequence[str], fitting: Sequence[str], link: int = 1
    ) -> None:
        self.execution_id, self.decision, self.link = execution_id, decision, link
        self.decisions, self.fitting = tuple(decisions), tuple(fitting)
        self.hint = f"Name one of these: {', '.join(fitting or decisions)}." if decisions else "It has decided nothing."
        if link > 1:
            chain = execution_id.removesuffix(f"~{link}")
            earlier = f"{chain}~1" if link == 2 else f"{chain}~1 to {chain}~{link - 1}"
            self.hint += f" For those of an earlier log of its chain name that: {earlier}."
        found = f"{len(fitting)} decisions of {execution_id} are" if fitting else f"no decision of {execution_id} is"
        super().__init__(f"{found} called {decision!r}")


class GateNotOpen(LoomError):
    """No open gate has this address."""

    code = "gate-not-open"

    def __init__(self, *, execution_id: str, gate: str | None, open_gates: Sequence[str]) -> None:
        self.execution_id, self.gate, self.open_gates = execution_id, gate, tuple(open_gates)
        self.hint = f"Open: {', '.join(open_gates)}." if open_gates else "It waits for no answer now."
        what = f"no open gate {gate!r}" if gate else "no open gate"
        super().__init__(f"{execution_id} has {what}")


class AmbiguousGate(LoomError):
    """More than one open gate fits; an answer is never guessed to one of them."""

    code = "gate-ambiguous"

    def __init__(self, *, execution_id: str, gate: str | None, open_gates: Sequence[str]) -> None:
        self.execution_id, self.gate, self.open_gates = execution_id, gate, tuple(open_gates)
        self.hint = f"Name one of them: {', '.join(open_gates)}."
        fits = f"{gate!r} fits" if gate else "an answer without an address fits"
        super().__init__(f"{fits} {len(open_gates)} open gates of {execution_id}")


class AlreadyAnswered(LoomError):
    """Somebody answered this gate, or decided this effect, first."""

    code = "already-answered"

    def __init__(self, *, execution_id: str, gate: str) -> None:
        self.execution_id, self.gate = execution_id, gate
        self.hint = (
            f"Nothing was changed. If nobody drives the run, `loom resume {execution_id}` goes on with that answer; "
            "`loom show` says where it stands."
        )
        super().__init__(f"{gate} of {execution_id} was already answered")


class ApprovalMismatch(LoomError):
    """The answer was given to something else than what the gate shows now."""

    code = "approval-mismatch"
    hint = "Look at what is shown now and answer that."

    def __init__(self, *, execution_id: str, gate: str, shown: str, answered: str) -> None:
        self.execution_id, self.gate, self.shown, self.answered = execution_id, gate, shown, answered
        super().__init__(f"{gate} of {execution_id} shows {shown}, the answer is for {answered}")


class AmbiguousDoubt(LoomError):
    """More than one effect in doubt fits; a verdict is never guessed to one of them."""

    code = "doubt-ambiguous"

    def __init__(self, *, execution_id: str, step: str | None, in_doubt: Sequence[str]) -> None:
        self.execution_id, self.step, self.in_doubt = execution_id, step, tuple(in_doubt)
        run, left = shlex.quote(execution_id), len(in_doubt) - _WAYS_SHOWN
        ways = [f"loom resolve {run} {shlex.quote(each)} --as VERDICT" for each in in_doubt[:_WAYS_SHOWN]]
        ways += [f"or one of {left} more that `loom show {run}` lists"] if left > 0 else []
        self.hint = f"Name one of them: {'; '.join(ways)}."
        fits = f"{step!r} fits" if step is not None else "a verdict without a step fits"
        super().__init__(f"{fits} {len(in_doubt)} effects in doubt of {execution_id}")


class NotInDoubt(LoomError):
    """The step is not in doubt, so there is nothing to decide."""

    code = "not-in-doubt"

    def __init__(self, *, execution_id: str, step: str | None, in_doubt: Sequence[str]) -> None:
        self.execution_id, self.step, self.in_doubt = execution_id, step, tuple(in_doubt)
        self.hint = f"Name one of these: {', '.join(in_doubt)}." if in_doubt else "Nothing of this run is in doubt."
        what = f"{step!r} of {execution_id} is not in doubt"
        super().__init__(what if step is not None else f"{execution_id} has no effects in doubt")


class LogRedacted(LogNewerThanCode):
    """Values were left out of a log, so that it can be looked at, and neither replayed nor driven."""

    code = "log-redacted"
    hint = "`loom show` and `loom logs` tell what is left. A bundle that is not redacted can be replayed."

    def __init__(self, *, execution_id: str) -> None:
        super().__init__(execution_id=execution_id, what="no values")
        self.args = (f"values were left out of the log of {execution_id}, which is for looking only",)


class LogCompacted(LoomError):
    """What was asked needs events that compaction has moved to an archive."""

    code = "log-compacted"

    def __init__(self, *, execution_id: str, through: int, what: str) -> None:
        self.execution_id, self.through, self.what = execution_id, through, what
        shows = f"`loom logs {execution_id} --archived --archive URL` shows them"
        self.hint = f"{shows}, where URL is the archive that they were moved to."
        super().__init__(f"the events of {execution_id} up to {through} are in an archive, so {what}")


class CompactedForkPoint(LogCompacted):
    """The state of a run at an event is not known any more: not all before it is in the log, and no snapshot stands there.

    *at* is None where it is wanted as it was at some time. *points* are the events before *through* whose state is known, None: nobody
    looked; from *through* on it always is. *why* says why a snapshot that stands there is none. Of a child, *parent* is that of which
    a fork was asked, and *parent_from* its first event at whose time the child is known; None: it has none.
    """

    code = "compacted-fork-point"

    def __init__(
        self,
        *,
        execution_id: str,
        through: int,
        at: int | None,
        points: Sequence[int] | None = None,
        why: str = "",
        parent: str = "",
        parent_from: int | None = None,
    ) -> None:
        self.at, self.points, self.why = at, None if points is None else tuple(points), why
        self.parent, self.parent_from = parent, parent_from
        place = f"at event {at}" if at is not None else "as it was when its parent was"
        what = f"it cannot be forked {place}" + (f", where it has a snapshot that cannot be used: {why}" if why else "")
        super().__init__(execution_id=execution_id, through=through, what=what)
        if points is not None:
            places = f"at event {', '.join(map(str, points))}, and at any" if points else "at any event"
            self.hint = f"It can be forked {places} from {through} on."
        if parent:
            alone = f"{execution_id} by itself at any event from {through} on"
            self.hint = f"Fork {parent} at event {parent_from} or later, or {alone}."
            if parent_from is None:
                self.hint = f"{parent} has no event that late, before its end. Fork {alone}."


class SnapshotUnusable(LoomError):
    """A snapshot is damaged, of other versions, or not of this run; most often its log is folded instead, with a warning."""

    code = "snapshot-unusable"

    def __init__(self, *, execution_id: str, sequence: int, why: str, is_checkpoint: bool = False) -> None:
        self.execution_id, self.sequence, self.why, self.is_checkpoint = execution_id, sequence, why, is_checkpoint
        self.hint = "Nothing is lost: the log says the same, and the run has a new one when it parks next."
        if is_checkpoint:
            self.hint = "Use the Loom that made it, or read the events before it back from where they were moved to."
        super().__init__(f"the snapshot of {execution_id} at {sequence} cannot be used: {why}")


class TrialLeft(LoomError):
    """A fork that is simulated, or served from its source, was let go by its driver; no worker takes it up by itself."""

    code = "trial-left"

    def __init__(self, *, execution_id: str) -> None:
        self.execution_id = execution_id
        self.hint = f"`loom resume {execution_id}` goes on with it, and says what it lacks where it stops."
        super().__init__(f"{execution_id} is a trial whose driver has let it go")
