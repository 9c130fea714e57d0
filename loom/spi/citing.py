"""What is told of all that goes to a store of logs, before it does: so that what it names can be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from loom.core.ids import ExecutionId
from loom.spi.event_store import Append, Lane

PayloadsHolding: TypeAlias = Callable[[bytes], Awaitable[Sequence[bytes]]]


class Citing(Protocol):
    """Notes who cites which contents (loom/rings/citing.py).

    Raises (all):
        StoreError: that could not be noted, so what was to be written must not be.
    """

    async def before_append(self, batch: Sequence[Append]) -> None:
        """Return once all that *batch* names is noted as cited by the executions that it is for."""
        ...

    async def before_copy(self, execution_id: ExecutionId, holding: PayloadsHolding) -> None:
        """Return once all is noted as cited, by an execution, that those payloads name with a copy of which its log will begin.

        *holding* returns those of them that hold a text: a log is long, and most of it names nothing.
        """
        ...

    async def before_insert(self, lane: Lane, body: bytes) -> None:
        """Return once all that a request for *lane* names is noted as cited."""
        ...
