"""All of one event and of its call: who and when, what it was asked with, what came of it, how it failed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from loom.core.envelope import EDITED, SIMULATED, EventEnvelope
from loom.kernel.codec import payload_json
from loom.lenses.timeline import Attempt, Call, call_status
from loom_cli.failure_lines import record_lines
from loom_cli.screen import Styled
from loom_cli.times import date_time, duration
from loom_cli.tui.model import Model
from loom_cli.tui.nodes import Key, Node, line, text_nodes, value_node
from loom_cli.tui.open_log import OpenLog

Event = EventEnvelope[Any]

STATUS_WORDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "done": ("\u2713", "good", "done"),
    "failed": ("\u2717", "bad", "failed"),
    "timed_out": ("\u2717", "waits", "timed out"),
    "running": ("\u25cf", "running", "running"),
    "resting": ("\u25cb", "waits", "rests before it is tried again"),
    "waiting": ("\u25cb", "waits", "waits"),
    "in_doubt": ("?", "doubt", "in doubt"),
    "cut": ("\u00b7", "quiet", "cut"),
    "abandoned": ("\u00b7", "quiet", "abandoned"),
    "ahead": (" ", "quiet", "not asked yet"),
    "void": ("\u00b7", "quiet", "as if never asked"),
}
_SHOWN_BY_NAME: Final = ("args", "show", "input", "branches", "candidates", "context")
_OUTCOMES: Final = ("result", "answer", "message", "choice", "value", "data", "chunks")
_NAMES: Final = {"args": "input", "result": "output"}
_PLAIN: Final = frozenset({"id", "ordinal", "digest", "failure", "start", *_SHOWN_BY_NAME, *_OUTCOMES})


def event_nodes(log: OpenLog, model: Model) -> list[Node]:
    """Return what is known of the event at the cursor, and of the call that it belongs to, as that stood then."""
    event, call = log.event(model.at), log.call(model.at)
    nodes = list(_head(event))
    if call is None:
        return [*nodes, *_payload_nodes(("event",), event), *_raw(event)]
    start = log.event(log.index(call.start))
    nodes += _call_nodes(log, model, call)
    nodes += _payload_nodes(("asked",), start)
    for outcome in _told(log, model, call):
        nodes += _payload_nodes(("outcome", str(outcome.sequence)), outcome)
    return [*nodes, *_raw(event)]


def _head(event: Event) -> Iterator[Node]:
    yield line(("type",), Styled(event.type, "strong"), Styled(f"  event {event.sequence}", "quiet"))
    by = event.metadata.get("principal")
    yield line(
        ("when",),
        Styled(f"{date_time(event.at)}.{event.at % 1000:03}", "quiet"),
        Styled(f"  by {by}" if by else "", "quiet"),
    )
    if EDITED in event.metadata:
        yield line(("edited",), Styled(f"edited: event {event.metadata[EDITED]} of the source is another", "mark"))
    if SIMULATED in event.metadata:
        yield line(("simulated",), Styled("effects are simulated from here on", "mark"))


def _call_nodes(log: OpenLog, model: Model, call: Call) -> Iterator[Node]:
    state = log.state(model.at)
    yield line(("gap", "call"), Styled(""))
    if state is not None:
        sign, style, words = STATUS_WORDS[call_status(call, state)]
        yield line(
            ("call",), Styled(f"{sign} ", style), Styled(call.id, "name"), Styled(f"  {call.kind}, {words}", "quiet")
        )
    attempts = call.attempts_at(log.rows[model.at].sequence)
    if len(attempts) > 1 or any(attempt.failure for attempt in attempts):
        for attempt in attempts:
            yield _attempt_node(attempt, call)


def _attempt_node(attempt: Attempt, call: Call) -> Node:
    key = ("attempt", str(call.start), str(attempt.number), str(attempt.start))
    took = duration(attempt.ended_at - attempt.began_at) if attempt.ended_at is not None else "runs"
    after = f"+{duration(attempt.began_at - call.asked_at)}"
    sign, style = (
        ("\u2717", "bad")
        if attempt.failure
        else ("\u2713", "good")
        if attempt.end is not None
        else ("\u25cf", "running")
    )
    said = f"  {attempt.failure.get('type')}: {attempt.failure.get('message')}" if attempt.failure else ""
    label = (
        Styled(f"{sign} ", style),
        Styled(f"attempt {attempt.number}"),
        Styled(f"  {after}, {took}{said}", "quiet"),
    )
    failure = attempt.failure
    return Node(key, label, (lambda: failure_nodes((*key, "failure"), failure)) if failure else None)


def _told(log: OpenLog, model: Model, call: Call) -> list[Event]:
    """Return the events that ended *call* up to the cursor: the last, and with a retry those before."""
    here = log.rows[model.at].sequence
    ends = dict.fromkeys(outcome.end for outcome in call.outcomes if outcome.end <= here and outcome.end != call.start)
    event = log.event(model.at)
    ends |= dict.fromkeys([event.sequence] if event.sequence != call.start else [])
    return [log.event(log.index(end)) for end in sorted(ends)]


def _payload_nodes(key: Key, event: Event) -> Iterator[Node]:
    """Yield what a person wants to see of an event first: what went in, what came out, how it failed."""
    payload = payload_json(event.payload)
    if not isinstance(payload, dict):
        yield value_node((*key, "payload"), "payload", payload)
        return
    for field in (*_SHOWN_BY_NAME, *_OUTCOMES):
        if field in payload:
            yield value_node((*key, field), _NAMES.get(field, field), payload[field], is_open=True)
    for field, value in payload.items():
        if field not in _PLAIN and value is not None:
            yield value_node((*key, field), field, value)
    if isinstance(payload.get("failure"), dict):
        yield from failure_nodes((*key, "failure"), payload["failure"])


def failure_nodes(key: Key, failure: Mapping[str, Any]) -> list[Node]:
    """Return the record of a failure: its traceback, its message, and what it came from."""
    nodes: list[Node] = []
    for at, (indent, text, style) in enumerate(record_lines(failure)):
        role = {"red": "bad strong", "dim": "quiet"}.get(style, "")
        nodes += text_nodes((*key, str(at)), " " * (indent - 4) + text, role)
    title = Node(
        (*key,), (Styled("error", "name"), Styled(f"  {failure.get('type', '')}", "bad")), lambda: nodes, is_open=True
    )
    return [title]


def _raw(event: Event) -> Iterator[Node]:
    payload = {"payload": payload_json(event.payload), "metadata": dict(event.metadata)}
    yield line(("gap", "raw"), Styled(""))
    yield value_node(("raw",), "as it stands on the log", payload)
