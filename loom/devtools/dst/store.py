"""A store as one simulated process sees it: far away, at times slow, at times failing, and the place where processes die.

It wraps the store that all processes share. Each operation takes its time on the way; only then does it happen, at once, so
the order in which operations arrive is the order of everything. What goes wrong is said by the places of the schedule.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from loom.core.ids import ExecutionId
from loom.devtools.dst.machine import ProcessLoop, resolve
from loom.devtools.dst.schedule import Fault, Places
from loom.devtools.testing import ProcessDied
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, Conflict, EventRecord, Storage

R = TypeVar("R")

NEAR_S: Final = 0.003
"""So long an operation takes at most to arrive, unless the schedule makes it slow."""


class Operation(NamedTuple):
    """A method of a store that is called, and what with."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Witness(Protocol):
    """Who sees all that happens in the store."""

    def saw(self, process: str, operation: Operation, result: Any) -> None:
        """An operation of a process has happened in the store."""
        ...

    def tell(self, process: str, what: str) -> None:
        """Something else happened in a process."""
        ...


def _operation(place: str, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def operation(self: FaultyStorage, *args: Any, **kwargs: Any) -> Any:
        return await self._happen(place, Operation(name, args, kwargs))

    operation.__name__ = name
    return operation


class FaultyStorage:
    """*kept* as the process of *loop* sees it."""

    def __init__(self, kept: Storage, loop: ProcessLoop, places: Places, witness: Witness) -> None:
        self._kept, self._loop, self._places, self._witness = kept, loop, places, witness

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self._kept.url

    async def open(self) -> None:
        """Do nothing: it is open."""

    async def close(self) -> None:
        """Do nothing: others go on using it."""

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Follow one log; see `EventFeed.subscribe`."""
        return self._kept.subscribe(execution_id, start=start)

    append = _operation("append", "append")
    insert = _operation("insert", "insert")
    claim = _operation("lease", "claim")
    renew = _operation("lease", "renew")
    leave = _operation("lease", "leave")
    release = _operation("lease", "release")
    join_lines = _operation("line", "join_lines")
    admit = _operation("line", "admit")
    leave_lines = _operation("line", "leave_lines")
    sweep_lines = _operation("line", "sweep_lines")
    admissions = _operation("read", "admissions")
    read = _operation("read", "read")
    head = _operation("read", "head")
    ids = _operation("read", "ids")
    pending = _operation("read", "pending")
    have_news = _operation("read", "have_news")
    find = _operation("read", "find")
    row = _operation("read", "row")
    now_ms = _operation("read", "now_ms")
    drivers = _operation("read", "drivers")

    async def _happen(self, place: str, operation: Operation) -> Any:
        if self._loop.is_dead:  # it is being taken apart
            raise ProcessDied("the process is dead", store=self.url)
        fault = self._places.next(place)
        await self._travel(fault)
        if fault is None:
            return await self._done(operation)
        if not fault.strikes_after:
            self._witness.tell(self._loop.name, f"{fault} ({operation.name})")
        await self._before(fault)
        if fault.kind == "reject":
            return await self._rejected(operation.args[0])
        result = await self._done(operation)
        if fault.kind == "twice":
            await self._travel(None)
            await self._done(operation)
        if fault.strikes_after:
            self._witness.tell(self._loop.name, f"{fault} ({operation.name})")
        await self._after(fault)
        return result

    async def _travel(self, fault: Fault | None) -> None:
        """Take the time that an operation takes to arrive."""
        loop = self._loop
        seconds = loop.machine.random.random() * NEAR_S
        if fault is not None and fault.kind == "slow":
            seconds += fault.seconds
        arrived = loop.create_future()
        loop.call_at(loop.machine.now_s + seconds, resolve, arrived)
        await arrived

    async def _done(self, operation: Operation) -> Any:
        result = await getattr(self._kept, operation.name)(*operation.args, **operation.kwargs)
        self._witness.saw(self._loop.name, operation, result)
        return result

    async def _before(self, fault: Fault) -> None:
        if fault.kind == "crash-before":
            await self._loop.die()
        if fault.kind == "pause-before":
            await self._loop.freeze(fault.seconds)
        if fault.kind == "fail-before":
            raise StoreUnavailable("the store was not reached, as the schedule has it", store=self.url)

    async def _after(self, fault: Fault) -> None:
        if fault.kind == "crash-after":
            await self._loop.die()
        if fault.kind == "pause-after":
            await self._loop.freeze(fault.seconds)
        if fault.kind == "fail-after":
            raise StoreUnavailable("the answer of the store was lost, as the schedule has it", store=self.url)

    async def _rejected(self, batch: Sequence[Append]) -> list[Conflict]:
        """Refuse a batch as if others had written first, which nobody can have done to a log that is not there."""
        heads = [await self._kept.head(item.execution_id) for item in batch]
        if None in heads:
            raise StoreUnavailable("the store was not reached, as the schedule has it", store=self.url)
        return [Conflict(head.length, head.incarnation) for head in heads if head is not None]


def is_write(name: str) -> bool:
    """Whether the operation *name* may make something of use to others."""
    return name in _WRITES


_WRITES: Final[frozenset[str]] = frozenset(
    {"append", "insert", "leave", "release", "admit", "leave_lines", "sweep_lines"}
)
