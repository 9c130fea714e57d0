"""What a syscall would write if it were asked for the first time: the fact behind a record, made once more from the code.

A replay compares identity and arguments. A proof compares the rest of the fact, too, so the syscall is asked to begin in front
of an onlooker that keeps what it would commit, and lets nothing happen.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from loom.kernel.calls import Call
from loom.kernel.drive import Drive


def fact_asked(call: Call, *, generation: int) -> Any | None:
    """Return the fact that *call* would begin with in that generation of its run; None where only its outcome is a fact.

    Times in it (`due_at`) are those of a clock that stands at 0.
    """
    onlooker = _Onlooker(generation)
    try:
        call.syscall.begin(call, cast("Drive", onlooker))
    except _WouldWrite as told:
        return told.fact
    return None


class _WouldWrite(Exception):
    """A syscall came to where it commits *fact*."""

    def __init__(self, fact: Any) -> None:
        super().__init__()
        self.fact = fact


class _Onlooker:
    """Stands where a syscall expects its drive."""

    def __init__(self, generation: int) -> None:
        self.state = SimpleNamespace(facts=SimpleNamespace(generation=generation))
        self.flights = self

    def now_ms(self) -> int:
        return 0

    def commit(self, type_: str, fact: Any) -> None:
        raise _WouldWrite(fact)

    def started(self, *_: object) -> None: ...

    def start(self, *_: object, **__: object) -> None:
        raise _WouldWrite(None)
