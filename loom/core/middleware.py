"""What wraps an effect: `async (ctx, input, next) -> result`, as authors and rings write it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from loom.core.step import StepContext


class EffectContext(NamedTuple):
    """What a middleware may know of the effect: its tool id, and the context that the step itself gets."""

    tool_id: str
    step: StepContext
    idempotent: bool


Next: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
Middleware: TypeAlias = Callable[[EffectContext, dict[str, Any], Next], Awaitable[Any]]
