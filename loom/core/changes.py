"""What becomes of a run whose code has changed since it was last driven."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

from loom.core.errors import InvalidDeclaration

OnChange: TypeAlias = Literal["check", "refuse", "allow"]
"""What to do about a run whose code is not that of its log.

- `check`: it goes on where the code asks all that is recorded, and the change is recorded. An argument that differs is noted,
  and refused for a step that is not idempotent and for the question of a gate.
- `refuse`: it is not driven until somebody migrates it.
- `allow`: as `check`, and arguments that differ are noted where the code has not changed, too.

What is asked at a place, and under which identity, decides under each of them.
"""
_KNOWN: Final = get_args(OnChange)


def on_change(value: Any, whose: str) -> OnChange:
    """Return *value* as a setting.

    Raises:
        InvalidDeclaration: it is none.
    """
    if value not in _KNOWN:
        raise InvalidDeclaration(f"{whose}: on_change={value!r} is none of {', '.join(_KNOWN)}")
    found: OnChange = value
    return found
