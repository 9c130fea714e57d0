"""What a driver is told whose append the store refused: somebody else has written to the log, or holds the run."""

from __future__ import annotations

from loom.core.errors import LoomError


class SequenceConflict(LoomError):
    """Somebody else was first to write to this log, or holds it; nothing of the write was written."""

    code = "sequence-conflict"
    hint = "Another process drives this execution. Look with `loom show`, and resume only when it has stopped."

    def __init__(self, *, execution_id: str, expected: int, actual: int) -> None:
        self.execution_id, self.expected, self.actual = execution_id, expected, actual
        super().__init__(f"the next event of {execution_id} is {actual}, not {expected}: somebody else appended")


class Fenced(SequenceConflict):
    """Another driver took over a run that this one was driving; nothing of its last write was written (kernel rule 7.2)."""

    code = "fenced"
    hint = "This process was stopped, or its machine asleep, for longer than its lease. Nothing is lost; the other goes on."

    def __init__(self, *, execution_id: str, expected: int, actual: int) -> None:
        super().__init__(execution_id=execution_id, expected=expected, actual=actual)
        self.args = (f"another driver took {execution_id} over; this one has written nothing from event {expected} on",)
