"""Messages and who waits for them, by topic: which of them go together next, in little more than constant time.

A reader takes the oldest message there is of its topic; of all topics the one goes first whose message is the oldest. How
many messages wait, or readers, or topics, hardly matters: looked at are those topics only that have both.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Container, Iterator
from heapq import heappop, heappush
from operator import itemgetter
from typing import Generic, TypeVar

Message = TypeVar("Message")
Reader = TypeVar("Reader")


class Mailbox(Generic[Message, Reader]):
    """Messages by topic in the order in which they were put, and readers by topic in the order of their numbers.

    `_ready` is a heap: of each topic that has both a message and a reader, the number of its oldest message.
    """

    def __init__(self) -> None:
        self._unread: dict[str, deque[tuple[int, Message]]] = {}
        self._waits: dict[str, list[tuple[int, Reader]]] = {}
        self._ready: list[tuple[int, str]] = []

    @property
    def is_quiet(self) -> bool:
        """Whether no topic has both a message and a reader."""
        return not self._ready

    def put(self, topic: str, number: int, message: Message) -> None:
        """Keep a message until it is taken; it is younger than all that were put before, and its *number* greater."""
        unread = self._unread.setdefault(topic, deque())
        unread.append((number, message))
        if len(unread) == 1 and topic in self._waits:
            heappush(self._ready, (number, topic))

    def wait(self, topic: str, number: int, reader: Reader) -> None:
        """*reader* waits for a message of *topic*, before those with a greater *number*."""
        is_first = topic not in self._waits
        insort(self._waits.setdefault(topic, []), (number, reader), key=itemgetter(0))
        if is_first and topic in self._unread:
            heappush(self._ready, (self._unread[topic][0][0], topic))

    def has_unread(self, topic: str) -> bool:
        """Whether a message of *topic* is there."""
        return topic in self._unread

    def is_awaited(self, topic: str) -> bool:
        """Whether somebody waited for *topic* when it was last looked."""
        return topic in self._waits

    def take(
        self, waits: Callable[[Reader], bool], may: Callable[[Reader], bool], *, held: Container[str] = ()
    ) -> tuple[Reader, Message] | None:
        """Take the oldest message out that has a reader, but for topics that are *held*, and return both; None: there is none.

        Of the readers of its topic it is the first that still *waits* and that *may* take it now. Who does not wait any more
        never will again.
        """
        passed_over = []
        try:
            while self._ready:
                head = heappop(self._ready)
                topic = head[1]
                for reader in () if topic in held else self._readers(topic, waits, may):
                    return reader, self._taken(topic)
                if topic in self._waits:
                    passed_over.append(head)
            return None
        finally:
            for head in passed_over:
                heappush(self._ready, head)

    def _readers(self, topic: str, waits: Callable[[Reader], bool], may: Callable[[Reader], bool]) -> Iterator[Reader]:
        """Yield those who wait for *topic* and may have it; who does not wait any more is forgotten once he is the first."""
        queue = self._waits[topic]
        while queue and not waits(queue[0][1]):
            del queue[0]
        if not queue:
            del self._waits[topic]
        return (reader for _, reader in queue if waits(reader) and may(reader))

    def _taken(self, topic: str) -> Message:
        unread = self._unread[topic]
        _, message = unread.popleft()
        if unread:
            heappush(self._ready, (unread[0][0], topic))
        else:
            del self._unread[topic]
        return message
