"""What came of a drive: for machines as one JSON object, for people as the result, or what it waits for and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loom import values
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.core.views import AwaitedMessage, OpenGate, awaited_messages, open_gates
from loom.lenses.shapes import gate_json, receive_json
from loom_cli.drivers import driver_words
from loom_cli.failure_lines import Cause, failure_lines, is_to_be_mended
from loom_cli.hints import Hints
from loom_cli.readable import readable
from loom_cli.safe_text import safe
from loom_cli.schemas import described
from loom_cli.screen import STATUS_STYLES, Screen, Styled, cell_len
from loom_cli.times import duration
from loom_cli.wording import awaited_words, child_of, counted, difference_rows, joined, until_words

GATES_SHOWN_MAX: Final = 10
_SHOW_LINES_MAX: Final = 30
_SHOW_TEXT_MAX: Final = 4000
"""How many characters of what a gate shows are printed while it is driven: one line may hold a whole document."""


# -- for machines ------------------------------------------------------------------------------------------------------


def outcome_json(
    state: ExecutionState,
    outcome: Outcome[Any] | None,
    *,
    status: str | None = None,
    difference: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md; *status* stands in for that of the log (`interrupted`)."""
    facts = state.facts
    differs = difference or facts.difference
    return {
        "id": state.execution_id,
        "flow": facts.flow,
        "status": status or (outcome.status if outcome is not None else state.status),
        "result": _result(state, outcome) if outcome is not None and outcome.status == "completed" else None,
        "failure": dict(facts.failure) if facts.failure is not None else None,
        "gates": [gate_json(gate) for gate in open_gates(state)],
        "receives": [receive_json(wait) for wait in awaited_messages(state)],
        "wake_at": facts.wake_at,
        "why": facts.why,
        "difference": dict(differs) if differs is not None else None,
        "length": state.length,
        "driver": outcome.driver or None if outcome is not None else None,
    }


def _result(
    state: ExecutionState, outcome: Outcome[Any], *, as_logged: Callable[[Any], Any] = lambda encoded: encoded
) -> Any:
    """Return the result as plain JSON; one that has no such form is what *as_logged* makes of it as it stands in the log."""
    try:
        plain = values.plain(outcome.value)
        json.dumps(plain, allow_nan=False)
    except ValueError:
        return as_logged(state.facts.result)
    return plain


# -- for people --------------------------------------------------------------------------------------------------------


class Teller:
    """Tells on *screen* what came of a drive; commands to type come from *hints*."""

    def __init__(self, screen: Screen, hints: Hints, now_ms: Callable[[], int]) -> None:
        self._screen, self._hints, self._now_ms = screen, hints, now_ms

    def outcome(self, state: ExecutionState, outcome: Outcome[Any]) -> None:
        """Print the result to stdout, or to stderr what else the run has come to."""
        match outcome.status:
            case "completed":
                self._head("done", "completed", f"completed in {_took(state)}")
                self._value(_result(state, outcome, as_logged=readable))
            case "failed":
                self._failed(state)
            case "cancelled":
                self._cancelled(state, outcome)
            case "paused":
                self._head("waiting", "paused", "is paused")
                self._command("let it go on:", self._hints.command("unpause"))
            case "accepted":
                self.accepted(outcome.driver)
            case "diverged":
                self.diverged(state.facts.difference or {})
            case _:
                self._waits(state, outcome)

    def _head(self, sign: str, status: str, text: str) -> None:
        style = STATUS_STYLES.get(status, "")
        self._screen.note(Styled(self._screen.sign(sign), style), f" {self._hints.id} ", Styled(text, style))

    def _line(self, *parts: str | Styled, indent: int = 2) -> None:
        self._screen.note(" " * indent, *parts)

    def _command(self, words: str, command: str, indent: int = 2) -> None:
        self._line(Styled(f"{words} ", "dim"), Styled(command, "bold"), indent=indent)

    def _value(self, value: Any) -> None:
        if isinstance(value, str):
            self._screen.text(value)
        elif value is not None:
            self._screen.json(value)

    def accepted(self, driver: str) -> None:
        """Say that what was asked is durable, and that *driver* has the run, or, where it is empty, that it waits for one."""
        if driver:
            self._head(
                "running", "running", f"is driven by {driver_words(driver)}, which goes on with what it was asked"
            )
        else:
            self._head("waiting", "suspended", "is there, and waits for a worker")
            self._command("drive what is there with:", self._hints.listing("worker"))

    def forgotten(self) -> None:
        """Say that a run that has not ended ends with this process."""
        self._line(Styled("this app keeps its logs in memory: they end with this command", "yellow"))
        self._line(Styled("wire storage=loom.sqlite_storage() to keep them", "dim"))

    # -- failed ----------------------------------------------------------------------------------------------------

    def _failed(self, state: ExecutionState) -> None:
        self._head("failed", "failed", f"failed in {_took(state)}")
        failure, cause, parent = state.facts.failure or {}, _cause(state), state.facts.parent
        for indent, text, style in failure_lines(failure, cause):
            self._line(Styled(text, style), indent=indent)
        again = (
            "mend the code, then try again from there:" if is_to_be_mended(failure, cause) else "try again from there:"
        )
        if parent is not None:
            self._command(
                "the run that started it has this failure; see first what it made of it:",
                self._hints.of(parent["execution_id"]).command("show"),
            )
            return
        self._command(again, self._hints.command("retry"))

    def _cancelled(self, state: ExecutionState, outcome: Outcome[Any]) -> None:
        why = f": {outcome.reason}" if outcome.reason else ""
        self._head("none", "cancelled", f"cancelled in {_took(state)}{why}")
        if state.facts.failure is not None:
            self._line("its clean-up failed")
            for indent, text, style in failure_lines(state.facts.failure, None):
                self._line(Styled(text, style), indent=indent)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _waits(self, state: ExecutionState, outcome: Outcome[Any]) -> None:
        doubts = [gate for gate in outcome.gates if gate.in_doubt]
        gates = [gate for gate in outcome.gates if not gate.in_doubt]
        if doubts:
            self._head("doubt", "in_doubt", "is in doubt")
            for doubt in doubts[:GATES_SHOWN_MAX]:
                self._doubt(doubt)
        elif gates:
            self._head("waiting", "suspended", "waits for an answer")
        if gates:
            for gate in gates[:GATES_SHOWN_MAX]:
                self._gate(gate)
                self._command("answer:", self._hints.answer(gate, alone=len(gates) == 1), indent=4)
            if len(gates) > GATES_SHOWN_MAX:
                self._command(f"and {len(gates) - GATES_SHOWN_MAX} more:", self._hints.listing("gates"))
        receives = awaited_messages(state)
        if receives:
            self._receives(receives, alone=not outcome.gates)
        elif not outcome.gates:
            until = until_words(_wakes_at(state, outcome), self._now_ms())
            does = f"waits for {state.facts.why}" if state.facts.why else "sleeps"
            self._head("waiting", "suspended", f"{does} {until}".rstrip())
            self._command("goes on then with:", self._hints.command("resume"))
        dues = [gate.due_at for gate in outcome.gates] + [wait.due_at for wait in receives]
        if dues and outcome.wake_at not in (None, *dues):
            self._line(Styled(f"a part of it sleeps {until_words(outcome.wake_at, self._now_ms())}", "dim"))

    def _receives(self, receives: Sequence[AwaitedMessage], *, alone: bool) -> None:
        if alone:
            kinds = {"a message" if child_of(wait.topic) is None else "a child" for wait in receives}
            self._head("waiting", "suspended", f"waits for {' or '.join(sorted(kinds, reverse=True))}")
        for wait in receives[:GATES_SHOWN_MAX]:
            child = child_of(wait.topic)
            awaited = f"  {awaited_words(wait.topic)}" if child is None else "  a child, which is a run of its own"
            until = joined(awaited, until_words(wait.due_at, self._now_ms()))
            self._line(Styled(child or wait.receive, "bold"), Styled(until, "dim"))
            self._command("send:" if child is None else "look:", self._hints.delivering(wait.topic), indent=4)

    def question(self, gate: OpenGate) -> None:
        """Print what *gate* asks, before a person answers it here."""
        self._head("waiting", "suspended", "waits for an answer")
        self._gate(gate)

    def _gate(self, gate: OpenGate) -> None:
        """Print what is asked at *gate*: what is shown, what an answer is, until when."""
        self._line(Styled(gate.gate, "bold"), Styled(f"  {gate.label}" if gate.label not in gate.gate else "", "dim"))
        if gate.show is not None:
            self._json(gate.show)
        rows = described(gate.schema or {})
        names, kinds = (max(cell_len(safe(row[at])) for row in rows) for at in (0, 1))
        for name, words, remark in rows:
            shown = f"{name.ljust(names)}  " if name else "expects "
            self._line(shown, words.ljust(kinds), Styled(f"  {remark}", "dim"), indent=4)
        if gate.due_at is not None:
            self._line(Styled(until_words(gate.due_at, self._now_ms()), "dim"), indent=4)

    def _json(self, encoded: Any) -> None:
        value = readable(encoded)
        text = value.rstrip("\n") if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        lines = text[:_SHOW_TEXT_MAX].split("\n")
        lines = lines[:_SHOW_LINES_MAX]
        for line in lines:
            self._line(Styled(f"{self._screen.sign('through')}", "dim"), line, indent=4)
        left = len(text) - len("\n".join(lines))
        if left > 0:
            self._command(
                f"{counted(left, 'more character', 'more characters')}:", self._hints.command("show"), indent=4
            )

    def _doubt(self, doubt: OpenGate) -> None:
        self._line(Styled(doubt.gate, "bold"), f"  nobody knows whether it happened: {doubt.reason or 'it was lost'}")
        if doubt.show is not None:
            self._json(doubt.show)
        self._line("find out, then say which it was:", indent=4)
        for command in self._hints.verdicts(doubt):
            self._line(Styled(command, "bold"), indent=6)

    # -- stopped ---------------------------------------------------------------------------------------------------

    def diverged(self, difference: Mapping[str, Any]) -> None:
        """Print both sides of a divergence."""
        self._head("failed", "diverged", "diverged: the code asks something else than the log recorded")
        for name, words in difference_rows(difference):
            self._line(Styled(name.ljust(10), "dim") if name else "", words if name else Styled(words, "dim"))
        self._line("the log is untouched; restore the code that wrote it, or mend the flow")
        self._command("then go on with:", self._hints.command("resume"))

    def interrupted(self, in_flight: Sequence[str]) -> None:
        """Say that the run was left where it stands, and what *in_flight* may have happened."""
        self._head("none", "running", "was interrupted; nothing committed is lost")
        for step in in_flight:
            self._line(step, Styled("  was cut short; it will be in doubt, since it must not run twice", "dim"))
        self._command("go on with:", self._hints.command("resume"))


def _wakes_at(state: ExecutionState, outcome: Outcome[Any]) -> int | None:
    """Return until when a run sleeps: one let go on after a pause is due for a look at once, and may sleep on after it."""
    dues = [start.payload.due_at for start in state.open.values() if start.type == "TIMER_SET"]
    return max(outcome.wake_at, min(dues)) if dues and outcome.wake_at is not None else outcome.wake_at


def _cause(state: ExecutionState) -> Cause | None:
    settled = next((s for s in state.settled if s.start.sequence == state.facts.cause), None)
    failure = getattr(settled.outcome.payload, "failure", None) if settled is not None else None
    if settled is None or failure is None:
        return None
    attempts = getattr(settled.outcome.payload, "attempts", 1)
    return Cause(settled.start.payload.id, getattr(settled.start.payload, "args", None), failure, attempts)


def _took(state: ExecutionState) -> str:
    return duration(max(state.at - state.facts.started_at, 0))
