"""Drawing an execution for people: what it is, what it waits for, what it has done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from loom.core.views import OpenGate
from loom.lenses.execution import CallView, ExecutionView
from loom_cli.hints import Hints
from loom_cli.readable import readable
from loom_cli.screen import STATUS_STYLES, Column, Pieces, Screen, Styled
from loom_cli.times import date_time, distance, duration, moment
from loom_cli.wording import joined, until_words

_CALL_SIGNS: Final = {
    "done": ("done", "green"),
    "failed": ("failed", "red"),
    "timed_out": ("failed", "yellow"),
    "running": ("running", "blue"),
    "resting": ("waiting", "yellow"),
    "waiting": ("waiting", "yellow"),
    "in_doubt": ("doubt", "magenta"),
    "cut": ("none", "dim"),
    "abandoned": ("none", "dim"),
}
_BRANCHES_SHOWN: Final = 12
_TRY: Final = "  try   "
_TREE: Final = (Column(""), Column("", right=True), Column("", shrink=True))


def draw_execution(screen: Screen, view: ExecutionView, hints: Hints, *, now_ms: int, every: bool) -> None:
    """Print *view*, with commands from *hints*; *every* shows the branches of a large scope that are otherwise counted."""
    _draw_head(screen, view, now_ms)
    _draw_next(screen, view, hints, now_ms)
    _draw_values(screen, view)
    if view.calls:
        screen.line()
        screen.table(_TREE, _tree(screen, view, now_ms, every=every), indent="  ")
    screen.line()
    screen.line(Styled(f"state {view.digest} after event {view.sequence}", "dim"))


def _draw_head(screen: Screen, view: ExecutionView, now_ms: int) -> None:
    status = Styled(view.status.replace("_", " "), STATUS_STYLES.get(view.status, ""))
    screen.line(Styled(view.id, "bold"), "  ", status)
    by = f" by {view.principal}" if view.principal else ""
    took = f", ran {duration(view.at - view.started_at)}" if view.status in ("completed", "failed") else ""
    drives = f", driven {view.drives} times" if view.drives > 1 else ""
    retried = f", retried {view.generation}x" if view.generation else ""
    started = f"{view.flow}, started {date_time(view.started_at)} ({_ago(view.started_at, now_ms)}){by}"
    screen.line(Styled(f"{started}{took}{drives}{retried}", "dim"))
    if view.sequence < view.last:
        screen.line(Styled(f"as it stood after event {view.sequence} of {view.last}", "cyan"))


def _draw_next(screen: Screen, view: ExecutionView, hints: Hints, now_ms: int) -> None:
    """Print what the run waits for, and the command that makes it go on."""
    for gate in view.gates:
        screen.line()
        draw_gate(screen, gate, hints, now_ms=now_ms, alone=len(view.gates) == 1)
    told, command = _next(view, hints, now_ms)
    if told:
        screen.line()
        screen.line(told)
    if command:
        screen.line(Styled(_TRY, "dim"), command)
    if view.status == "diverged" and view.difference is not None:
        screen.text(_indented_json(readable(view.difference)), indent="  ")


def _next(view: ExecutionView, hints: Hints, now_ms: int) -> tuple[str, str]:
    if view.status == "failed":
        return "", hints.command("retry")
    if view.status == "diverged":
        return "The code no longer asks what the log recorded. Mend it, then go on:", hints.command("resume")
    if view.status == "running":
        return "It is being driven now, or was cut off; then this goes on with it:", hints.command("resume")
    if view.status == "suspended" and not view.gates and view.wake_at is not None:
        due = f"It can go on since {moment(view.wake_at, now_ms)}:"
        if view.wake_at > now_ms:
            due = f"It sleeps {until_words(view.wake_at, now_ms)}; then a driver goes on:"
        return due, hints.command("resume")
    return "", ""


def draw_gate(screen: Screen, gate: OpenGate, hints: Hints, *, now_ms: int, alone: bool) -> None:
    """Print one open gate or effect in doubt, and the exact commands that answer it; *alone*: no other waits there."""
    style = "magenta" if gate.in_doubt else "yellow"
    kind = "in doubt" if gate.in_doubt else "waits"
    waits = joined(f"  {kind} for {duration(max(now_ms - gate.opened_at, 0))}", until_words(gate.due_at, now_ms))
    screen.line(
        Styled(f"{screen.sign('doubt' if gate.in_doubt else 'waiting')} ", style),
        Styled(gate.gate, "bold"),
        Styled(waits, "dim"),
    )
    if gate.reason:
        screen.line(Styled("  why   ", "dim"), gate.reason)
    if gate.show is not None:
        shown = screen.brief(readable(gate.show), screen.width - len(_TRY))
        screen.line(Styled("  asked " if gate.in_doubt else "  shows ", "dim"), shown)
    for command in answers(gate, hints, alone=alone):
        screen.line(Styled(_TRY, "dim"), command)


def answers(gate: OpenGate, hints: Hints, *, alone: bool) -> list[str]:
    """Return the commands that answer *gate*: one for a gate, one a verdict for an effect in doubt."""
    return hints.verdicts(gate) if gate.in_doubt else [hints.answer(gate, alone=alone)]


def _draw_values(screen: Screen, view: ExecutionView) -> None:
    named = {"input   ": view.input, "tags    ": dict(view.attributes) or None}
    if view.status == "completed":
        named["result  "] = view.result
    shown = {name: value for name, value in named.items() if value is not None or name == "result  "}
    if shown or view.failure is not None:
        screen.line()
    for name, value in shown.items():
        screen.line(Styled(name, "dim"), screen.brief(readable(value), screen.width - len(name)))
    if view.failure is not None and view.status == "failed":
        screen.line(Styled("failure ", "dim"), Styled(_failure(view.failure), "red"))
        if view.failure.get("traceback"):
            screen.text(str(view.failure["traceback"]).rstrip(), "dim", indent="      ")


def _tree(screen: Screen, view: ExecutionView, now_ms: int, *, every: bool) -> Iterator[tuple[Pieces, Styled, Styled]]:
    inside = {scope: list(calls) for scope, calls in _by_scope(view.calls)}
    known = {call.id for call in view.calls}

    def under(scope: str | None, indent: str) -> Iterator[tuple[Pieces, Styled, Styled]]:
        calls = inside.get(scope, [])
        shown = calls if every or not screen.terminal else _worth_showing(calls, scope)
        for call in shown:
            is_last = call is shown[-1] and len(shown) == len(calls)
            lead = "" if scope is None else screen.sign("last" if is_last else "branch")
            yield _call_row(screen, call, f"{indent}{lead}", now_ms)
            yield from under(
                call.id, indent if scope is None else indent + ("   " if is_last else screen.sign("through"))
            )
        if len(shown) < len(calls):
            more = f"{indent}{screen.sign('last')}{len(calls) - len(shown)} more, done (--all shows them)"
            yield (Styled(more, "dim"),), Styled(""), Styled("")

    yield from under(None, "")
    for scope in inside:
        if scope is not None and scope not in known:
            yield from under(scope, "")


def _by_scope(calls: Sequence[CallView]) -> Iterator[tuple[str | None, Iterator[CallView]]]:
    ordered = sorted(range(len(calls)), key=lambda at: (calls[at].scope or "", at))
    return groupby((calls[at] for at in ordered), key=lambda call: call.scope)


def _worth_showing(calls: list[CallView], scope: str | None) -> list[CallView]:
    """Return the first branches of a large scope, and all that are not done."""
    if scope is None or len(calls) <= _BRANCHES_SHOWN:
        return calls
    first = {call.start for call in calls[: _BRANCHES_SHOWN // 2]}
    return [call for call in calls if call.start in first or call.status != "done"]


def _call_row(screen: Screen, call: CallView, lead: str, now_ms: int) -> tuple[Pieces, Styled, Styled]:
    sign, style = _CALL_SIGNS[call.status]
    name = call.name if call.branch is None else f"{call.branch}/{call.name}"
    took = ""
    if call.ended_at is not None and call.end != call.start:
        took = duration(call.ended_at - call.asked_at)
    elif call.status in ("running", "resting", "waiting", "in_doubt"):
        took = duration(max(now_ms - call.asked_at, 0))
    pieces = (Styled(lead, "dim"), Styled(f"{screen.sign(sign)} ", style), Styled(name))
    return (
        pieces,
        Styled(took, "dim"),
        Styled(_remark(screen, call, now_ms), "red" if call.status == "failed" else "dim"),
    )


def _remark(screen: Screen, call: CallView, now_ms: int) -> str:
    told = [word for word in (_kind_remark(screen, call, now_ms), _status_remark(call, now_ms)) if word]
    if call.attempts > 1:
        told.append(f"{call.attempts} attempts")
    if call.failure is not None:
        told.append(_failure(call.failure))
    return ", ".join(told)


def _kind_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    remark = _KIND_REMARKS.get(call.kind)
    return remark(screen, call, now_ms) if remark is not None else ""


def _gate_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    if call.status != "done":
        return ""
    return f"answered{f' by {call.by}' if call.by else ''}: {screen.brief(readable(call.outcome.get('answer')), 60)}"


def _timer_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"{'slept' if call.status == 'done' else 'sleeps'} until {moment(call.due_at or 0, now_ms)}"


def _scope_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    branches = call.asked.get("branches")
    count = branches if isinstance(branches, int) else len(branches or ())
    return f"{count} {'branch' if count == 1 else 'branches'}"


def _decision_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"chose {screen.brief(readable(call.outcome.get('choice')), 40)}" if call.status == "done" else ""


def _stream_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"{len(call.outcome.get('chunks') or ())} chunks"


def _event_remark(screen: Screen, call: CallView, now_ms: int) -> str:
    return f"emitted {call.type.partition('.')[2]}"


_KIND_REMARKS: Final = {
    "gate": _gate_remark,
    "timer": _timer_remark,
    "scope": _scope_remark,
    "decision": _decision_remark,
    "stream": _stream_remark,
    "event": _event_remark,
}


def _status_remark(call: CallView, now_ms: int) -> str:
    if call.type == "STEP_STARTED" and call.by and call.status in ("done", "failed"):
        return f"resolved by {call.by}"
    if call.status == "resting" and call.due_at is not None:
        return f"tried again {moment(call.due_at, now_ms)}" if call.due_at > now_ms else "to be tried again"
    words = {"timed_out": "nobody answered in time", "in_doubt": "in doubt", "cut": "cut", "abandoned": "abandoned"}
    return words.get(call.status, "waits for an answer" if call.kind == "gate" and call.status == "waiting" else "")


def _failure(failure: Any) -> str:
    kind, message = failure.get("type", "Exception"), failure.get("message", "")
    return f"{kind}: {message}" if message else str(kind)


def _ago(at_ms: int, now_ms: int) -> str:
    told = distance(at_ms, now_ms)
    return told if told == "now" or told.startswith("in ") else f"{told} ago"


def _indented_json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
