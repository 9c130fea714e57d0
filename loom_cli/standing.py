"""Where one run stands, now or after an event, as `loom show` tells it and every command that says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loom.core.json import JsonObject
from loom.core.state import TERMINAL
from loom.driving.forked_again import forked_again
from loom.driving.run_reader import RunReader
from loom.driving.stored_log import StoredLog
from loom.driving.untaken import settled_meanwhile
from loom.lenses.execution import ExecutionView, execution_view
from loom.lenses.folding import fold_at
from loom.lenses.inbox import UnreadMessage, unread_messages
from loom.lenses.shapes import execution_json
from loom.spi.event_store import ExecutionRow
from loom_cli.branches import Main, main_of
from loom_cli.drivers import is_cancelling
from loom_cli.errors import Usage
from loom_cli.reading import children_of, lane_of, log_meant
from loom_cli.trials import may_have_stopped


class Stood(NamedTuple):
    """What a store has of a run: its log, its row of the index, its unread messages, its children, and which branch of its family counts.

    *answered* are the gates and effects in doubt, by the sequences of their starts, whose answer no driver has taken up.
    """

    log: StoredLog
    row: ExecutionRow | None
    unread: Sequence[UnreadMessage]
    children: Sequence[ExecutionRow]
    main: Main | None = None
    answered: frozenset[int] = frozenset()


async def stood(storage: RunReader, text: str) -> Stood:
    """Return what *storage* has of the run that *text* means; errors as those of `log_meant`."""
    log = await log_meant(storage, text)
    row, pending = await storage.row(log.run_id), await lane_of(storage, log.run_id)
    children, main = await children_of(storage, log.events), await main_of(storage, log.run_id)
    return Stood(log, row, unread_messages(pending), children, main, settled_meanwhile(log.run_id, pending))


def require_events(log: StoredLog, numbers: Mapping[str, int | None]) -> None:
    """Refuse a number of an event that *log* does not have, by the flag that named it.

    Raises:
        Usage: there is no such event.
    """
    for flag, number in numbers.items():
        if number is not None and number >= log.length:
            raise Usage(f"there is no event {number}", hint=f"{flag} {log.length - 1} is the last one")


def view_of(found: Stood, at: int | None) -> ExecutionView:
    """Return the run as it stood after event *at*, None: as it stands.

    Raises:
        IndexError, LogCompacted, LogCorrupt: see `fold_at`.
    """
    log = found.log
    return execution_view(fold_at(log.events, at, base=log.base), log.events, base=log.base, children=found.children)


def unread_at(found: Stood, at: int | None) -> Mapping[str, int] | None:
    """Return how many messages are unread, by topic; None for a past state: that is not kept."""
    return dict(Counter(message.topic for message in found.unread)) if at is None else None


def answered_at(found: Stood, view: ExecutionView, at: int | None) -> list[str] | None:
    """Return the gates and effects in doubt whose answer no driver has taken up; None for a past state: that is not kept."""
    return [gate.gate for gate in view.gates if gate.start in found.answered] if at is None else None


def cancelling_at(found: Stood, view: ExecutionView, at: int | None) -> bool:
    """Whether the run is on its way to be cancelled, be it by a request that no driver has journaled yet."""
    is_asked = at is None and found.row is not None and is_cancelling(found.row)
    return view.status not in TERMINAL and (view.cancel is not None or is_asked)


def whole_json(
    found: Stood, view: ExecutionView, at: int | None, *, present: JsonObject | None = None
) -> dict[str, Any]:
    """Return all that is known of a run after event *at*, in the shape of docs/reference/json.md."""
    beside = {
        "cancelling": cancelling_at(found, view, at),
        "stopped": has_stopped(found, view, at),
        "unread": unread_at(found, at),
        "answered": answered_at(found, view, at),
        "present": present,
        "main": main_json(found.main) if at is None else None,
    }
    return {**execution_json(view), **beside}


def main_json(main: Main | None) -> dict[str, Any] | None:
    """Return which branch of a run's family counts, None where none was promoted."""
    return None if main is None else {"execution_id": main.execution_id, "at": main.at, "is_it": main.is_it}


def has_stopped(found: Stood, view: ExecutionView, at: int | None) -> bool:
    """Whether the run is a trial that its driver has let go, as far as its row tells."""
    is_trial = view.simulated or (view.forked is not None and view.forked.served is not None)
    return at is None and is_trial and found.row is not None and may_have_stopped(found.row)


def again_words(found: Stood, view: ExecutionView) -> str:
    """Return the command that forks a trial anew which is served from its source alone, empty for another run."""
    is_only_served = view.forked is not None and view.forked.served == "only" and not view.simulated
    return forked_again(found.log.state()) if is_only_served else ""
