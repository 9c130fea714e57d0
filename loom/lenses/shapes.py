"""The JSON shapes of views: public, documented in docs/reference/json.md, and held by golden tests."""

from __future__ import annotations

from loom.core.json import JsonObject
from loom.core.views import AwaitedMessage, OpenGate
from loom.lenses.execution import CallView, ExecutionView
from loom.lenses.inbox import TopicView


def execution_json(view: ExecutionView) -> JsonObject:
    """Return the whole of *view*."""
    return {
        "id": view.id,
        "flow": view.flow,
        "version": view.version,
        "status": view.status,
        "sequence": view.sequence,
        "last": view.last,
        "at": view.at,
        "started_at": view.started_at,
        "wake_at": view.wake_at,
        "why": view.why,
        "principal": view.principal,
        "attributes": dict(view.attributes),
        "generation": view.generation,
        "drives": view.drives,
        "fingerprint": view.fingerprint,
        "input": view.input,
        "result": view.result,
        "failure": view.failure,
        "cause": view.cause,
        "difference": view.difference,
        "first": view.first,
        "link": view.link,
        "next": view.next,
        "parent": view.parent,
        "step": view.step,
        "simulated": view.simulated,
        "source": dict(view.source) if view.source is not None else None,
        "children": [child._asdict() for child in view.children],
        "gates": [gate_json(gate) for gate in view.gates],
        "steps": [_step_json(call) for call in view.of_kind("step")],
        "answers": [_answer_json(call) for call in view.of_kind("gate") if call.end is not None],
        "receives": [receive_json(wait) for wait in view.receives],
        "messages": [_message_json(call) for call in view.of_kind("receive") if call.end is not None],
        "held": list(view.held),
        "timers": [{**_call_json(call), "due_at": call.due_at} for call in view.of_kind("timer")],
        "decisions": [_decision_json(call) for call in view.of_kind("decision")],
        "outcomes": [outcome._asdict() for outcome in view.outcomes],
        "cancel": view.cancel._asdict() if view.cancel is not None else None,
        "pause": view.pause._asdict() if view.pause is not None else None,
        "scopes": [_scope_json(call) for call in view.of_kind("scope")],
        "streams": [_stream_json(call) for call in view.of_kind("stream")],
        "events": [
            {**_call_json(call), "type": call.type, "data": call.asked.get("data")} for call in view.of_kind("event")
        ],
        "digest": view.digest,
        "chain": view.chain,
        "compacted": view.compacted,
    }


def gate_json(gate: OpenGate) -> JsonObject:
    """Return one open gate, or one effect in doubt."""
    return {
        "gate": gate.gate,
        "label": gate.label,
        "in_doubt": gate.in_doubt,
        "opened_at": gate.opened_at,
        "due_at": gate.due_at,
        "key": gate.key,
        "show": gate.show,
        "shown": gate.shown,
        "schema": gate.schema,
        "reason": gate.reason,
        "start": gate.start,
    }


def receive_json(wait: AwaitedMessage) -> JsonObject:
    """Return one receive that waits for a message."""
    return wait._asdict()


def topic_json(topic: TopicView) -> JsonObject:
    """Return one topic of an inbox with its unread messages."""
    unread = [{name: value for name, value in m._asdict().items() if name != "topic"} for m in topic.unread]
    return {**topic._asdict(), "unread": unread}


def _call_json(call: CallView) -> JsonObject:
    return {
        "id": call.id,
        "status": call.status,
        "start": call.start,
        "end": call.end,
        "asked_at": call.asked_at,
        "ended_at": call.ended_at,
    }


def _step_json(call: CallView) -> JsonObject:
    return {
        **_call_json(call),
        "tool": call.asked.get("tool"),
        "attempts": call.attempts,
        "due_at": call.due_at,
        "idempotent": not call.asked.get("once", False),
        "args": call.asked.get("args"),
        "result": call.outcome.get("result"),
        "failure": call.failure,
        "by": call.by,
    }


def _answer_json(call: CallView) -> JsonObject:
    return {
        **_call_json(call),
        "label": call.asked["label"],
        "shown": call.asked.get("shown"),
        "answer": call.outcome.get("answer"),
        "by": call.by,
    }


def _message_json(call: CallView) -> JsonObject:
    return {
        **_call_json(call),
        "topic": call.asked["topic"],
        "message": call.outcome.get("message"),
        "number": call.outcome.get("number"),
        "sent_at": call.outcome.get("sent_at"),
        "by": call.by,
    }


def _decision_json(call: CallView) -> JsonObject:
    named = ("choice", "candidates", "policy", "propensity", "context", "failure")
    return {**_call_json(call), **{name: call.outcome.get(name) for name in named}}


def _stream_json(call: CallView) -> JsonObject:
    return {**_call_json(call), "chunks": call.outcome.get("chunks"), "failure": call.failure}


def _scope_json(call: CallView) -> JsonObject:
    ended = {"counted": call.outcome.get("counted"), "branch": call.outcome.get("branch")}
    asked = {name: call.asked.get(name) for name in ("kind", "branches", "due_at")}
    return {**_call_json(call), **asked, **ended}
