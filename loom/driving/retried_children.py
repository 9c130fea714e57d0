"""What a retry of a run that failed because of a child means for its children: those that failed are tried again with it.

The end of a child is a message. One that its parent has received is made void with the failure, and the child tried again
when it is waited for anew (family.py). One that lies unread tells of the same outage: it is dropped, so that it does not
fail the run that is being tried again. A child that was cancelled because another failed has ended for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from loom import values
from loom.core import facts as f
from loom.core.child_names import CANCEL, CHILD_TOPIC, SPAWN
from loom.core.envelope import EventEnvelope
from loom.core.state import ExecutionState
from loom.driving.errors import ChildrenCancelled
from loom.driving.parents import tells_of_failure
from loom.kernel.journal import Journal
from loom.spi.event_store import ExecutionQuery, Lane, Request, Storage

_WHY: Final = "the run is tried again, and so is the child"


async def refuse_without(storage: Storage, state: ExecutionState, retried: f.ExecutionRetried) -> None:
    """Refuse to try a run again that would wait for children which it has had cancelled when it failed.

    Raises:
        ChildrenCancelled: there are such; nothing was written.
    """
    wanted = [child for start in _cancelled_with(state, retried) for child in start.payload.args["children"]]
    tips = [(child, row) for child in wanted for row in await storage.find(ExecutionQuery(chain=child, tips=True))]
    lost = [
        child for child, row in tips if row.index.status == "cancelled" or (row.cancel_asked and not row.index.ended)
    ]
    if lost:
        raise ChildrenCancelled(execution_id=state.execution_id, children=lost, fork_at=_spawned_at(state, lost))


def _cancelled_with(state: ExecutionState, retried: f.ExecutionRetried) -> Iterator[EventEnvelope[Any]]:
    """Yield the steps which the retry makes void, or takes up, that had children cancelled."""
    again = {*retried.void, *retried.reopened}
    starts: Mapping[int, EventEnvelope[Any]] = {s.start.sequence: s.start for s in state.settled} | dict(
        state.open.items()
    )
    for sequence, start in sorted(starts.items()):
        name = str(getattr(start.payload, "id", "")).rpartition("/")[2]
        if sequence in again and start.type == "STEP_STARTED" and name.partition("#")[0] == CANCEL:
            yield start


def _spawned_at(state: ExecutionState, children: Sequence[str]) -> int | None:
    """Return the sequence before the first of *children* was started, where that is on what the state keeps."""
    spawned = [
        settled.start.sequence
        for settled in state.settled
        if str(getattr(settled.start.payload, "id", "")).rpartition("/")[2].startswith(SPAWN)
        and getattr(settled.outcome.payload, "result", None) in children
    ]
    return min(spawned, default=0) - 1 if spawned else None


async def drop_old_failures(storage: Storage, state: ExecutionState, lane: Lane, journal: Journal) -> None:
    """Journal that the failures of children come to nothing which lie unread, if the run failed because of a child."""
    if not _failed_by_a_child(state):
        return
    for request in await storage.pending(*lane):
        if _is_old(request):
            dropped = f.RequestDropped(request.kind, request.key, _WHY)
            journal.commit("REQUEST_DROPPED", dropped, {"request": request.number}, consumes=request.number)


def _failed_by_a_child(state: ExecutionState) -> bool:
    causes = (settled.start for settled in state.settled if settled.start.sequence == state.facts.cause)
    return any(str(getattr(start.payload, "topic", "")).startswith(CHILD_TOPIC) for start in causes)


def _is_old(request: Request) -> bool:
    if request.kind != "message":
        return False
    body = values.loads(request.body)
    return "message" in body and tells_of_failure(body["topic"], body["message"])
