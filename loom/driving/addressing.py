"""Finding the gate, or the decision, that somebody means. Pure: decides by the state, refuses by raising, guesses nothing."""

from __future__ import annotations

from loom.core.state import ExecutionState
from loom.core.views import OpenGate, open_gates
from loom.driving.errors import (
    AlreadyAnswered,
    AmbiguousDoubt,
    AmbiguousGate,
    ApprovalMismatch,
    DecisionNotFound,
    GateNotOpen,
    NotInDoubt,
)


def gate_meant(state: ExecutionState, address: str | None, *, shown: str | None = None) -> OpenGate:
    """Return the open gate that *address* names: its whole id, an ending of it, its key, or nothing if only one is open.

    Raises:
        AlreadyAnswered: it was answered.
        GateNotOpen: none fits.
        AmbiguousGate: several fit; they are listed.
        ApprovalMismatch: *shown* is not the digest of what the gate shows.
    """
    gates = [gate for gate in open_gates(state) if not gate.in_doubt]
    fitting = _fitting(gates, address)
    addresses = [gate.gate for gate in gates]
    if not fitting:
        answered = _answered(state, address)
        if answered is not None:
            raise AlreadyAnswered(execution_id=state.execution_id, gate=answered)
        raise GateNotOpen(execution_id=state.execution_id, gate=address, open_gates=addresses)
    if len(fitting) > 1:
        ids = [gate.gate for gate in fitting]
        raise AmbiguousGate(execution_id=state.execution_id, gate=address, open_gates=ids)
    gate = fitting[0]
    if shown is not None and shown != gate.shown:
        raise ApprovalMismatch(
            execution_id=state.execution_id, gate=gate.gate, shown=gate.shown or "nothing", answered=shown
        )
    return gate


def doubt_meant(state: ExecutionState, address: str | None) -> OpenGate:
    """Return the effect in doubt that *address* names: its step id, an ending of it, or nothing if there is only one.

    Raises:
        NotInDoubt: none fits; those in doubt are listed.
        AmbiguousDoubt: several fit; they are listed.
    """
    doubts = [gate for gate in open_gates(state) if gate.in_doubt]
    fitting = _fitting(doubts, address)
    if len(fitting) > 1:
        ids = [gate.gate for gate in fitting]
        raise AmbiguousDoubt(execution_id=state.execution_id, step=address, in_doubt=ids)
    if not fitting:
        ids = [gate.gate for gate in doubts]
        raise NotInDoubt(execution_id=state.execution_id, step=address, in_doubt=ids)
    return fitting[0]


def decision_meant(state: ExecutionState, address: str) -> int:
    """Return the start of the decision that *address* names: its id, or an ending of it.

    Raises:
        DecisionNotFound: none fits, or several do; those that there are are listed.
    """
    made = {x.start.payload.id: x.start.sequence for x in state.settled if x.start.type == "DECISION_RECORDED"}
    fitting = [id for id in sorted(made) if address == id] or [id for id in sorted(made) if _ends_as(id, address)]
    if len(fitting) != 1:
        raise DecisionNotFound(
            execution_id=state.execution_id,
            decision=address,
            decisions=sorted(made),
            fitting=fitting,
            link=state.facts.link,
        )
    return made[fitting[0]]


def _ends_as(id: str, address: str) -> bool:
    return id.endswith((f"/{address}", f"#{address}"))


def _answered(state: ExecutionState, address: str | None) -> str | None:
    """Return the gate answered last that *address* fits, None when there is none."""
    for settled in state.settled:
        if settled.outcome.type == "GATE_ANSWERED":
            gate: str = settled.start.payload.id
            if address in (None, gate, settled.start.payload.key) or _ends_as(gate, str(address)):
                return gate
    return None


def _fitting(gates: list[OpenGate], address: str | None) -> list[OpenGate]:
    if address is None:
        return gates
    exact = [gate for gate in gates if gate.gate == address]
    if exact:
        return exact
    keyed = [gate for gate in gates if gate.key == address]
    return keyed or [gate for gate in gates if _ends_as(gate.gate, address)]
