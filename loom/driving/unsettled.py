"""The state of a run where it is forked: whole but for the calls that are settled, of which it has those about children.

A long run has settled nearly all that it asked, and a fork asks of that nothing more than which children it has. So of a
snapshot the rest alone is read, and of a log what a step says that ended before anything else happened is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rpds import List

from loom.core.child_names import SPAWN
from loom.core.collecting import collected_later
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, Settled, empty_state
from loom.driving.loading import newest
from loom.driving.parents import tells_of_child
from loom.driving.reading import refuse_newer, refuse_newer_rules
from loom.driving.run_reader import RunReader
from loom.driving.state_codec import decode_unsettled
from loom.kernel.codec import decode_events
from loom.kernel.fold import fold
from loom.spi.event_store import EventRecord, ExecutionRow

_LOOKS_BACK: Final = frozenset({"EXECUTION_RETRIED"})
"""What opens calls again that were settled: the fold of it needs them."""
_PAGE_BYTES: Final = 1 << 18
"""What is read at once, and let go before more is: less than what the collector begins to notice."""
_SPAWN: Final = SPAWN.encode()


async def unsettled_at(storage: RunReader, row: ExecutionRow, through: int) -> ExecutionState | None:
    """Return that state after event *through*; None where it takes more to know: the log lacks events, or looks back at them.

    Raises:
        LogNewerThanCode: it holds what this code does not know.
        LogCorrupt: what is looked at of it cannot be read.
    """
    run_id = row.execution_id
    state = await newest(storage, row, upto=through, read=decode_unsettled)
    if state is None:
        state = empty_state(run_id)
    else:
        refuse_newer_rules(run_id, state.facts.rules)
    while state.sequence < through:
        page = await storage.read(run_id, start=state.length, stop=through + 1, limit_bytes=_PAGE_BYTES)
        if not page or page[-1].sequence != state.sequence + len(page):
            return None
        if any(record.type in _LOOKS_BACK for record in page):
            return None
        state = _after(state, run_id, page)
    return state


def _after(state: ExecutionState, run_id: ExecutionId, page: Sequence[EventRecord]) -> ExecutionState:
    with collected_later():
        events = decode_events(run_id, without_done_steps(page))
        refuse_newer(events)
        after = fold(events, state)
        settled: List[Settled] = List(list(filter(tells_of_child, after.settled)))
    return after._replace(settled=settled, sequence=page[-1].sequence, at=page[-1].at)


def without_done_steps(records: Sequence[EventRecord]) -> list[EventRecord]:
    """Return *records* but for the steps that ended before anything else happened, and that started no child.

    The fold of the rest has the same calls open. A record that is written in another way than ours is left in.
    """
    left: list[EventRecord] = []
    begun: EventRecord | None = None
    for record in records:
        _, type_, _, payload, metadata = record
        if begun is not None:
            if type_ == "STEP_COMPLETED" and not metadata and payload.startswith(b'{"start":%d,' % begun.sequence):
                begun = None
                continue
            left.append(begun)
            begun = None
        if type_ == "STEP_STARTED" and not metadata and _SPAWN not in payload:
            begun = record
        else:
            left.append(record)
    return left if begun is None else [*left, begun]
