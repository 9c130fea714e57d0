"""Drawing an execution for people: what it is, what it waits for, what it has done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from loom.core.state import TERMINAL
from loom.core.views import AwaitedMessage, OpenGate
from loom.fingerprint import same, short
from loom.lenses.execution import CallView, ChildView, ExecutionView
from loom_cli.branches import Main
from loom_cli.call_tree import draw_tree
from loom_cli.failure_lines import Cause, failure_lines, record_lines
from loom_cli.hints import Hints
from loom_cli.readable import readable
from loom_cli.screen import STATUS_STYLES, Column, Screen, Styled
from loom_cli.times import date_time, distance, duration, moment
from loom_cli.trials import STOPPED
from loom_cli.wording import CAUSE_WORDS, awaited_words, child_of, counted, difference_rows, joined, until_words

_TRY: Final = "  try   "
_CHILDREN_SHOWN: Final = 12
_CALL_VALUES: Final = ("args", "show", "result", "answer", "choice", "candidates", "branches", "data", "reason")
"""What a call was asked with and what came of it, of all that its events hold."""

_NEXT: Final = {
    "failed": ("", "retry"),
    "diverged": ("The code no longer asks what the log recorded. Mend it, then go on:", "resume"),
    "forked": ("It is a fork that nobody has driven yet. This goes on with it, for real:", "resume"),
    "paused": ("It is paused; this lets it go on:", "unpause"),
    "running": ("It is being driven now, or was cut off; then this goes on with it:", "resume"),
}
"""By the status of a run: what there is to say of what comes next, and the command for it."""

NO_UNREAD: Final[Mapping[str, int]] = {}


def draw_execution(
    screen: Screen,
    view: ExecutionView,
    hints: Hints,
    *,
    now_ms: int,
    every: bool,
    unread: Mapping[str, int] = NO_UNREAD,
    is_cancelling: bool = False,
    present: str | None = None,
    left_by: str = "",
    has_stopped: bool = False,
    again: str = "",
    main: Main | None = None,
    answered: Collection[str] = (),
) -> None:
    """Print *view*, with commands from *hints*.

    *every* shows the branches of a large scope that are otherwise counted; *unread* counts the messages of its inbox by
    topic. *is_cancelling* says that somebody wants it cancelled, and it has not ended; *present* is the fingerprint of the code
    as it is ("" for none), where it was asked for; *left_by* tells of the driver that has the run no more, where it is known, and *has_stopped* that it is a trial which that let go;
    *again* is the command that forks it once more, to do for real what it lacks; *main* is the branch of its family that counts, where one was promoted;
    *answered* are the gates whose answer no driver has taken up.
    """
    left = f"Nobody drives it: {left_by}. This goes on with it:" if left_by else ""
    left = stop_of_trial(view) if has_stopped else left
    _draw_head(screen, view, now_ms, is_cancelling=is_cancelling, has_stopped=has_stopped)
    if main is not None:
        screen.line(Styled(main.words, "dim" if main.is_it else "yellow"))
    screen.line(Styled(code_words(view.fingerprint, present), "dim"))
    again = again if has_stopped else ""
    _draw_next(screen, view, hints, now_ms, left=left, again=again, main=main, answered=answered)
    _draw_inbox(screen, view, unread, hints)
    _draw_values(screen, view)
    if view.calls:
        screen.line()
        draw_tree(screen, view, now_ms, every=every)
    _draw_children(screen, view, hints, every=every)
    screen.line()
    screen.line(Styled(f"state {view.digest} after event {view.sequence}", "dim"))


def _draw_head(screen: Screen, view: ExecutionView, now_ms: int, *, is_cancelling: bool, has_stopped: bool) -> None:
    status = Styled(view.status.replace("_", " "), STATUS_STYLES.get(view.status, ""))
    if has_stopped:
        status = Styled(STOPPED, STATUS_STYLES["suspended"])
    screen.line(Styled(view.id, "bold"), "  ", status, Styled(", cancelling" if is_cancelling else "", "red"))
    took = f", ran {duration(view.took_ms)}" if view.status in TERMINAL else ""
    drives = f", driven {view.drives} times" if view.drives > 1 else ""
    retried = f", retried {view.generation}x" if view.generation else ""
    begun = f"{view.flow}, {_begun_words(view, now_ms)}"
    screen.line(Styled(f"{begun}{took}{drives}{retried}", "dim"))
    if view.link > 1 or view.next is not None:
        goes_on = f", goes on as {view.next}" if view.next is not None else ""
        screen.line(Styled(f"log {view.link} of {view.first}, which continues as new{goes_on}", "dim"))
    if view.parent is not None:
        screen.line(Styled(f"child of {view.parent}, started by {view.step}", "dim"))
    if view.source is not None:
        simulated = ", simulated: nothing of it has happened" if view.simulated else ""
        source = f"fork of {view.source['execution_id']} after event {view.source['sequence']}{simulated}"
        screen.line(Styled(source, "cyan" if simulated else "dim"))
    if stop := stop_words(view):
        grace = view.cancel.grace_until_at if view.cancel is not None and is_cancelling else None
        screen.line(Styled(joined(stop, f"grace {until_words(grace, now_ms)}" if grace else ""), "dim"))
    if view.compacted is not None:
        screen.line(Styled(f"events up to {view.compacted} are in an archive", "dim"))
    if view.sequence < view.last:
        screen.line(Styled(f"as it stood after event {view.sequence} of {view.last}", "cyan"))


def _begun_words(view: ExecutionView, now_ms: int) -> str:
    """Return since when, and by whom, the run goes its own way."""
    verb, at, by = "started", view.started_at, view.principal
    if view.forked is not None:
        verb, at, by = "forked", view.forked.at, view.forked.by
    return f"{verb} {date_time(at)} ({_ago(at, now_ms)}) {_by(by)}".rstrip()


def code_words(pinned: str, present: str | None) -> str:
    """Return which code a run is pinned to, and whether the code as it is, if it is known, differs."""
    code = f"code {short(pinned)}"
    if present is None:
        return code
    if not present:
        return f"{code}; the app has no such flow"
    return f"{code}, as it is" if same(pinned, present) else f"{code}; it has changed since, to {short(present)}"


def stop_words(view: ExecutionView) -> str:
    """Return by whom or what, and why, a run was cancelled or paused; empty when it was neither."""
    stop = view.cancel or view.pause
    if stop is None:
        return ""
    verb = f"cancelled{CAUSE_WORDS.get(view.cancel.cause, '')}" if view.cancel is not None else "paused"
    return " ".join(filter(None, [verb, _by(stop.by)])) + (f": {stop.reason}" if stop.reason else "")


def _draw_next(
    screen: Screen,
    view: ExecutionView,
    hints: Hints,
    now_ms: int,
    *,
    left: str,
    again: str,
    main: Main | None,
    answered: Collection[str],
) -> None:
    """Print what the run waits for, and the command that makes it go on; a diverged one cannot be answered."""
    for gate in view.gates if view.status != "diverged" else ():
        screen.line()
        alone, is_answered = len(view.gates) == 1, gate.gate in answered
        draw_gate(screen, gate, hints, now_ms=now_ms, alone=alone, is_answered=is_answered)
    for wait in view.receives if view.status != "diverged" else ():
        screen.line()
        _draw_receive(screen, wait, hints, now_ms)
    told, command = _next(view, hints, now_ms, left)
    command = " ".join([again, *hints.options("fork")]) if again else command
    if command and main is not None and not main.is_it:
        told = f"{told}\nThe branch that counts is {main.execution_id}; this goes on beside it, for real:".lstrip()
    if told:
        screen.line()
        for line in told.splitlines():
            screen.line(line)
    if view.status == "diverged" and view.difference is not None:
        for name, words in difference_rows(view.difference):
            screen.line("  ", Styled(name.ljust(10), "dim") if name else "", words if name else Styled(words, "dim"))
    if command:
        screen.line(Styled(_TRY, "dim"), command)


def _next(view: ExecutionView, hints: Hints, now_ms: int, left: str) -> tuple[str, str]:
    if view.status == "running" and left:
        return left, hints.command("resume")
    if view.status in _NEXT:
        told, verb = _NEXT[view.status]
        return told, hints.command(verb)
    if view.status == "suspended" and view.why:
        until = f" {until_words(view.wake_at, now_ms)}" if view.wake_at is not None else ""
        return f"It waits for {view.why}{until}; then a driver goes on:", hints.command("resume")
    if view.status == "suspended" and not view.gates and not view.receives and view.wake_at is not None:
        due = f"It can go on since {moment(view.wake_at, now_ms)}:"
        if view.wake_at > now_ms:
            due = f"It sleeps {until_words(view.wake_at, now_ms)}; then a driver goes on:"
        return due, hints.command("resume")
    return "", ""


def stop_of_trial(view: ExecutionView) -> str:
    """Return why a trial that was let go stands still, and what can be done about it."""
    if view.simulated:
        return (
            "It is simulated, and stopped: it was interrupted, or asks for a step that has no simulator.\n"
            "define_config(simulators={...}) declares one. This goes on with it, and says what it lacks:"
        )
    source = view.source["execution_id"] if view.source is not None else "another"
    if view.forked is not None and view.forked.served == "live":
        return f"It is served from {source}, and was let go on its way. This goes on with it:"
    return (
        f"It is served from {source}, and stopped: it was interrupted, or asks for what has no outcome there.\n"
        "Forked anew like this, it does that for real; `loom resume` goes on, and says what it lacks:"
    )


def draw_gate(
    screen: Screen,
    gate: OpenGate,
    hints: Hints,
    *,
    now_ms: int,
    alone: bool,
    can_answer: bool = True,
    is_answered: bool = False,
) -> None:
    """Print one open gate or effect in doubt, and the exact commands that answer it, if it *can* be answered.

    *alone*: no other waits there. One that *is_answered* waits for a driver only.
    """
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
    if is_answered and can_answer:
        screen.line(Styled("  answered, and nobody drives the run; this goes on with it:", "yellow"))
        screen.line(Styled(_TRY, "dim"), hints.command("resume"))
        return
    for command in answers(gate, hints, alone=alone) if can_answer else ():
        screen.line(Styled(_TRY, "dim"), command)


def _draw_receive(screen: Screen, wait: AwaitedMessage, hints: Hints, now_ms: int) -> None:
    child = child_of(wait.topic)
    awaited = f"waits for {awaited_words(wait.topic)}" if child is None else "it waits for this child"
    waits = f"  {awaited} for {duration(max(now_ms - wait.asked_at, 0))}"
    screen.line(
        Styled(f"{screen.sign('waiting')} ", "yellow"),
        Styled(child or wait.receive, "bold"),
        Styled(joined(waits, until_words(wait.due_at, now_ms)), "dim"),
    )
    screen.line(Styled(_TRY, "dim"), hints.delivering(wait.topic))


def _draw_inbox(screen: Screen, view: ExecutionView, unread: Mapping[str, int], hints: Hints) -> None:
    """Print what lies unread, and which topics are held back."""
    for topic in sorted({*unread, *view.held}):
        is_held = topic in view.held
        told = joined(f"{unread.get(topic, 0)} unread", "held back" if is_held else "")
        screen.line()
        screen.line(Styled("inbox   ", "dim"), topic, Styled(f"  {told}", "yellow" if is_held else "dim"))
        if is_held:
            screen.line(Styled(_TRY, "dim"), hints.command("inbox release", after=[topic]))


def answers(gate: OpenGate, hints: Hints, *, alone: bool) -> list[str]:
    """Return the commands that answer *gate*: one for a gate, one a verdict for an effect in doubt."""
    return hints.verdicts(gate) if gate.in_doubt else [hints.answer(gate, alone=alone)]


def _draw_values(screen: Screen, view: ExecutionView) -> None:
    named = {"input   ": view.input, "tags    ": dict(view.attributes) or None}
    if view.status == "completed":
        named["result  "] = view.result
    shown = {name: value for name, value in named.items() if value is not None or name == "result  "}
    if shown or view.outcomes or view.failure is not None:
        screen.line()
    for name, value in shown.items():
        screen.line(Styled(name, "dim"), screen.brief(readable(value), screen.width - len(name)))
    for late in view.outcomes:
        told = joined(f"{late.decision}: {screen.brief(readable(late.value), 60)}", late.note or "", _by(late.by))
        screen.line(Styled("learned  ", "dim"), told)
    if view.failure is not None and view.status == "cancelled":
        screen.line(Styled("its clean-up failed", "red"))
    if view.failure is not None:
        for indent, text, style in failure_lines(view.failure, _cause(view)):
            screen.line(" " * (indent - 2), Styled(text, style))


def _cause(view: ExecutionView) -> Cause | None:
    call = next((call for call in view.calls if call.id == view.cause), None)
    if call is None or call.failure is None:
        return None
    return Cause(call.id, call.asked.get("args"), call.failure, call.attempts or 1)


def _draw_children(screen: Screen, view: ExecutionView, hints: Hints, *, every: bool) -> None:
    """Print the runs that this one started, each as it stands now."""
    if not view.children:
        return
    shown = view.children if every else view.children[:_CHILDREN_SHOWN]
    screen.line()
    rows = [
        (
            Styled(child.id),
            Styled(child.status.replace("_", " "), STATUS_STYLES.get(child.status, "")),
            Styled(_waits_words(child, hints), "yellow"),
        )
        for child in shown
    ]
    screen.table((Column(""), Column(""), Column("")), rows, indent="  ")
    if len(shown) < len(view.children):
        more = counted(len(view.children) - len(shown), "more child", "more children")
        screen.line(Styled(f"  {more}: {hints.listing('ps')} --parent {hints.id}", "dim"))


def _waits_words(child: ChildView, hints: Hints) -> str:
    """Return at which gates a child waits for a person, and the command that asks for the answer."""
    if not child.gates:
        return ""
    return f"waits at {', '.join(child.gates[:3])}: {hints.of(child.id).command('resume')}"


def draw_call(screen: Screen, view: ExecutionView, call: CallView) -> None:
    """Print one call: what it was asked with, what came of it, how it failed."""
    screen.line(Styled(call.id, "bold"), f"  {call.status.replace('_', ' ')}", Styled(f"  of {view.id}", "dim"))
    took = f", took {duration(call.took_ms)}" if call.took_ms is not None else ""
    tries = f", {counted(call.attempts, 'attempt', 'attempts')}" if call.kind == "step" and call.attempts else ""
    by = f", {'edited ' if call.is_edited else ''}by {call.by}" if call.by else ""
    events = f"event {call.start}" + (f" to {call.end}" if call.end not in (None, call.start) else "")
    screen.line(Styled(f"{call.kind}, asked {date_time(call.asked_at)}{took}{tries}{by}, {events}", "dim"))
    screen.line()
    told = {name: value for name, value in {**call.asked, **call.outcome}.items() if name in _CALL_VALUES}
    width = max(map(len, told), default=0) + 2
    for name, value in told.items():
        screen.line(Styled(name.ljust(width), "dim"), screen.brief(readable(value), screen.width - width))
    if call.failure is not None:
        for indent, text, style in record_lines(call.failure):
            screen.line(" " * (indent - 2), Styled(text, style))


def _by(principal: str | None) -> str:
    return f"by {principal}" if principal else ""


def _ago(at_ms: int, now_ms: int) -> str:
    told = distance(at_ms, now_ms)
    return told if told == "now" or told.startswith("in ") else f"{told} ago"
