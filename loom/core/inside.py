"""Inside a flow or an effect: how running code knows (a context variable, not the stack), and how an effect ends a drive."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Literal

from loom.core.errors import LoomError

INSIDE: Final[ContextVar[Literal["nothing", "flow", "effect"]]] = ContextVar("loom_inside", default="nothing")


class EffectInterrupted(BaseException):
    """An effect could not be brought to its end for a reason that says nothing about it: *error* ends the drive.

    The run stays resumable, and the effect is then run again; one that is not idempotent is in doubt.
    """

    def __init__(self, error: LoomError) -> None:
        self.error = error
        super().__init__(error)
