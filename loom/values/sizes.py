"""How large a value may be that stands on a log: a log is read by the page and folded whole, so one value has a limit.

What is too large is told where it is handed over, before anything is recorded. Most values are known to be small from what they
are; only others are written for their size.
"""

from __future__ import annotations

from typing import Any, Final

from loom import values
from loom.core.json import Json

VALUE_BYTES_MAX: Final = 64 << 20
"""What a value may take on the log, as JSON: what a syscall is asked with, an input, a result."""

_SMALL: Final = frozenset({type(None), bool, int, float})
_PARTS: Final = 16
_SHARES: Final = 256
"""So many shares of the limit: a text of one share takes six at most, however it is escaped, and 16 parts with their names 192."""


class ValueTooLarge(values.NotSerializable):
    """A value that is larger than a log takes; nothing of it was recorded."""

    code = "value-too-large"
    advice = (
        "Hand on an envelope instead: a step with claim_check=loom.ClaimCheck() returns one, and step.content.get "
        "gives a step what it stands for."
    )

    def __init__(self, *, path: str, size: int) -> None:
        self.size = size
        reason = f"takes {size:,} bytes on the log, more than {VALUE_BYTES_MAX:,}. {self.advice}"
        super().__init__(path=path, kind="", reason=reason, hint=self.advice)


def bounded(
    encoded: Json, what: str, of: str = "", *, beside: int = 0, error: type[ValueTooLarge] = ValueTooLarge
) -> Any:
    """Return *encoded* as it is; *what* it is *of* a step, a gate and the like is how a refusal calls it.

    So many bytes *beside* it stand in the same event.

    Raises:
        ValueTooLarge: it is larger than a log takes.
    """
    if not (_is_small(encoded) and beside * 4 <= VALUE_BYTES_MAX):
        size = len(values.dumps(encoded)) + beside
        if size > VALUE_BYTES_MAX:
            raise error(path=f"{what} of {of}" if of else what, size=size)
    return encoded


def _is_small(encoded: Any) -> bool:
    """Whether *encoded* surely takes less than three quarters of the limit, from what can be seen at once."""
    kind = type(encoded)
    if kind is not dict:
        return kind in _SMALL or (kind is str and len(encoded) * _SHARES <= VALUE_BYTES_MAX)
    if len(encoded) > _PARTS:
        return False
    for name, part in encoded.items():
        kind = type(part)
        if len(name) * _SHARES > VALUE_BYTES_MAX:
            return False
        if kind not in _SMALL and (kind is not str or len(part) * _SHARES > VALUE_BYTES_MAX):
            return False
    return True
