"""Small flows as values, and the one flow that carries them out.

A program is JSON: a list of operations, each a list of its name and its operands; blocks nest. The flow notes in the
trace of its drive whatever it sees, with the place in the program where it saw it. Effects are slow by a seeded number of
turns of the loop, so that they end in an order of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple

import loom
from loom.core.failures import cancelled_in_hand
from loom.driving.replaying import Manner, Replayer
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.calls import DriveEnding
from loom.spi.memory import MemoryStorage

Block = list[Any]

TURNS_MAX: Final = 12
SLEEP_MS: Final = 40
PUT_AWAY: Final = (DriveEnding, asyncio.CancelledError)
"""What a flow meets where it is put away, in a syscall or while it waits for something else: nothing it sees then counts."""


class Sight(NamedTuple):
    """What the flow saw at one place of the program."""

    place: str
    what: str
    value: str


@dataclass
class World:
    """What is outside the log: the effects that happened, and what the body saw in this drive.

    *seed* decides how long each effect takes. Where effects are *forbidden*, one that is called is an error of the test;
    in a *healed* world no step fails; in one that *is_unpatched* the code is as it was before any patch.
    """

    seed: int
    forbidden: bool = False
    healed: bool = False
    is_cancelled: bool = False
    is_unpatched: bool = False
    effects: list[str] = field(default_factory=list)
    trace: list[Sight] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def saw(self, place: str, what: str, value: object) -> None:
        self.trace.append(Sight(place, what, repr(value)))

    async def happen(self, step_id: str, attempt: int = 1) -> None:
        """Be an effect: take some turns of the loop, and be counted."""
        self.effects.append(step_id)
        assert not self.is_cancelled or FREE.get() or step_id.startswith("piece"), (
            f"{step_id} began after the cancellation"
        )
        if self.forbidden:
            raise AssertionError(f"{step_id} was called though all of it is recorded")
        for _ in range(random.Random(f"{self.seed} {step_id} {attempt}").randrange(TURNS_MAX)):
            await asyncio.sleep(0)


WORLD: Final[contextvars.ContextVar[World]] = contextvars.ContextVar("WORLD")
FREE: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("FREE", default=False)
"""Whether what is done here may begin though the run is cancelled: it is shielded, or cleans up."""


@contextlib.contextmanager
def free(is_free: bool) -> Iterator[None]:
    token = FREE.set(FREE.get() or is_free)
    try:
        yield
    finally:
        FREE.reset(token)


class Refused(Exception):
    """An error of the author's own, declared by the step that raises it."""

    def __init__(self, who: str, *, code: int) -> None:
        super().__init__(f"{who} refused")
        self.who, self.code = who, code


@loom.step
async def echo(step: loom.StepContext, value: Any) -> dict[str, Any]:
    await WORLD.get().happen(step.step_id)
    return {"value": value, "by": step.step_id, "list": [1]}


@loom.step(retry=loom.Retry(attempts=3, delay=timedelta(milliseconds=SLEEP_MS)))
async def flaky(step: loom.StepContext, until: int) -> int:
    await WORLD.get().happen(step.step_id, step.attempt)
    if step.attempt < until and not WORLD.get().healed:
        raise ConnectionError(f"attempt {step.attempt}")
    return step.attempt


@loom.step(idempotent=False)
async def once(step: loom.StepContext) -> str:
    await WORLD.get().happen(step.step_id)
    return f"did {step.step_id}"


@loom.step(failures={"declined": dict[str, int], "refused": Refused})
async def fail(step: loom.StepContext, how: str) -> None:
    await WORLD.get().happen(step.step_id)
    if WORLD.get().healed:
        return
    if how == "declined":
        raise loom.fail("declined", {"code": 7})
    if how == "refused":
        raise Refused("the desk", code=9)
    try:
        raise KeyError("inner")
    except KeyError as inner:
        raise ValueError("outer") from inner


def seen(error: Exception) -> tuple[Any, ...]:
    """Return all that a flow can see of a failure."""
    fields = sorted((name, repr(value)) for name, value in vars(error).items() if not name.startswith("__"))
    return type(error).__qualname__, str(error), fields, getattr(error, "__notes__", [])


# -- operations ------------------------------------------------------------------------------------------------------


async def _run(ctx: loom.Context, at: str, value: int) -> None:
    result = await ctx.run(echo, value)
    WORLD.get().saw(at, "step", result)
    result["list"].append(2)  # what a flow does to a value is seen by no replay (field fault 27)


async def _peek(ctx: loom.Context, at: str) -> None:
    """Hand a step what all branches together have seen so far: their order must be the same each time."""
    result = await ctx.run(echo, len(WORLD.get().trace))
    WORLD.get().saw(at, "peek", result)


async def _flaky(ctx: loom.Context, at: str, until: int) -> None:
    attempt = await ctx.run(flaky, until)
    WORLD.get().saw(at, "flaky", attempt)


async def _once(ctx: loom.Context, at: str) -> None:
    did = await ctx.run(once)
    WORLD.get().saw(at, "once", did)


async def _named(ctx: loom.Context, at: str, value: int) -> None:
    same = echo.named(f"same-{value}")
    first, second = await ctx.run(same, value), await ctx.run(same, value)
    WORLD.get().saw(at, "named", (first, second))


async def _keyed(ctx: loom.Context, at: str, value: int) -> None:
    WORLD.get().saw(at, "keyed", await ctx.run(echo.keyed(f"{at}/{value}"), value))


async def _inline(ctx: loom.Context, at: str, value: int) -> None:
    async def double(value: int) -> int:
        await WORLD.get().happen(f"double {at}")
        return value * 2

    WORLD.get().saw(at, "inline", await ctx.run("double", double, value))


async def _stream(ctx: loom.Context, at: str, count: int) -> None:
    async def pieces() -> AsyncIterator[int]:
        for piece in range(count):
            await WORLD.get().happen(f"piece {at}:{piece}")
            yield piece

    WORLD.get().saw(at, "streamed", await ctx.stream("pieces", pieces()))


async def _fail(ctx: loom.Context, at: str, how: str) -> None:
    await ctx.run(fail, how)
    WORLD.get().saw(at, "did not fail", how)


async def _raise(ctx: loom.Context, at: str) -> None:
    raise ArithmeticError(f"of the flow's own at {at}")


async def _catch(ctx: loom.Context, at: str, block: Block) -> None:
    try:
        await carry_out(ctx, at, block)
    except Exception as error:  # noqa: BLE001  # what it catches is what is looked at
        WORLD.get().saw(at, "caught", seen(error))
        with free(cancelled_in_hand()):
            await ctx.run(echo, str(error))


async def _finally(ctx: loom.Context, at: str, block: Block) -> None:
    try:
        await carry_out(ctx, at, block)
    except PUT_AWAY:
        raise
    except BaseException as error:
        WORLD.get().saw(at, "left by", type(error).__name__)
        raise


async def _clean_up(ctx: loom.Context, at: str, block: Block, after: Block) -> None:
    try:
        await carry_out(ctx, f"{at}:try", block)
    except loom.Cancelled as signal:
        WORLD.get().saw(at, "cancelled", (signal.cause, signal.reason))
        with free(True):
            await carry_out(ctx, f"{at}:after", after)
        raise


async def _swallow(ctx: loom.Context, at: str, block: Block) -> None:
    try:
        await carry_out(ctx, at, block)
    except loom.Cancelled:
        WORLD.get().saw(at, "swallowed", None)


async def _shield(ctx: loom.Context, at: str, block: Block) -> None:
    with free(True):
        async with ctx.shield():
            await carry_out(ctx, at, block)
    WORLD.get().saw(at, "left the shield", None)


async def _loop(ctx: loom.Context, at: str, times: int, block: Block) -> None:
    for turn in range(times):
        await carry_out(ctx, f"{at}:{turn}", block)


def branch_of(at: str, number: int, block: Block) -> Callable[[loom.Context], Coroutine[Any, Any, int]]:
    """Return a branch that carries out *block*."""

    async def run(ctx: loom.Context) -> int:
        await carry_out(ctx, f"{at}/{number}", block)
        return number

    return run


async def _parallel(ctx: loom.Context, at: str, blocks: list[Block]) -> None:
    WORLD.get().saw(at, "joined", await ctx.parallel(*(branch_of(at, n, block) for n, block in enumerate(blocks))))


async def _map(ctx: loom.Context, at: str, count: int, limit: int, block: Block) -> None:
    async def branch(ctx: loom.Context, item: int) -> int:
        await carry_out(ctx, f"{at}/{item}", block)
        return item

    WORLD.get().saw(at, "mapped", await ctx.map(branch, range(count), limit=limit))


async def _select(ctx: loom.Context, at: str, blocks: list[Block]) -> None:
    arms = {f"arm-{number}": branch_of(at, number, block) for number, block in enumerate(blocks)}
    WORLD.get().saw(at, "selected", tuple(await ctx.select(**arms)))


async def _first_of(ctx: loom.Context, at: str, n: int, blocks: list[Block]) -> None:
    branches = [branch_of(at, number, block) for number, block in enumerate(blocks)]
    WORLD.get().saw(at, "first ones", await ctx.first(min(n, len(blocks)), *branches))


async def _any(ctx: loom.Context, at: str, blocks: list[Block]) -> None:
    branches = {f"one-{number}": branch_of(at, number, block) for number, block in enumerate(blocks)}
    WORLD.get().saw(at, "any", tuple(await ctx.any(branches)))


async def _scope(ctx: loom.Context, at: str, timeout_ms: int | None, blocks: list[Block], body: Block) -> None:
    """Start a task for each block, carry out the body, and await the tasks: one inside the scope, the others after it."""
    tasks: list[Any] = []
    timeout = None if timeout_ms is None else timedelta(milliseconds=timeout_ms)
    try:
        async with ctx.scope(timeout=timeout) as scope:
            tasks += [scope.start(branch_of(at, number, block)) for number, block in enumerate(blocks)]
            await carry_out(ctx, f"{at}/body", body)
            if tasks:
                WORLD.get().saw(at, "inside", await tasks[0])
    except PUT_AWAY:
        raise
    except BaseException as error:
        WORLD.get().saw(at, "left by", (type(error).__name__, [task.done for task in tasks]))
        raise
    WORLD.get().saw(at, "tasks", [await task for task in tasks])


async def _told(ctx: loom.Context, at: str, timeout_ms: int | None, blocks: list[Block]) -> None:
    """Start a task for each block, and wait for them under a shield: each must be told, whatever becomes of it."""
    timeout = None if timeout_ms is None else timedelta(milliseconds=timeout_ms)
    try:
        async with ctx.scope(timeout=timeout) as scope:
            tasks = [scope.start(branch_of(at, number, block)) for number, block in enumerate(blocks)]
            async with ctx.shield():
                for number, task in enumerate(tasks):
                    try:
                        WORLD.get().saw(f"{at}/{number}", "gave", await task)
                    except Exception as error:  # noqa: BLE001  # what it is told is what is looked at
                        WORLD.get().saw(f"{at}/{number}", "told", seen(error))
                    with free(True):
                        await ctx.run(echo, number)
    except PUT_AWAY:
        raise
    except BaseException as error:
        WORLD.get().saw(at, "left by", type(error).__name__)
        raise


async def _gather(ctx: loom.Context, at: str, first: int, second: int) -> None:
    async def note(name: str, result: asyncio.Task[Any]) -> Any:
        value = await result
        WORLD.get().saw(f"{at}/{name}", "came", value)
        return value

    first_call, second_call = asyncio.create_task(ctx.run(echo, first)), asyncio.create_task(ctx.run(echo, second))
    WORLD.get().saw(at, "gathered", await asyncio.gather(note("a", first_call), note("b", second_call)))


async def _task(ctx: loom.Context, at: str, value: int, block: Block) -> None:
    task = asyncio.create_task(ctx.run(echo, value))
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
    await carry_out(ctx, at, block)
    WORLD.get().saw(at, "task", await task)


async def _loose(ctx: loom.Context, at: str, value: int) -> None:
    """Begin a step and never look at it again."""
    WORLD.get().tasks.append(asyncio.create_task(ctx.run(echo, value)))


async def _first(ctx: loom.Context, at: str, first: int, second: int) -> None:
    calls = [asyncio.create_task(ctx.run(echo, first)), asyncio.create_task(ctx.run(echo, second))]
    done, rest = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    WORLD.get().saw(at, "first", sorted(calls.index(call) for call in done))
    for call in rest:
        WORLD.get().saw(at, "then", await call)


async def _both(ctx: loom.Context, at: str, value: int, block: Block) -> None:
    """Stand in a step and in a scope at once."""

    async def branch(ctx: loom.Context) -> None:
        await carry_out(ctx, f"{at}/in", block)

    both = await asyncio.gather(ctx.run(echo, value), ctx.parallel({"one": branch}), return_exceptions=True)
    for each in both:
        if isinstance(each, BaseException) and not isinstance(each, Exception):
            raise each  # the signal that puts a flow away is not to be kept
    WORLD.get().saw(at, "both", [seen(each) if isinstance(each, Exception) else each for each in both])


async def _lock(ctx: loom.Context, at: str, value: int) -> None:
    async with WORLD.get().lock:
        WORLD.get().saw(at, "locked", value)
        await _run(ctx, at, value)


async def _yield(ctx: loom.Context, at: str, turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    WORLD.get().saw(at, "turns", turns)


async def _decide(ctx: loom.Context, at: str, ok: bool) -> None:
    async def choose(options: list[str]) -> str:
        await WORLD.get().happen(f"decide {at}")
        if not ok:
            raise LookupError("no option")
        return options[1]

    try:
        choice = await ctx.decide("pick", choose, ["a", "b"])
    except loom.DecisionFailed as failed:
        WORLD.get().saw(at, "undecided", seen(failed))
    else:
        WORLD.get().saw(at, "decided", choice)


async def _emit(ctx: loom.Context, at: str) -> None:
    await ctx.emit("noted", {"at": at})
    WORLD.get().saw(at, "emitted", None)


async def _patched(ctx: loom.Context, at: str, name: int) -> None:
    applied = not WORLD.get().is_unpatched and ctx.patched(f"patch-{name}")
    WORLD.get().saw(at, "patched", (name, applied))
    await (ctx.run(echo, name) if applied else ctx.sleep(0, name="the old way"))


async def _now(ctx: loom.Context, at: str) -> None:
    WORLD.get().saw(at, "now", ctx.now())


async def _draw(ctx: loom.Context, at: str) -> None:
    WORLD.get().saw(at, "drawn", (ctx.random(), ctx.uuid(), ctx.random("named"), ctx.random()))


async def _gate(ctx: loom.Context, at: str, timeout_ms: int | None) -> None:
    timeout = None if timeout_ms is None else timedelta(milliseconds=timeout_ms)
    try:
        answer = await ctx.suspend("ask", expects=int, show={"at": at}, timeout=timeout)
    except loom.GateTimedOut as failed:
        WORLD.get().saw(at, "timed out", seen(failed))
    else:
        WORLD.get().saw(at, "answer", answer)


async def _receive(ctx: loom.Context, at: str, topic: str, timeout_ms: int | None) -> None:
    """Wait for a message: of a topic that others receive from too, or (the topic being "own") of one for this place."""
    timeout = None if timeout_ms is None else timedelta(milliseconds=timeout_ms)
    try:
        message = await ctx.receive(f"own {at}" if topic == "own" else topic, expects=int, timeout=timeout)
    except loom.ReceiveTimedOut as failed:
        WORLD.get().saw(at, "not received", seen(failed))
    else:
        WORLD.get().saw(at, "received", message)


async def _arms(ctx: loom.Context, at: str, topic: str, ms: int | None) -> None:
    """Race a person, a message, and the clock if *ms* is given."""
    arms: dict[str, Any] = {
        "gate": loom.gate("ask", expects=int, show={"at": at}),
        "news": loom.topic(f"own {at}" if topic == "own" else topic, expects=int),
    }
    if ms is not None:
        arms["nap"] = loom.timer(timedelta(milliseconds=ms))
    WORLD.get().saw(at, "armed", tuple(await ctx.select(**arms)))


async def _sleep(ctx: loom.Context, at: str, ms: int) -> None:
    await ctx.sleep(ms / 1000)
    WORLD.get().saw(at, "slept", ms)


async def _log(ctx: loom.Context, at: str) -> None:
    ctx.log.info("at %s", at)
    WORLD.get().saw(at, "logged", None)


OPERATIONS: Final[dict[str, Callable[..., Coroutine[Any, Any, None]]]] = {
    "run": _run,
    "peek": _peek,
    "flaky": _flaky,
    "once": _once,
    "named": _named,
    "keyed": _keyed,
    "inline": _inline,
    "stream": _stream,
    "fail": _fail,
    "raise": _raise,
    "catch": _catch,
    "finally": _finally,
    "clean up": _clean_up,
    "swallow": _swallow,
    "shield": _shield,
    "loop": _loop,
    "parallel": _parallel,
    "map": _map,
    "select": _select,
    "first of": _first_of,
    "any": _any,
    "scope": _scope,
    "gather": _gather,
    "task": _task,
    "loose": _loose,
    "first": _first,
    "told": _told,
    "both": _both,
    "lock": _lock,
    "yield": _yield,
    "decide": _decide,
    "emit": _emit,
    "patched": _patched,
    "now": _now,
    "draw": _draw,
    "gate": _gate,
    "receive": _receive,
    "arms": _arms,
    "sleep": _sleep,
    "log": _log,
}


async def carry_out(ctx: loom.Context, at: str, block: Block) -> None:
    """Carry out the operations of *block*, one after the other."""
    for number, (name, *operands) in enumerate(block):
        await OPERATIONS[name](ctx, f"{at}.{number}", *operands)


@loom.flow
async def interpreted(ctx: loom.Context, program: list[Any]) -> int:
    """Carry out *program*, and return how much it saw."""
    WORLD.get().trace.clear()  # a verb whose first drive lost its place to a note on the log drives again
    await carry_out(ctx, "", program)
    return len(WORLD.get().trace)


CODE: Final = WorkflowRuntime(MemoryStorage(), flows={interpreted.id: interpreted})
"""Reads the code of the interpreter, once for all who know it as this does: it takes longer than to carry out a program."""


def replayer(manner: Manner | None = None) -> Replayer:
    """Return one that replays the logs of programs."""
    replayer = Replayer({interpreted.id: interpreted}, manner=manner)
    replayer._driver.know_code_as(CODE._driver)
    return replayer
