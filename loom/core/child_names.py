"""By which names a log tells of the children of a run: that one was started, and how it ended. Pure."""

from __future__ import annotations

from typing import Final

SPAWN: Final = "spawn."
"""How the id of a step begins that starts a child."""
CANCEL: Final = "cancel.children"
"""The id of the step that has children cancelled when another of them has failed."""
CHILD_TOPIC: Final = "loom.child:"
"""The topic of the end of a child is this and its id: that of the first link of its chain."""
