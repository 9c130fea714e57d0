"""What may be asked of a store by whoever only looks: nothing of it writes, so a handle of these types cannot (spec 5.8).

Every store is both. The types narrow what a lens can reach: a replay reads one log, an inspector reads all there is to know of
runs. Neither has an `append`, an `insert` or a `claim`, which the type checker holds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import EventRecord, ExecutionQuery, ExecutionRow, Head, Request


class LogReader(Protocol):
    """All that a replay may ask of a store: to read a log. It has no way to write."""

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]: ...


class RunReader(LogReader, Protocol):
    """All that an inspector may ask of a store; what each method does is said at `Storage`."""

    @property
    def url(self) -> str: ...

    async def head(self, execution_id: ExecutionId) -> Head | None: ...

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]: ...

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]: ...

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None: ...

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]: ...

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]: ...

    async def close(self) -> None: ...
