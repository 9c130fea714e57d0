"""How the branches of a scope have ended, and when that is enough to end the scope. Pure.

A scope ends by itself when all its branches have ended. It ends earlier, by a record of its own, when *wanted* branches have
succeeded (closed), when more than *failures_max* have failed, or when its time is over; the branches still open are then cut.
Outcomes reach a run one at a time, so that no two branches end at once, and the first reason stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from loom.core import facts as f
from loom.core.json import JsonObject

T = TypeVar("T")

Verdict: TypeAlias = Literal["closed", "failed", "timed_out"]
Shape: TypeAlias = Callable[[Sequence[str], Sequence[Any]], Any]
"""What a scope returns, made of the names and the results of the branches that count, in order."""


class Selected(NamedTuple, Generic[T]):
    """The branch that was first: its *name*, and its result as *value*."""

    name: str
    value: T


class Tally:
    """Counts the branches of one scope as they end, each told by its name."""

    def __init__(self, *, wanted: int | None = None, failures_max: int = 0) -> None:
        self.wanted, self.failures_max = wanted, failures_max
        self.verdict: Verdict | None = None
        self.counted: list[str] = []
        self.failures: list[tuple[str, BaseException]] = []

    def succeeded(self, name: str) -> None:
        """Branch *name* returned."""
        if self.verdict is None and self.wanted is not None:
            self.counted.append(name)
            if len(self.counted) == self.wanted:
                self.verdict = "closed"

    def failed(self, name: str, error: BaseException) -> None:
        """Branch *name* raised *error*; after the first failures it is kept as one that came later."""
        self.failures.append((name, error))
        if self.verdict is None and len(self.failures) > self.failures_max:
            self.verdict = "failed"

    def time_is_over(self) -> None:
        """It is on the log that the time of the scope is over, whatever else is known."""
        self.verdict = "timed_out"

    def record(self, start: int) -> tuple[str, f.ScopeClosed | f.ScopeCut]:
        """Return the record, type and fact, that ends the scope opened at *start* for the reason that stands."""
        if self.verdict == "closed":
            return "SCOPE_CLOSED", f.ScopeClosed(start, list(self.counted))
        return "SCOPE_CUT", f.ScopeCut(start, self.failures[0][0])

    def side(self, scope: str) -> JsonObject | None:
        """Return how the *scope* ends for the reason that stands, None while there is none."""
        return None if self.verdict is None else told_end(scope, *self.record(0))

    def agrees_with(self, fact: Any) -> bool:
        """Whether a recorded fact about the scope can be what comes next; the clock alone is not known beforehand."""
        if isinstance(fact, f.ScopeClosed | f.ScopeCut):
            return self.verdict is not None and self.record(fact.start)[1] == fact._replace(shielded=None)
        return True


def told_end(scope: str, type_: str, fact: Any) -> JsonObject:
    """Return a record that ends the *scope* as a side of a comparison, for messages and for the log."""
    branch = getattr(fact, "branch", None)
    where = scope if branch is None else f"{scope}/{branch}"
    return {"kind": type_, "id": where, "args": getattr(fact, "counted", None)}


def as_tuple(names: Sequence[str], results: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results."""
    return tuple(results)


def as_list(names: Sequence[str], results: Sequence[Any]) -> list[Any]:
    """Return the results."""
    return list(results)


def as_dict(names: Sequence[str], results: Sequence[Any]) -> dict[str, Any]:
    """Return the results by name."""
    return dict(zip(names, results, strict=True))


def as_selected(names: Sequence[str], results: Sequence[Any]) -> Selected[Any]:
    """Return the first."""
    return Selected(names[0], results[0])


def as_value(names: Sequence[str], results: Sequence[Any]) -> Any:
    """Return the first result."""
    return results[0]
