"""What a syscall is called for people, and one side of a difference between what a log has and what code asks, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

KINDS: Final[Mapping[str, str]] = {
    "STEP_STARTED": "step",
    "GATE_OPENED": "gate",
    "MESSAGE_AWAITED": "receive",
    "TIMER_SET": "timer",
    "SCOPE_OPENED": "scope",
    "DECISION_RECORDED": "decision",
    "STREAM_SETTLED": "stream",
    "SCOPE_CLOSED": "the end of",
    "SCOPE_CUT": "the end of",
    "SCOPE_TIMED_OUT": "the end of",
}
"""What a syscall is called, by the event that asks it; all others are events of the author's own. The record of how a scope ended asks nothing."""

_SHOWN_MAX: Final = 200


def side_words(side: Mapping[str, Any] | None, *, text: Callable[[Any], str] | None = None) -> str:
    """Return one side of a difference in words: what was asked for, with what, and where; *text* writes a value."""
    if side is None:
        return "nothing"
    kind, args = str(side.get("kind")), side.get("args")
    if isinstance(args, dict) and kind != "STEP_STARTED":  # options of Loom's: those not given are null
        args = {name: value for name, value in args.items() if value is not None} or None
    called = KINDS.get(kind, "event" if kind.isupper() else kind)
    arguments = f" with {(text or _json)(args)}" if args is not None else ""
    where = f" ({side['where']})" if side.get("where") else ""
    return f"{called} {side.get('id') or ''}".rstrip() + arguments + where


def _json(value: Any) -> str:
    told = json.dumps(value, ensure_ascii=False, default=str)
    return told if len(told) <= _SHOWN_MAX else f"{told[: _SHOWN_MAX - 1]}\u2026"
