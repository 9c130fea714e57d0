"""Where a store keeps what it keeps, told so that two handles of one place are known as that, however they were named."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Located(Protocol):
    """A store that says where it is."""

    async def place(self) -> str:
        """Return a text that is the same for every handle of the same database, and of no other."""
        ...
