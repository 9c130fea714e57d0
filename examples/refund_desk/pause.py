"""A middleware that stands still at one step, so that the demo can pull the plug at that very point.

Middleware wraps every effect of an app: here it waits, elsewhere it measures, limits or logs.
"""

import asyncio
from typing import Any

import loom

LONG_S = 60.0


class PauseAt:
    """Stand still at *where*: "before pay", "after pay"; nowhere when it is empty."""

    def __init__(self, where: str) -> None:
        self.where = where

    async def __call__(self, effect: loom.EffectContext, arguments: dict[str, Any], call_next: Any) -> Any:
        if self.where == f"before {effect.tool_id}":
            await asyncio.sleep(LONG_S)
        result = await call_next(arguments)
        if self.where == f"after {effect.tool_id}":
            await asyncio.sleep(LONG_S)
        return result
