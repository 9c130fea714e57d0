"""Who is acting: `--as`, else `LOOM_PRINCIPAL`, else the user of the system."""

from __future__ import annotations

import getpass
import os
from typing import Final

VARIABLE: Final = "LOOM_PRINCIPAL"
UNKNOWN: Final = "unknown"


def principal_of(given: str | None) -> str:
    """Return the principal that the log names; a system without users has one all the same."""
    named = given or os.environ.get(VARIABLE)
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no such user, or no users at all
        return UNKNOWN
