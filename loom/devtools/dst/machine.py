"""A simulated machine: processes with an event loop each, one time for all of them, and nothing that is left to chance.

It is a simulation of discrete events. What happens at a time of its own (a timer, the answer of a store) stands in one heap
for all processes. What is ready runs in the order in which it became so, as asyncio promises, until the process waits:
processes share nothing but the store, so who comes first matters there alone. Two events of the same time come in an order
that the seed decides. A process can be killed, and is then never run again, not even to clean up; or frozen for a time.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar, TypeVarTuple, Unpack

from loom.core.errors import LoomError

L = TypeVar("L", bound=asyncio.AbstractEventLoop)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_MS: Final = 1_764_000_000_000
"""What the clocks show when a simulation begins, ms since the epoch."""
TURNS: Final = 256
"""So much a process does before others have their turn, though it does not wait: then a millisecond has passed."""
BUSY_S: Final = 0.001
SPIN: Final = 32
"""As so many events that counts, where it is counted how much goes on."""

Ended: TypeAlias = Literal["over", "quiet", "late", "endless"]
"""How a simulation ended: as it should; because nothing would happen any more; at its last hour; or with too much going on."""


class NotSimulated(LoomError):
    """Code in a simulation asked for something of the real world: a socket, a process, a signal."""

    code = "not-virtual"
    hint = "Give the simulation a stand-in: World(steps={...}) for a step, World(resources={...}) for what steps use."


class Machine:
    """Where simulated processes live. *seed* decides all that is left open."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s, self.events = 0.0, 0
        self.on_death: Callable[[ProcessLoop], None] = lambda loop: None
        self._heap: list[tuple[float, float, ProcessLoop, asyncio.Handle]] = []
        self._ready: deque[ProcessLoop] = deque()

    def now_ms(self) -> int:
        """Return the time, ms since the epoch."""
        return START_MS + int(self.now_s * 1000 + 1e-6)

    def push(self, when_s: float, loop: ProcessLoop, handle: asyncio.Handle) -> None:
        """Have *handle* run in *loop* at *when_s*."""
        heapq.heappush(self._heap, (when_s, self.random.random(), loop, handle))

    def ready(self, loop: ProcessLoop) -> None:
        """*loop* has something to do."""
        if not loop.is_listed:
            loop.is_listed = True
            self._ready.append(loop)

    def run(self, is_over: Callable[[], bool], *, until_s: float, events_max: int) -> Ended:
        """Let things happen until *is_over*, up to the time *until_s* (seconds from the beginning) and *events_max* events."""
        before = _get_running_loop()  # a simulation may be run from within a loop
        try:
            while not is_over():
                if self.events > events_max:
                    return "endless"
                if self._ready:
                    self._turn()
                elif not self._heap:
                    return "quiet"
                elif self._heap[0][0] > until_s:
                    return "late"
                else:
                    self._next()
            return "over"
        finally:
            _set_running_loop(before)

    def _turn(self) -> None:
        loop = self._ready.popleft()
        loop.is_listed = False
        if loop.turn():
            self.ready(loop)
            self.events += SPIN
            self.now_s += BUSY_S
            while self._heap and self._heap[0][0] <= self.now_s:
                self._next()

    def _next(self) -> None:
        when_s, _, loop, handle = heapq.heappop(self._heap)
        if loop.is_dead or handle.cancelled():
            return
        if loop.frozen_until_s > when_s:
            self.push(loop.frozen_until_s, loop, handle)
            return
        self.events += 1
        self.now_s = max(self.now_s, when_s)
        loop.put(handle)


def _unworldly(loop: type[L]) -> type[L]:
    """Have *loop* refuse in words what it does not do itself, where asyncio's own class has no words for it."""

    def refuse(name: str) -> Callable[..., NoReturn]:
        def refused(self: asyncio.AbstractEventLoop, *_: Any, **__: Any) -> NoReturn:
            raise NotSimulated(f"a simulation has no {name}: no network, no signals, no processes of the system")

        return refused

    for name, method in vars(asyncio.AbstractEventLoop).items():
        if not name.startswith("__") and callable(method) and name not in vars(loop):
            setattr(loop, name, refuse(name))
    return loop


@_unworldly
class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop of one simulated process, whose time is that of its machine. It has no network, no signals, no threads."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name = machine, name
        self.is_dead = self.is_listed = False
        self.frozen_until_s = 0.0
        self.errors: list[str] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_running = self._is_closed = False

    # -- what a machine does with it ---------------------------------------------------------------------------------

    def put(self, handle: asyncio.Handle) -> None:
        """*handle* is to be run next."""
        self._ready.append(handle)
        self.machine.ready(self)

    def turn(self) -> bool:
        """Run what is ready, and what becomes so meanwhile; return whether there is more."""
        _set_running_loop(self)
        self._is_running, ready = True, self._ready
        for _ in range(TURNS):
            if not ready or self.frozen_until_s > self.machine.now_s:
                break
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001  # what a loop is there for; asyncio has no public name for it
        self._is_running = False
        _set_running_loop(None)
        return bool(ready) and self.frozen_until_s <= self.machine.now_s

    def kill(self) -> None:
        """Run nothing of this process any more."""
        self.is_dead = True
        self._ready.clear()
        self.machine.on_death(self)

    async def die(self) -> NoReturn:
        """Kill the process in which this is awaited: it is never over."""
        self.kill()
        await self.create_future()
        raise AssertionError("unreachable")

    async def freeze(self, seconds: float) -> None:
        """Stop the process for so long, as when its machine sleeps; what was due meanwhile is late."""
        self.frozen_until_s = self.machine.now_s + seconds
        future = self.create_future()
        self.call_at(self.frozen_until_s, resolve, future)
        await future

    def close(self) -> None:
        """Take the process apart, and let nothing of that be seen."""
        self.is_dead = self._is_closed = True
        self._ready.clear()
        _set_running_loop(self)
        try:
            for task in self._tasks:
                coroutine = task.get_coro()
                if not task.done() and coroutine is not None:
                    with suppress(BaseException):
                        coroutine.close()
        finally:
            _set_running_loop(None)
        self._tasks.clear()

    # -- what asyncio asks of a loop ---------------------------------------------------------------------------------

    def time(self) -> float:
        """Return seconds since the machine began."""
        return self.machine.now_s

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_dead:
            self._ready.append(handle)
            self.machine.ready(self)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.machine.now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            self.machine.push(max(when, self.machine.now_s), self, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run *func* at once and here: there are no threads."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # it belongs to who waits for it
            future.set_exception(error)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def get_task_factory(self) -> None:
        return None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody caught."""
        if not self.is_dead and "exception" in context and "handle" in context:
            self.errors.append(f"{context['message']}: {context['exception']!r}")

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators are closed with the tasks that hold them."""


def process_loop(machine: Machine, name: str) -> ProcessLoop:
    """Return the loop of a new process."""
    return ProcessLoop(machine, name)  # type: ignore[abstract]  # what it leaves out, _unworldly has


class MachineClock:
    """The clock of a simulated process, so many ms ahead of the store's."""

    def __init__(self, machine: Machine, *, ahead_ms: int = 0) -> None:
        self._machine, self._ahead_ms = machine, ahead_ms

    def now_ms(self) -> int:
        """Return the time, ms since the epoch."""
        return self._machine.now_ms() + self._ahead_ms

    async def sleep_until(self, at_ms: int) -> None:
        """Return once `now_ms()` has reached *at_ms*."""
        while (left_ms := at_ms - self.now_ms()) > 0:
            await asyncio.sleep(left_ms / 1000)


class MachineHost:
    """The host of a simulated process. Whether a process is gone is known only where *knows* says so."""

    def __init__(self, loop: ProcessLoop, loops: dict[str, ProcessLoop], *, knows: bool) -> None:
        self._loop, self._loops, self._knows = loop, loops, knows
        self._named = 0

    def name(self) -> str:
        """Return a new name."""
        self._named += 1
        return f"{self._loop.name}/{self._named}"

    def is_gone(self, name: str) -> bool:
        """Whether *name* is that of a process which was killed, where that can be known."""
        loop = self._loops.get(name.partition("/")[0])
        return self._knows and loop is not None and loop.is_dead

    def boottime_s(self) -> float:
        """Return the time of the machine, in seconds."""
        return self._loop.machine.now_s


def resolve(future: asyncio.Future[None] | None) -> None:
    """Let *future* be done, if there is one and it is not."""
    if future is not None and not future.done():
        future.set_result(None)


def at_once(work: Coroutine[Any, Any, Any] | Awaitable[Any]) -> Any:
    """Return what *work* returns, which waits for nothing: a method of a store in memory."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    raise NotSimulated("a store that waits for something real cannot be simulated")
