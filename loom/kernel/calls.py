"""Branches of a running body, and the syscalls they stand in.

A `Branch` is one strand of the flow with a task of its own: the body, or a branch of a scope. It hands out ordinals and
identities, in the order in which its syscalls are called. A `Call` is one syscall, from the instant it is called; what it
does, its `Syscall` knows. Nothing here knows when an outcome is due (delivery.py) or what it means (the syscalls).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from loom import values
from loom.core.envelope import EventEnvelope
from loom.core.identity import Tag, escape
from loom.core.json import JsonObject
from loom.fingerprint.places import location_of, place_of_frame

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

Event = EventEnvelope[Any]


class DriveEnding(BaseException):
    """The signal that unwinds a body when its drive ends. No error: `except Exception` does not see it."""


class BranchCut(BaseException):
    """The signal that unwinds a branch whose scope has ended: a sibling failed, or enough had ended, or time was over."""


class Syscall(Protocol):
    """What one kind of syscall does. *starts* is the type of the event it writes when it is asked."""

    starts: str

    def begin(self, call: Call, drive: Drive) -> None:
        """Do it for the first time: write the start, and set in motion what leads to an outcome."""
        ...

    def reopen(self, call: Call, drive: Drive) -> None:
        """Take it up again: its start is on the log, its outcome is not."""
        ...

    def revive(self, call: Call, event: Event) -> Any:
        """Return the value that *event* gives the body, or raise the failure it records."""
        ...

    def asked(self) -> Any:
        """Return what it was asked with, as JSON, for messages."""
        ...


class Branch:
    """One strand of a flow. *prefix* is the path text of its syscalls, *seen* the event that it has seen last."""

    def __init__(self, path: tuple[tuple[str, str], ...], prefix: str, *, parent: Branch | None, seen: Event) -> None:
        self.path, self.prefix, self.parent, self.seen = path, prefix, parent, seen
        self.task: asyncio.Task[Any] | None = None
        self.ordinal = 0
        self.counters: dict[str, int] = {}
        self.named: dict[tuple[str, Tag | None], tuple[str, str, str, Any]] = {}
        self.served: dict[str, Call] = {}
        self.standing: Call | None = None
        self.waiting: dict[Call, None] = {}
        self.awaited: tuple[Call, ...] = ()
        """Who waits for its end by name: a join waits for all branches, this for one."""
        self.ended = self.cancelled = self.was_cancelled = False
        self.cut: str = parent.cut if parent is not None else ""
        """The prefix of the innermost scope above it that was cut."""
        self.last_id, self.draws, self.undos, self.shields, self.is_free = "", 0, 0, 0, False

    @property
    def name(self) -> str:
        """Its name in its scope."""
        return self.path[-1][1]

    @property
    def is_cut(self) -> bool:
        """Whether it is to end, because a scope above it was cut and no shield below that scope holds it off."""
        return bool(self.cut) and self.lies_open(self.cut)

    def lies_open(self, prefix: str) -> bool:
        """Whether the branch is at or below *prefix* with no shield between: a cut there reaches it."""
        below = [each for each in self.line() if each.prefix.startswith(prefix)]
        return bool(below) and not any(each.shields for each in below)

    def line(self) -> Iterator[Branch]:
        """Yield the branch and all above it."""
        now: Branch | None = self
        while now is not None:
            yield now
            now = now.parent

    def mint(self, name: str, tag: Tag | None = None) -> str:
        """Return the id text of the next call of *name*: with *tag*, or the next occurrence."""
        if tag is not None:
            return f"{self.prefix}{escape(name)}{tag}"
        count = self.counters.get(name, 0)
        self.counters[name] = count + 1
        return f"{self.prefix}{escape(name)}#{count}" if count else self.prefix + escape(name)

    def where(self) -> str:
        """Return the file and line of the author's code that this branch stands at."""
        try:
            is_running = asyncio.current_task() is self.task
        except RuntimeError:
            is_running = False
        return place_of_frame(inspect.currentframe()) if is_running else location_of(self.task)


class Call:
    """One syscall of one branch. *future* is set while the body waits for its outcome; *compared* is what a replay compares.

    One that is *free* was called under a shield, or in a clean-up: it is not cancelled with its run.
    """

    # What a replayed step never sets stands here once, not in each of a long log's calls.
    _digest: str | None = None
    start: Event | None = None
    future: asyncio.Future[Event] | None = None
    own = settled = free = False
    context: contextvars.Context | None = None
    outcome: Event | None = None
    followers: tuple[Call, ...] = ()
    task: asyncio.Task[Any] | None = None
    """Who waits for it, where that is another task than the branch's own."""

    def __init__(self, branch: Branch, syscall: Syscall, id: str, compared: Any, *, ordinal: int | None = None) -> None:
        self.branch, self.syscall, self.id, self.compared = branch, syscall, id, compared
        if ordinal is None:
            ordinal, branch.ordinal = branch.ordinal, branch.ordinal + 1
        self.ordinal = ordinal

    @property
    def digest(self) -> str:
        """The digest of what is compared on replay; a replay rarely needs it."""
        if self._digest is None:
            self._digest = values.digest(self.compared)
        return self._digest

    @property
    def sequence(self) -> int:
        """The sequence of the event that started this syscall."""
        assert self.start is not None
        return self.start.sequence

    @property
    def is_once(self) -> bool:
        """Whether this is a step on the log that must not run twice."""
        return self.start is not None and bool(getattr(self.start.payload, "once", None))

    def side(self) -> JsonObject:
        """Return the asked side of a comparison, for messages and for the log."""
        return {
            "kind": self.syscall.starts,
            "id": self.id,
            "args": self.syscall.asked(),
            "digest": self.digest,
            "where": self.branch.where(),
        }


def recorded_side(start: Event) -> Mapping[str, Any]:
    """Return the recorded side of a comparison."""
    payload = start.payload
    args = getattr(payload, "args", None)
    return {"kind": start.type, "id": payload.id, "args": args, "digest": payload.digest, "sequence": start.sequence}
