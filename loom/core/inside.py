"""Whether the running code is the body of a flow, or an effect of one: told by a context variable, not by the stack."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Literal

INSIDE: Final[ContextVar[Literal["nothing", "flow", "effect"]]] = ContextVar("loom_inside", default="nothing")
