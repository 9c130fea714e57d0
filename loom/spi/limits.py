"""How large one entry of a log may be: logs are read by the page, and every store takes so much at once."""

from __future__ import annotations

from typing import Final

from loom import values
from loom.values.sizes import ValueTooLarge

ENTRY_BYTES_MAX: Final = 65 << 20
"""What one event, or one request for a lane, may take as JSON. A value in it has its own limit, a little below (values/sizes.py)."""


class EntryTooLarge(values.NotSerializable):
    """What was to be written is larger than a log takes; nothing of it was."""

    code = "entry-too-large"

    def __init__(self, *, what: str, size: int) -> None:
        self.what, self.size = what, size
        reason = f"takes {size:,} bytes, more than the {ENTRY_BYTES_MAX:,} that one entry of a log may"
        super().__init__(path=what, kind="", reason=reason, hint=ValueTooLarge.advice)
