"""The command that answers what waits, ready to be copied."""

from __future__ import annotations

import shlex

from loom.core.views import OpenGate
from loom_cli.schemas import example


def answer_command(execution_id: str, gate: OpenGate, *, open_gates: int = 1) -> str:
    """Return the command that answers *gate*, which is one of *open_gates* of its execution."""
    run = shlex.quote(execution_id)
    if gate.in_doubt:
        return f"loom resolve {run} {shlex.quote(gate.gate)} --as done|failed|retry"
    named = f" --gate {shlex.quote(gate.gate)}" if open_gates > 1 else ""
    return f"loom resume {run}{named} {example(gate.schema)}"
