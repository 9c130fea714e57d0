"""A world for testing what lives for weeks: its clock stands still while anything can go on, and then jumps to what is due next.

The app is the one that is deployed, driven by the worker that drives it there: claims, timers, schedules, recovery. What
it stands on is another: a store in memory, a clock that is moved, entropy from a seed, plain functions one at a time. Nothing
of it asks how long anything took, so the same seed gives the same logs, byte for byte.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import wraps
from itertools import count
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from loom.app.config import LoomApp
from loom.app.work import worker_of
from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.ids import ExecutionId
from loom.devtools.strict import OTHER_HASHES, Strict
from loom.driving.runtime import RuntimeOptions, WorkflowRuntime
from loom.rings.citing import ContentCiting
from loom.rings.claim_check import ClaimChecking
from loom.services.worker import Report
from loom.spi.clock import SeededEntropy, VirtualClock
from loom.spi.content_memory import MemoryContent
from loom.spi.errors import StoreError
from loom.spi.event_store import Claim
from loom.spi.memory import MemoryStorage
from loom.spi.threads import DaemonThreads, settle

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_S: Final = 30.0
"""So many seconds of the machine's clock one instant of a virtual world may take."""

_PROCESS: Final = "virtual-world/"

Act = Callable[[], object]


class WorldStands(LoomError):
    """A virtual world cannot let go of an instant: something in it waits for what is not virtual, or begins without end."""

    code = "world-stands"
    hint = "A step that waits for the machine's clock or for a network takes that long here, too: give it a fake."

    def __init__(self, *, now: str, driven: Sequence[str], patience_s: float) -> None:
        self.now, self.driven, self.patience_s = now, tuple(driven), patience_s
        what = f"still driven: {', '.join(driven)}" if driven else "each time something new is due at once"
        super().__init__(f"it has been {now} for {patience_s:g} s; {what}")


class ProcessDied(StoreError):
    """The process of a virtual world has died, as it was told to: nothing that it does counts any more."""

    code = "process-died"
    hint = "Another has taken its place: take `world.runtime` when you act, and not before."


def strict(app: LoomApp, *, elsewhere: bool = False) -> LoomApp:
    """Return *app* with its flows watched: one that does itself what only a step may stops the test (docs/guide/strict.md).

    Each body is run again when it parks or ends; with *elsewhere* in other processes as well, where sets have another order.

        async with strict(define_config(flows=[refund])) as app: ...
    """
    return app.guarded(Strict(elsewhere=OTHER_HASHES if elsewhere else ()))


def contents() -> ClaimChecking:
    """Return contents in memory, for a step that is called as a plain function.

    held = contents()
    page = await held.claimed(loom.ClaimCheck(), "a page")
    assert await longest(loom.StepContext.detached(content=held), page) == 6
    """
    return ClaimChecking(MemoryContent())


@asynccontextmanager
async def virtual_world(
    app: LoomApp, *, start: datetime, seed: int = 0, dies_after: int | None = None, patience_s: float = PATIENCE_S
) -> AsyncIterator[VirtualWorld]:
    """Have what *app* is made of live in a world whose time is virtual, beginning at *start*, an aware datetime.

        async with virtual_world(app, start=datetime(2026, 11, 30, tzinfo=UTC)) as world:
            await world.runtime.start("trial", "Ada", id="trial-1")
            world.at(timedelta(days=3), answer)
            await world.run_for(timedelta(days=30))

    Flows, steps, schedules, middleware and resources are those of the app. Its own storage is not opened. With
    *dies_after* the process dies right after so many writes, and another takes over.

    Raises:
        InvalidDeclaration: *start* is in no zone.
    """
    if start.tzinfo is None:
        raise InvalidDeclaration(f"start={start.isoformat()}", hint="Give the time with its zone: tzinfo=UTC.")
    clock = VirtualClock(_milliseconds(start))
    world = VirtualWorld(app, clock, seed=seed, dies_after=dies_after, patience_s=patience_s)
    try:
        yield world
    finally:
        await world.close()


class VirtualWorld:
    """What `virtual_world` makes: a process that drives runs, the store it does it on, and whoever acts from outside."""

    def __init__(
        self, app: LoomApp, clock: VirtualClock, *, seed: int, dies_after: int | None, patience_s: float
    ) -> None:
        self.storage = MortalStorage(clock, dies_after=dies_after)
        self._app, self._clock, self._seed, self._patience_s = app, clock, seed, patience_s
        self._acts: list[tuple[int, int, Act]] = []
        self._numbers, self._processes = count(), count()
        self._begin()

    def _begin(self) -> None:
        number, around = next(self._processes), self._app.runtime.surroundings
        virtual: RuntimeOptions = {
            "clock": self._clock,
            "entropy": SeededEntropy(self._seed + (number << 64)),
            "host": VirtualHost(self._clock, number),
            "effects": self._app.runtime.effects.on(OneAtATime(), ClaimChecking(self.storage.content_store())),
            "citing": ContentCiting(self.storage.content_store()),
            "grace_s": 0.0,
            "idle_s": 0.0,
            "linger_max_ms": 0,
        }
        kept: Any = {each.name: getattr(around, each.name) for each in fields(around) if each.name != "storage"}
        flows, tools = self._app.runtime.flows, self._app.runtime.tools
        self.runtime = WorkflowRuntime(self.storage, flows=flows, tools=tools, **(kept | virtual))
        self._took, self._fault = 0, cast("LoomError | None", None)
        self._worker = worker_of(self.runtime, self._app.registry, until_idle=True, told=self._hear)

    def _hear(self, report: Report) -> None:
        self._took += report.did == "took"
        if self.storage.is_dead:
            self._worker.stop()
        elif report.did in {"refused", "failing"}:
            self._fault = self._fault or report.error

    @property
    def now(self) -> datetime:
        """The time of the world, in UTC."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    @property
    def writes(self) -> int:
        """How often the store was written to."""
        return self.storage.writes

    def at(self, when: datetime | timedelta, act: Act) -> None:
        """Have somebody outside *act* at *when*, a time or so long from now: a plain or an async function of nothing.

        All that goes on at that time without them has gone on by then; of those who act at the same time, one does so after
        the other. What *act* raises is raised by `run_for`. Whoever is in the middle when the process dies acts again once
        there is another, as people do, and may find done what they do.
        """
        moment = when if isinstance(when, datetime) else self.now + when
        heapq.heappush(self._acts, (_milliseconds(moment), next(self._numbers), act))

    async def run_for(self, duration: timedelta) -> None:
        """Let *duration* go by, and do all that is due in it, up to and including its last instant.

        Raises:
            WorldStands: an instant does not end.
            LoomError: a run cannot be driven by this code, or a schedule cannot start what it is to start.
        """
        until = _milliseconds(self.now + duration)
        await self._go_on()
        while (at := self._next_at()) is not None and at <= until:
            self._clock.advance(at - self._clock.now_ms())
            await self._go_on()
        self._clock.advance(until - self._clock.now_ms())

    async def close(self) -> None:
        """Stop what is driven, and close what the app has opened."""
        await self.runtime.close()
        await self._app.resources.close()

    def _next_at(self) -> int | None:
        """Return when something is due next (ms). What was due and did not go on waits for something else than time."""
        now = self._clock.now_ms()
        due = [self._acts[0][0] if self._acts else None, self._worker.next_tick_at, self._clock.next_due_ms]
        due.append(self.storage.next_due_ms(after=now))
        return min((at for at in due if at is not None and at > now), default=None)

    async def _go_on(self) -> None:
        """Do all that can be done at this instant."""
        stood: list[str] = []
        watch = asyncio.get_running_loop().call_later(
            self._patience_s, lambda: stood.extend(self.runtime.claims.driven)
        )  # before the timeout, which ends the drives
        patience = asyncio.timeout(self._patience_s)
        try:
            async with patience:
                while await self._has_moved():
                    pass
        except TimeoutError:
            if not patience.expired():
                raise
            raise WorldStands(now=self.now.isoformat(), driven=stood, patience_s=self._patience_s) from None
        finally:
            watch.cancel()

    async def _has_moved(self) -> bool:
        took = self._took
        with suppress(ProcessDied):
            await self._worker.run()
            await self.runtime.claims.settled()
        if self.storage.is_dead:
            await self._be_replaced()
            return True
        if self._fault is not None:
            raise self._fault
        due = self.storage.next_due_ms(after=0) if self._took > took else None
        return (due is not None and due <= self._clock.now_ms()) or await self._act()

    async def _act(self) -> bool:
        if not self._acts or self._acts[0][0] > self._clock.now_ms():
            return False
        due = heapq.heappop(self._acts)
        try:
            acting = due[2]()
            if inspect.isawaitable(acting):
                await acting
        except ProcessDied:
            if not self.storage.is_dead:
                raise  # that was another process
            heapq.heappush(self._acts, due)
        return True

    async def _be_replaced(self) -> None:
        """The process is dead: nothing of it does anything any more, and another begins."""
        await self.runtime.close()
        self.storage = self.storage.reopened()
        self._begin()


def _write(
    method: Callable[Concatenate[Any, P], Awaitable[R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return *method* of a storage as a write of a process that may die of it."""

    @wraps(method)
    async def written(storage: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        storage.refuse_the_dead()
        result = await method(storage, *args, **kwargs)
        storage.writes += 1
        storage.is_dead = storage.writes == storage.dies_after
        storage.refuse_the_dead()
        return result

    return written


class MortalStorage(MemoryStorage):
    """A store in memory whose process dies when it has written *dies_after* times: that write is done, and not confirmed."""

    def __init__(self, clock: VirtualClock, *, dies_after: int | None) -> None:
        super().__init__(clock=clock)
        self.dies_after = dies_after
        self.writes, self.is_dead = 0, False

    def reopened(self) -> MortalStorage:
        """Return the store for another process: with all that is in it, and alive."""
        reopened = copy(self)
        reopened.is_dead = False
        return reopened

    def refuse_the_dead(self) -> None:
        """Do nothing while the process lives.

        Raises:
            ProcessDied: it does not.
        """
        if self.is_dead:
            raise ProcessDied("the process is dead", store=self.url)

    append = _write(MemoryStorage.append)
    insert = _write(MemoryStorage.insert)
    record_ticks = _write(MemoryStorage.record_ticks)
    join_lines = _write(MemoryStorage.join_lines)
    admit = _write(MemoryStorage.admit)
    leave_lines = _write(MemoryStorage.leave_lines)

    async def claim(self, driver: str, **options: Any) -> Sequence[Claim]:
        """As `MemoryStorage`; no write that is worth dying of."""
        self.refuse_the_dead()
        return await super().claim(driver, **options)

    async def leave(self, driver: str, seen: Mapping[ExecutionId, int]) -> None:
        """As `MemoryStorage`."""
        self.refuse_the_dead()
        await super().leave(driver, seen)

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        """As `MemoryStorage`."""
        self.refuse_the_dead()
        await super().release(driver, executions)


class VirtualHost:
    """The machine of a virtual world. Of its processes one lives at a time, that with the greatest *number*."""

    def __init__(self, clock: VirtualClock, number: int) -> None:
        self._clock, self._number = clock, number

    def name(self) -> str:
        """Return the name of the process."""
        return f"{_PROCESS}{self._number}"

    def is_gone(self, name: str) -> bool:
        """Whether *name* is that of an earlier process."""
        return name.startswith(_PROCESS) and int(name.removeprefix(_PROCESS)) < self._number

    def boottime_s(self) -> float:
        """Return the time of the world, in seconds."""
        return self._clock.now_ms() / 1000


class OneAtATime(DaemonThreads):
    """Runs plain functions at once and in no thread, while the loop waits: they end in the order in which they began."""

    def submit(self, fn: Callable[[], Any], context: contextvars.Context) -> asyncio.Future[Any]:
        """Run *fn* in *context*; the future is done on return."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            result, error = context.run(fn), None
        except Exception as raised:  # noqa: BLE001  # whatever the step raised belongs to who waits for it
            result, error = None, raised
        settle(future, result, error)
        return future


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)
