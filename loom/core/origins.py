"""From which syscall of a run an outcome, or an exception in the flow, came: by the sequence of its start."""

from __future__ import annotations

from typing import Any, TypeAlias

from loom.core.envelope import EventEnvelope

Event: TypeAlias = EventEnvelope[Any]


def start_of(event: Event) -> int:
    """Return the sequence of the start that an outcome cites; a decision is its own start."""
    return getattr(event.payload, "start", event.sequence)


def remember_start(error: BaseException, event: Event) -> None:
    """Note on *error* which start it is the outcome of, so that a failed run names it.

    What a branch raised keeps the mark it has; an error of the author's own is marked with the scope it left.
    """
    if hasattr(error, "__loom_start__"):
        return
    try:
        error.__loom_start__ = start_of(event)  # type: ignore[attr-defined]  # ours, on an exception of anybody's
    except AttributeError:
        return  # an author's exception with slots: the run then fails without naming a step


def cause_of(error: BaseException | None) -> int | None:
    """Return the start of the syscall whose recorded failure *error* is, or was raised from; None for neither."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        start: int | None = getattr(error, "__loom_start__", None)
        if start is not None:
            return start
        error = error.__cause__ or error.__context__
    return None
