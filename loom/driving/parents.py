"""What the end of a child is for its parent: a message, written in the transaction that ends the child.

So there is no instant at which the child has ended and its parent cannot know; no driver has to carry the news. A retried
child ends anew, in another generation, and tells so anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loom import values
from loom.core.child_names import CHILD_TOPIC, SPAWN
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, Settled
from loom.spi.event_store import Send


def known_as(state: ExecutionState) -> ExecutionId:
    """Return the id by which the run that spawned *state* knows it: a fork of a child stands for that child."""
    facts = state.facts
    stands_for = facts.parent.get("stands_for") if facts.parent is not None else None
    return ExecutionId(stands_for or (facts.chain[0] if facts.chain else state.execution_id))


def sends_of(state: ExecutionState) -> Sequence[Send]:
    """Return what the end of the run that *state* is tells the run that spawned it; nothing while it goes on."""
    facts, parent = state.facts, state.facts.parent
    if parent is None or not state.is_terminal or state.status == "continued":
        return ()
    child = known_as(state)
    reason = facts.cancel.payload.reason if facts.cancel is not None else None
    message = {"status": state.status, "result": facts.result, "failure": facts.failure, "reason": reason}
    body = {"topic": CHILD_TOPIC + child, "message": values.encode(message)}
    key = f"child:{child}:{facts.generation}"
    return (Send(ExecutionId(parent["execution_id"]), "message", key, state.at, values.dumps(body)),)


def tells_of_child(settled: Settled) -> bool:
    """Whether a call that is settled started a child, or received the end of one."""
    start, outcome = settled
    if outcome.type == "STEP_COMPLETED":
        return SPAWN in start.payload.id and _is_spawn(start)
    return outcome.type == "MESSAGE_RECEIVED" and bool(start.payload.topic.startswith(CHILD_TOPIC))


def _is_spawn(start: EventEnvelope[Any]) -> bool:
    """Whether a start is that of the step with which `loom.spawn` starts a child."""
    name = start.payload.id.rpartition("/")[2]
    return (
        bool(name.startswith(SPAWN)) and isinstance(start.payload.args, Mapping) and "on_cancel" in start.payload.args
    )


def tells_of_failure(topic: str, message: Any) -> bool:
    """Whether a message, as it stands on the log, says that a child has failed."""
    return topic.startswith(CHILD_TOPIC) and bool(message["status"] == "failed")
