"""The inbox of an execution as people look at it: what is unread, by topic, and what waits for it or holds it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from loom import values
from loom.core.state import ExecutionState
from loom.core.views import awaited_messages
from loom.spi.event_store import Request


class UnreadMessage(NamedTuple):
    """A message that no receive has taken. *message* is encoded as on a log, *sent_at* is in ms since the epoch.

    *number* is its place in the lane, *key* what it may be sent under only once, *by* who sent it.
    """

    number: int
    topic: str
    message: Any
    sent_at: int
    key: str | None
    by: str | None


class TopicView(NamedTuple):
    """One topic of an inbox: whether it is *held*, how many receives are *waiting* there, what is *unread*, oldest first."""

    topic: str
    held: bool
    waiting: int
    unread: tuple[UnreadMessage, ...]


def unread_messages(pending: Sequence[Request]) -> list[UnreadMessage]:
    """Return the messages among the pending requests of a lane, the oldest first."""
    return [_unread(request) for request in pending if request.kind == "message"]


def inbox_view(state: ExecutionState, pending: Sequence[Request]) -> list[TopicView]:
    """Return the topics that hold something, are held, or are waited for, by name."""
    waits = [wait.topic for wait in awaited_messages(state)]
    unread = unread_messages(pending)
    topics = sorted({message.topic for message in unread} | set(waits) | state.facts.held)
    return [
        TopicView(topic, topic in state.facts.held, waits.count(topic), tuple(m for m in unread if m.topic == topic))
        for topic in topics
    ]


def _unread(request: Request) -> UnreadMessage:
    body = values.loads(request.body)
    key = request.key.removeprefix("message:") if request.key.startswith("message:") else None
    message = body["recorded"] if "recorded" in body else body["message"]
    return UnreadMessage(request.number, body["topic"], message, request.at, key, body.get("principal"))
