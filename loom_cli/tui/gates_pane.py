"""What a run waited for at the cursor, what it was told before, and what it decided. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.state import ExecutionState
from loom.core.views import OpenGate, awaited_messages, open_gates
from loom.lenses.inbox import UnreadMessage
from loom.lenses.timeline import Call
from loom_cli.screen import Styled
from loom_cli.times import time_of_day
from loom_cli.tui.event_pane import failure_nodes
from loom_cli.tui.model import Model
from loom_cli.tui.nodes import Key, Node, as_read, brief, line, value_node
from loom_cli.tui.open_log import OpenLog
from loom_cli.wording import awaited_words, counted, until_words

Event = EventEnvelope[Any]

_NEWEST: Final = 50
_NAMES: Final = {
    "gate": ("answers", "answer"),
    "receive": ("messages received", "message"),
    "decision": ("decisions", "choice"),
}


def gate_nodes(log: OpenLog, model: Model, unread: Sequence[UnreadMessage], now_ms: int) -> list[Node]:
    """Return the gates, messages and decisions up to the cursor; *unread* is what lies in the inbox now."""
    state = log.state(model.at)
    if state is None:
        return [line(("gone",), Styled("not known here: the events before were moved to an archive", "quiet"))]
    nodes = [*_waiting(state, now_ms), *_held(state), *_unread(unread)]
    for kind in ("gate", "receive", "decision"):
        nodes += _past(log, model, kind)
    return nodes or [line(("none",), Styled("no gate, no message and no decision up to this event", "quiet"))]


def _waiting(state: ExecutionState, now_ms: int) -> Iterator[Node]:
    if not state.is_terminal:
        for gate in open_gates(state):
            yield _gate(gate, now_ms)
    for wait in awaited_messages(state):
        said = f"  waits for {awaited_words(wait.topic)} {until_words(wait.due_at, now_ms)}"
        yield line(
            ("receive", str(wait.start)),
            Styled("\u25cb ", "waits"),
            Styled(wait.receive, "name"),
            Styled(said, "quiet"),
        )


def _gate(gate: OpenGate, now_ms: int) -> Node:
    key = ("gate", str(gate.start))
    said = "in doubt: did it happen?" if gate.in_doubt else f"waits for an answer {until_words(gate.due_at, now_ms)}"
    sign, style = ("?", "doubt") if gate.in_doubt else ("\u25cb", "waits")
    label = (Styled(f"{sign} ", style), Styled(gate.gate, "name"), Styled(f"  {said}", style))

    def children() -> Iterator[Node]:
        if gate.reason:
            yield line((*key, "reason"), Styled(gate.reason, "quiet"))
        if gate.show is not None:
            yield value_node((*key, "show"), "shows", gate.show, is_open=True)
        if gate.schema:
            yield value_node((*key, "schema"), "expects", dict(gate.schema))
        if gate.key:
            yield line((*key, "key"), Styled("key  ", "name"), Styled(gate.key))
        if not gate.in_doubt:
            yield line((*key, "how"), Styled("A answers it", "quiet"))

    return Node(key, label, children, is_open=True)


def _held(state: ExecutionState) -> Iterator[Node]:
    for topic in sorted(state.facts.held):
        yield line(
            ("held", topic),
            Styled("\u25cb ", "waits"),
            Styled(topic, "name"),
            Styled("  is held back by an operator", "quiet"),
        )


def _unread(unread: Sequence[UnreadMessage]) -> Iterator[Node]:
    if not unread:
        return
    nodes = [
        value_node(("unread", str(message.number)), f"{message.number} {message.topic}", message.message)
        for message in unread[:_NEWEST]
    ]
    label = (Styled("unread now", "strong"), Styled(f"  {counted(len(unread), 'message', 'messages')}", "quiet"))
    yield Node(("unread",), label, lambda: nodes, is_open=True)


def _past(log: OpenLog, model: Model, kind: Any) -> list[Node]:
    here = log.rows[model.at].sequence
    title, field = _NAMES[kind]
    calls = [call for call in log.calls(kind, here, _NEWEST) if call.outcome_at(here) is not None]
    if not calls:
        return []
    count = log.count(kind, here)
    more = f", the last {len(calls)} of {count}" if count > len(calls) and count > _NEWEST else ""
    label = (Styled(title, "strong"), Styled(f"  {len(calls)}{more}", "quiet"))
    return [Node((kind,), label, lambda: [_told(log, call, here, field) for call in calls], is_open=True)]


def _told(log: OpenLog, call: Call, here: int, field: str) -> Node:
    outcome = call.outcome_at(here)
    assert outcome is not None
    event = log.event(log.index(outcome.end))
    key = (call.kind, str(call.start))
    by = event.metadata.get("principal")
    value = getattr(event.payload, field, None)
    said = brief(as_read(value)) if outcome.status == "done" else outcome.status.replace("_", " ")
    label = (
        Styled(f"{outcome.end} ", "quiet"),
        Styled(call.id, "name"),
        Styled(f"  {said}", "bad" if outcome.status != "done" else ""),
        Styled(f"  {time_of_day(outcome.at)}{f' by {by}' if by else ''}", "quiet"),
    )
    return Node(key, label, lambda: list(_details(log, call, event, key)))


def _details(log: OpenLog, call: Call, event: Event, key: Key) -> Iterator[Node]:
    start = log.event(log.index(call.start))
    shown = getattr(start.payload, "show", None)
    if shown is not None:
        yield value_node((*key, "show"), "shown", shown)
    for field in ("answer", "message", "choice", "candidates", "policy", "propensity", "context"):
        value = getattr(event.payload, field, None)
        if value is not None:
            yield value_node((*key, field), field, value, is_open=field in ("answer", "message", "choice"))
    failure = getattr(event.payload, "failure", None)
    if failure is not None:
        yield from failure_nodes((*key, "failure"), failure)
