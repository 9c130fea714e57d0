"""One call of a run: found by what somebody typed, and as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from loom.lenses.execution import CallView, ExecutionView
from loom.lenses.shapes import execution_json
from loom.lenses.timeline import is_about
from loom_cli.errors import CommandRefused
from loom_cli.exits import ExitCode

_LISTED_MAX = 10


class CallNotFound(CommandRefused):
    """The run has no such call."""

    code = "call-not-found"
    exit_code = ExitCode.NOT_FOUND

    def __init__(self, *, execution_id: str, call: str, near: Sequence[str]) -> None:
        self.execution_id, self.call, self.near = execution_id, call, tuple(near)
        self.hint = f"Did you mean {', '.join(near)}?" if near else f"`loom show {execution_id} --all` lists its calls."
        super().__init__(f"{execution_id} has asked no {call!r}")


class AmbiguousCall(CommandRefused):
    """An ending of an identity that several calls share."""

    code = "call-ambiguous"

    def __init__(self, *, call: str, candidates: Sequence[str]) -> None:
        self.call, self.candidates = call, tuple(candidates)
        more = ", ..." if len(candidates) > _LISTED_MAX else ""
        self.hint = f"Name one of them: {', '.join(candidates[:_LISTED_MAX])}{more}."
        super().__init__(f"{call!r} fits {len(candidates)} calls")


def call_meant(view: ExecutionView, text: str) -> CallView:
    """Return the call of *view* that *text* is the identity of, or the one that it is about.

    Raises:
        CallNotFound, AmbiguousCall: there is none, or there are several.
    """
    exact = [call for call in view.calls if call.id == text]
    fitting = exact or [call for call in view.calls if is_about(call.id, text)]
    if not fitting:
        near = difflib.get_close_matches(text, [call.id for call in view.calls])
        raise CallNotFound(execution_id=view.id, call=text, near=near)
    if len(fitting) > 1:
        raise AmbiguousCall(call=text, candidates=[call.id for call in fitting])
    return fitting[0]


def call_json(view: ExecutionView, call: CallView) -> dict[str, Any]:
    """Return the entry of *call* in the JSON of its run, with its `call` kind."""
    listed = [{"call": call.kind, **each} for each in _entries(view) if each["start"] == call.start]
    return listed[0]


def _entries(view: ExecutionView) -> list[dict[str, Any]]:
    json = execution_json(view)
    kinds = ("steps", "answers", "receives", "messages", "timers", "decisions", "scopes", "streams", "events", "gates")
    return [entry for kind in kinds for entry in json[kind]]
