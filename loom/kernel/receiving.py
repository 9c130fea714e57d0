"""The inbox of a driven run, and the syscall that takes a message from it.

A message stays in the request lane until a receive of its topic stands open; only then is it journaled, so it becomes visible
at one recorded place. It is journaled when the body stands still and nothing else waits to be delivered, and delivered at
once: no branch takes a message that a record before it would have cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from loom import values
from loom.core import facts as f
from loom.core.errors import LoomError
from loom.core.failures import ReceiveTimedOut
from loom.core.json import JsonObject
from loom.core.mailbox import Mailbox
from loom.kernel.calls import Call, Event
from loom.spi.event_store import Request

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


class ReceiveSyscall:
    """A wait for the next message of *topic*; *expects* is its annotation, *timeout_ms* counts from the first asking."""

    starts = "MESSAGE_AWAITED"

    def __init__(self, topic: str, *, expects: Any, timeout_ms: int | None) -> None:
        self.topic, self.expects, self.timeout_ms = topic, expects, timeout_ms
        values.expected(expects, f"expects of the topic {topic}")  # what fits no message is not the sender's mistake
        self.codec = values.codec_for(expects)

    def asked(self) -> JsonObject:
        return {"topic": self.topic, "timeout_ms": self.timeout_ms}

    def begin(self, call: Call, drive: Drive) -> None:
        due_at = None if self.timeout_ms is None else drive.now_ms() + self.timeout_ms
        generation = drive.state.facts.generation or None
        awaited = f.MessageAwaited(call.id, call.ordinal, call.digest, self.topic, due_at, generation)
        drive.started(call, drive.commit("MESSAGE_AWAITED", awaited))
        self.reopen(call, drive)

    def reopen(self, call: Call, drive: Drive) -> None:
        assert call.start is not None
        due_at = call.start.payload.due_at
        if due_at is not None:
            drive.timers.add(due_at, lambda: drive.requests.inbox.is_late(call), lambda: drive.wants(call))
        drive.requests.inbox.mail.wait(self.topic, call.sequence, call)
        drive.delivery.stir()  # its message may be there already

    def received(self, call: Call, request: Request, body: Mapping[str, Any]) -> f.MessageReceived:
        """Return the fact that taking the message of *request* is; one that was received before is as it was recorded.

        Raises:
            InvalidPayload, RecordUnreadable: it is not what is expected.
        """
        was = "recorded" in body
        message = (
            self.codec.decode(body["recorded"]) if was else values.parse(values.decode(body["message"]), self.expects)
        )
        return f.MessageReceived(call.sequence, request.number, request.at, self.codec.encode(message))

    def revive(self, call: Call, event: Event) -> Any:
        if event.type == "MESSAGE_TIMED_OUT":
            raise ReceiveTimedOut(topic=self.topic, receive=call.id)
        return self.codec.decode(event.payload.message)


class Inbox:
    """The messages that were read from the lane and that no receive has taken."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self.mail: Mailbox[Request, Call] = Mailbox()
        self.late: deque[Call] = deque()  # receives whose time is over

    def put(self, request: Request) -> None:
        """Keep a message until it is received."""
        self.mail.put(orjson.loads(request.body)["topic"], request.number, request)

    def has_for(self, call: Call) -> bool:
        """Whether *call* could take a message now."""
        topic = getattr(call.syscall, "topic", None)
        return topic is not None and self.mail.has_unread(topic) and topic not in self._drive.state.facts.held

    def is_late(self, call: Call) -> None:
        """The time of *call* is over; a message that is there already is still received."""
        self.late.append(call)
        self._drive.delivery.progress += 1  # else the drive, which stands still, might just be parking
        self._drive.delivery.stir()

    def take(self) -> bool:
        """Have the oldest message that a receive waits for, or else that one is late, delivered next; False: neither."""
        is_nothing = self.mail.is_quiet and not self.late  # as nearly always, whenever the body stands still
        event = None if is_nothing else self._received() or self._timed_out()
        if event is not None:
            self._drive.delivery.queue.append(event)
        return event is not None

    def _received(self) -> Event | None:
        """Journal the oldest message for the oldest receive of its topic; one that is not what it expects is dropped."""
        held = self._drive.state.facts.held
        while (taken := self.mail.take(self._stands, self._may, held=held)) is not None:
            call, request = taken
            assert isinstance(call.syscall, ReceiveSyscall)
            body = orjson.loads(request.body)
            try:
                fact = call.syscall.received(call, request, body)
                about = self._drive.requests.about(request, body)
                return self._drive.commit("MESSAGE_RECEIVED", fact, about, consumes=request.number)
            except LoomError as error:
                self._drive.requests.drop(request, body, f"{call.id} does not take it: {error}")
        return None

    def _timed_out(self) -> Event | None:
        late = self.late
        while late and not self._drive.wants(late[0]):
            late.popleft()
        return self._drive.commit("MESSAGE_TIMED_OUT", f.MessageTimedOut(late[0].sequence)) if late else None

    def _stands(self, call: Call) -> bool:
        return self._drive.wants(call) and call in self._drive.delivery.waiting

    def _may(self, call: Call) -> bool:
        return not self._drive.is_closing(call.branch)
