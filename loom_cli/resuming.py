"""Resuming: is there something to ask, to answer, or only to go on with? Decided by the state; then asked, then driven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from loom.app.config import LoomApp
from loom.core.changes import OnChange
from loom.core.errors import ExecutionTerminated
from loom.core.ids import ExecutionId
from loom.core.missing import MISSING
from loom.core.state import ExecutionState
from loom.core.views import OpenGate
from loom.driving.addressing import gate_meant
from loom.driving.reading import refuse_newer
from loom.driving.simulating import require_fork
from loom.driving.stored_log import StoredLog, log_of
from loom.driving.untaken import untaken
from loom.values import InvalidPayload
from loom_cli.asking import ask_person, confirmed
from loom_cli.branches import say_main
from loom_cli.cli import Cli
from loom_cli.drivers import is_cancelling
from loom_cli.driving import Driving, Verb
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.hints import Hints
from loom_cli.outcomes import Teller
from loom_cli.reading import lane_of, log_meant
from loom_cli.unknown_fields import refuse_unknown_fields


class Answer(NamedTuple):
    """What was given: the answer (MISSING for none), the address of its gate, and the digest of what was shown.

    *agreed* says that it is to be sent without a question.
    """

    value: Any
    gate: str | None
    shown: str | None
    agreed: bool = False


@dataclass(frozen=True, slots=True)
class Next:
    """What a resume comes to: an answer for *gate*, a question to ask for it, a choice among gates, or just going on."""

    kind: Literal["answer", "ask", "choose", "go_on"]
    gate: OpenGate | None = None


def next_of(state: ExecutionState, given: Answer, hints: Hints, *, now_ms: int) -> Next:
    """Return what resuming a run in *state* comes to; *hints* make the command for one that has ended.

    A run that was cut off, sleeps, or has something due goes on; one that waits for a person only is asked.

    Raises:
        ExecutionTerminated: it has ended.
        GateNotOpen, AmbiguousGate, ApprovalMismatch: the gate meant is none, several, or shows something else.
    """
    if state.is_terminal:
        hint = hints.going_on(state)
        raise ExecutionTerminated(execution_id=state.execution_id, status=state.status, hint=hint)
    if given.value is not MISSING:
        return Next("answer", gate_meant(state, given.gate, shown=given.shown))
    if given.gate is not None or given.shown is not None:
        return Next("ask", gate_meant(state, given.gate, shown=given.shown))
    waits = [start for start in state.gates.values() if start.type == "GATE_OPENED"]
    is_due = state.facts.wake_at is not None and state.facts.wake_at <= now_ms
    if state.status != "suspended" or not waits or is_due:
        return Next("go_on")
    return Next("ask", gate_meant(state, None)) if len(waits) == 1 else Next("choose")


class Resuming:
    """Resumes one run for a command."""

    def __init__(
        self,
        cli: Cli,
        app: LoomApp,
        driving: Driving,
        *,
        principal: str,
        on_change: OnChange | None = None,
        linger_s: float,
        simulate: bool = False,
    ) -> None:
        self._cli, self._app, self._driving, self._on_change = cli, app, driving, on_change
        self._principal, self._linger_s, self._simulate = principal, linger_s, simulate

    def resume(self, text: str, given: Answer) -> ExitCode:
        """Resume the run whose id begins with *text*."""
        run_id, past = self._cli.run(load(self._app, text))
        state = past.state()
        if self._simulate:
            require_fork(state)
        if not state.is_terminal:
            self._cli.run(say_main(self._app, run_id, self._cli.screen))
        if state.status == "forked" and (given != Answer(MISSING, None, None) or self._cli.screen.interactive):
            self._cli.screen.note(f"driving {run_id} to where it waits")
            run_id, past = self._cli.run(self._driven_to_a_gate(run_id))
            state = past.state()
        step = next_of(state, given, self._driving.hints(run_id), now_ms=self._cli.now_ms())
        waits_unasked = step.kind == "choose" or (step.kind == "ask" and given.gate is None)
        if waits_unasked and state.facts.cancel is None and self._cli.run(_is_called(self._app, run_id)):
            step = Next("go_on")  # to ask for an answer is of no use: there is one, or it is to end
        if step.kind == "choose":
            self._driving.tell_state(run_id, past)
            raise Usage(f"{len(state.gates)} gates of {run_id} are open", hint="name one of them with --gate")
        if step.gate is None:
            return self._driving.go_on(run_id, past, self._verb(run_id, MISSING, None))
        if step.kind == "answer":
            refuse_unknown_fields(given.value, step.gate.schema)
            return self._answer_given(run_id, past, given, step.gate)
        if not self._cli.screen.interactive:
            return self._driving.tell_state(run_id, past)
        return self._ask(run_id, past, step.gate)

    async def _driven_to_a_gate(self, run_id: ExecutionId) -> tuple[ExecutionId, StoredLog]:
        """Drive a fork that nobody has driven yet: what it is to be answered at is asked anew."""
        async with self._app:
            await self._verb(run_id, MISSING, None)(self._app.runtime)
            return run_id, await log_of(self._app.storage, run_id)

    def _verb(self, run_id: ExecutionId, answer: Any, gate: OpenGate | None) -> Verb:
        return lambda runtime: runtime.resume(
            run_id,
            answer=answer,
            gate=gate.gate if gate is not None else None,
            shown=gate.shown if gate is not None else None,
            principal=self._principal,
            on_change=self._on_change,
            simulate=self._simulate,
            linger_s=self._linger_s,
        )

    def _answer(self, run_id: ExecutionId, past: StoredLog, answer: Any, gate: OpenGate) -> ExitCode:
        return self._driving.go_on(run_id, past, self._verb(run_id, answer, gate))

    def _answer_given(self, run_id: ExecutionId, past: StoredLog, given: Answer, gate: OpenGate) -> ExitCode:
        """Hand an answer in, on a terminal once a person has agreed to it who was shown what is asked.

        Raises:
            Usage: it is agreed to, but not said to what.
        """
        if given.agreed and given.shown is None and gate.shown is not None:
            hint = f"say to what: --shown={gate.shown}, as `loom resume {run_id}` prints it with what is shown"
            raise Usage(f"{gate.gate} of {run_id} shows something, and --yes agrees to it unseen", hint=hint)
        if given.agreed or given.shown is not None or not self._cli.screen.interactive:
            bound = gate if given.shown is not None else gate._replace(shown=None)
            return self._answer(run_id, past, given.value, bound)
        Teller(self._cli.screen, self._driving.hints(run_id), self._cli.now_ms).question(gate)
        try:
            is_agreed = confirmed(self._cli.screen, given.value)
        except (KeyboardInterrupt, EOFError) as left:
            return self._left(run_id, left)
        return self._answer(run_id, past, given.value, gate) if is_agreed else self._left(run_id)

    # -- a person --------------------------------------------------------------------------------------------------

    def _ask(self, run_id: ExecutionId, past: StoredLog, gate: OpenGate) -> ExitCode:
        """Show what *gate* asks, ask for the answer until it fits, and hand it in bound to what was shown."""
        screen = self._cli.screen
        Teller(screen, self._driving.hints(run_id), self._cli.now_ms).question(gate)
        answer: Any = MISSING
        problems: dict[str, str] = {}
        while True:
            try:
                answer = ask_person(screen, gate.schema or {}, known=answer, problems=problems)
                if not confirmed(screen, answer):
                    return self._left(run_id)
            except (KeyboardInterrupt, EOFError) as left:
                return self._left(run_id, left)
            try:
                return self._answer(run_id, past, answer, gate)
            except InvalidPayload as refused:
                problems = {_path(problem.path): problem.message for problem in refused.problems}

    def _left(self, run_id: ExecutionId, by: BaseException | None = None) -> ExitCode:
        if by is not None:
            self._cli.screen.note()  # the line on which it was asked is not ended
        self._cli.screen.note(f"left unanswered; {run_id} still waits")
        return ExitCode.INTERRUPTED if isinstance(by, KeyboardInterrupt) else ExitCode.WAITING


def _path(path: str) -> str:
    """Return the path of a problem as a form names it: the whole answer has none."""
    return "" if path == "value" else path.removeprefix("value.")


async def _is_called(app: LoomApp, run_id: ExecutionId) -> bool:
    """Whether something that was asked of the run waits for a driver: whoever asked it was cut off before it had driven the run."""
    async with app:
        row = await app.storage.row(run_id)
        return row is not None and (is_cancelling(row) or bool(untaken(await lane_of(app.storage, run_id))))


async def load(app: LoomApp, text: str) -> tuple[ExecutionId, StoredLog]:
    """Return the id that *text* is, or begins, and its log; of a chain, unless *text* names a later link, the last one.

    Raises:
        ExecutionNotFound, AmbiguousExecution: there is no such run, or there are several.
        LogNewerThanCode: a newer Loom wrote it; it can be looked at, not driven.
    """
    async with app:
        log = await log_meant(app.storage, text)
        refuse_newer(log.events)
        return log.run_id, log
