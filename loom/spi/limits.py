"""How large one entry of a log may be: logs are read by the page, and every store takes so much at once."""

from __future__ import annotations

from typing import Final

from loom.core.errors import LoomError

ENTRY_BYTES_MAX: Final = 65 << 20
"""What one event, or one request for a lane, may take as JSON. A result has its own limit, a little below (values/results.py)."""


class EntryTooLarge(LoomError):
    """What was to be written is larger than a log takes; nothing of it was."""

    code = "entry-too-large"
    hint = (
        "Hand on an envelope instead: a step with claim_check=loom.ClaimCheck() returns one, and step.content.get "
        "gives a step what it stands for."
    )

    def __init__(self, *, what: str, size: int) -> None:
        self.what, self.size = what, size
        super().__init__(f"{what} takes {size:,} bytes, more than the {ENTRY_BYTES_MAX:,} that one entry of a log may")
