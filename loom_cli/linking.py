"""Answer links of the command: for which gate, signed with which secret."""

from __future__ import annotations

import os
from typing import Final

from loom.core.ids import Incarnation
from loom.core.state import ExecutionState
from loom.driving.addressing import gate_meant
from loom.services.answer_links import AnswerLink
from loom_cli.errors import Usage

VARIABLE: Final = "LOOM_LINK_SECRET"

PORT: Final = 8765
"""Where a link leads on this machine, unless it is said where."""


def link_for(
    state: ExecutionState, incarnation: Incarnation, gate: str | None, *, principal: str, expires_at: int
) -> AnswerLink:
    """Return a link for the gate that *gate* names in the run of *state*, the only one when it names none.

    Raises:
        GateNotOpen, AmbiguousGate: it names no gate that is open, or several.
    """
    meant = gate_meant(state, gate)
    return AnswerLink(
        execution_id=state.execution_id,
        incarnation=incarnation,
        gate=meant.gate,
        start=meant.start,
        shown=meant.shown,
        principal=principal,
        expires_at=expires_at,
    )


def secret_given() -> str:
    """Return the secret of answer links, which `LOOM_LINK_SECRET` holds: in no file of the project, and on no command line.

    Raises:
        Usage: it holds none.
    """
    secret = os.environ.get(VARIABLE, "")
    if not secret:
        make = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        what = f"{VARIABLE} holds no secret to sign links with; what serves the page has to have the same"
        raise Usage(what, hint=f"export {VARIABLE}=$({make})")
    return secret
