"""Forks as a command: the edit that was asked for, and what a fork came to, as JSON and in words. Pure but for a file read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.missing import MISSING
from loom.core.state import ExecutionState
from loom.driving.edits import Edit, What
from loom.driving.forking import Reuse
from loom_cli.errors import Usage
from loom_cli.payloads import payload_given
from loom_cli.wording import counted

_HOW: Final = "Write --at N, or --output CALL --value JSON, or --input CALL --value JSON."

_REUSE_WORDS: Final = {
    None: "",
    "only": "; what it asks alike is served from there, and all else stops it (with --live it is done, for real)",
    "live": "; what it asks alike is served from there, and all else is done",
}


def edit_given(
    at: int | None, output: str | None, input: str | None, value: str | None, *, folder: Path
) -> Edit | None:
    """Return the edit that the options ask for, None for a plain fork.

    Raises:
        Usage: they do not say where to fork, or say too much.
        NotJson: the value is none.
    """
    if output is not None and input is not None:
        raise Usage("--output and --input cannot both be given: a fork changes one thing", hint=_HOW)
    call = output if output is not None else input
    if call is None:
        if value is not None:
            raise Usage("--value says what, but not of which call", hint=_HOW)
        if at is None:
            raise Usage("where is it to fork?", hint=_HOW)
        return None
    given = payload_given(value, [], flag="--value", folder=folder)
    if given is MISSING:
        raise Usage(f"what is {call} to be given instead?", hint=_HOW)
    what: What = "output" if output is not None else "input"
    return Edit(call, what, given)


def reuse_given(*, reuse: bool, live: bool) -> Reuse | None:
    """Return how a fork is served from its source, None for not at all.

    Raises:
        Usage: `--live` says nothing by itself.
    """
    if live and not reuse:
        raise Usage("--live goes with --reuse: a fork does everything for real without it", hint="add --reuse")
    return "live" if live else "only" if reuse else None


def fork_json(state: ExecutionState) -> dict[str, Any]:
    """Return a fork in the shape of docs/reference/json.md."""
    fact = _forked(state).payload
    return {
        "id": state.execution_id,
        "status": state.status,
        "source": {"id": fact.source["execution_id"], "sequence": fact.source["sequence"]},
        "void": list(fact.void),
        "edited": _is_edited(state),
        "length": state.length,
        "reuse": fact.reuse,
        "reason": fact.reason,
    }


def fork_words(state: ExecutionState) -> str:
    """Return the first line: of what it is a fork, and what is asked anew."""
    fact = _forked(state).payload
    anew = f"; {counted(len(fact.void), 'call is', 'calls are')} asked anew" if fact.void else ""
    edited = ", with an edit" if _is_edited(state) else ""
    return f"is a fork of {fact.source['execution_id']} after event {fact.source['sequence']}{edited}{anew}{_REUSE_WORDS[fact.reuse]}"


def _forked(state: ExecutionState) -> EventEnvelope[Any]:
    assert state.facts.forked is not None
    return state.facts.forked


def _is_edited(state: ExecutionState) -> bool:
    event = _forked(state)
    return event.payload.given is not None or state.sequence > event.sequence
