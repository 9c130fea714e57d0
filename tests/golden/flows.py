"""The flows that wrote the golden logs. They are never edited: a log replays with the code that wrote it, or does not.

A log of something new is written by a flow of its own, added here. What a body sees it says with `saw`.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

import loom
from loom import values

T = TypeVar("T")

REST: Final = timedelta(milliseconds=250)


@dataclass
class World:
    """What is outside the log: what is *broken* in it, which effects *acted*, and what the body *saw* in this drive.

    Where effects are *forbidden*, one that is called is a mistake; it is noted, and fails.
    """

    forbidden: bool = False
    broken: set[str] = field(default_factory=set)
    acted: list[str] = field(default_factory=list)
    saw: list[Any] = field(default_factory=list)


OUTSIDE: Final[contextvars.ContextVar[World]] = contextvars.ContextVar("OUTSIDE")


def saw(place: str, value: T) -> T:
    """Note what the body saw at *place*, and return it."""
    if isinstance(value, BaseException):
        OUTSIDE.get().saw.append([place, type(value).__name__, str(value)])
    else:
        OUTSIDE.get().saw.append([place, type(value).__name__, values.encode(value)])
    return value


def act(name: str) -> None:
    """Be an effect."""
    world = OUTSIDE.get()
    world.acted.append(name)
    if world.forbidden:
        raise AssertionError(f"{name} acted though all of it is recorded")
    if name in world.broken:
        raise ConnectionError(f"{name} is broken")


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Order:
    id: str
    amount: Decimal
    size: Size = Size.SMALL


@dataclass(frozen=True)
class Declined:
    code: str


@dataclass(frozen=True)
class Approval:
    approved: bool
    reason: str = ""


class Refused(Exception):
    """An error of the author's own."""

    def __init__(self, who: str, *, code: int) -> None:
        super().__init__(f"{who} refused")
        self.who, self.code = who, code


class Busy(Exception):
    """The other side says for sure that it did nothing."""


# hello


@loom.step
async def greet(name: str) -> str:
    act("greet")
    return f"hello {name}"


@loom.flow
async def hello(ctx: loom.Context, name: str) -> dict[str, Any]:
    """Greet, and draw what is derived from the log."""
    greeting = saw("greet", await ctx.run(greet, name))
    drawn = saw("random", ctx.random())
    return {"greeting": greeting, "drawn": drawn, "id": saw("uuid", ctx.uuid()), "at": saw("now", ctx.now())}


# loops: how calls are named


@loom.step
async def price(order: Order) -> Decimal:
    act("price")
    return order.amount * (2 if order.size is Size.LARGE else 1)


@loom.step(idempotent=False)
async def charge(step: loom.StepContext, amount: Decimal) -> str:
    act("charge")
    return f"{amount} under {step.idempotency_key}"


@loom.tool
async def convert(amount: Decimal, to: str = "EUR") -> str:
    """Convert an amount of money."""
    act("convert")
    return f"{amount} {to}"


def total(prices: list[Decimal]) -> Decimal:
    act("total")
    return sum(prices, Decimal(0))


@loom.flow
async def loops(ctx: loom.Context, orders: list[Order]) -> dict[str, Any]:
    """Call steps again: by occurrence, by key, by name, on purpose, by id, and without a decorator."""
    prices = [saw("occurrence", await ctx.run(price, order)) for order in orders]
    for order in reversed(orders):
        saw("key", await ctx.run(price.keyed(order.id), order))
    saw("key of digits", await ctx.run(price.keyed("007"), orders[0]))
    saw("name", await ctx.run(price.named("first"), orders[0]))
    saw("name again", await ctx.run(price.named("first"), orders[0]))
    whole = saw("inline", await ctx.run("total", total, prices))
    saw("charge", await ctx.run(charge, whole))
    saw("retry", await ctx.run(charge.retried(1), whole))
    saw("tool", await ctx.execute("convert", {"amount": "3.50", "to": "USD"}))
    saw("tool by name", await ctx.execute("convert", {"amount": "1"}, id="convert-one"))
    return {"whole": whole}


# values: what crosses the log


@loom.step
async def everything() -> dict[str, Any]:
    act("everything")
    return {
        "none": None,
        "large": 2**70,
        "small": -(2**63) - 1,
        "float": 0.1 + 0.2,
        "nan": math.nan,
        "infinity": -math.inf,
        "text": 'a "quoted" line\n\u00e9\u4e2d\U0001f600',
        "nul": "\0",
        "surrogate": "\ud800",
        "bytes": b"\x00\xff",
        "decimal": Decimal("1.10"),
        "uuid": UUID(int=7),
        "when": datetime(2024, 2, 29, 12, 30, 0, 5, UTC),
        "day": datetime(2024, 2, 29, tzinfo=UTC).date(),
        "lapse": timedelta(days=1, microseconds=1),
        "tuple": (1, (2,)),
        "set": {3},
        "frozen": frozenset({"x"}),
        "keys": {1: "one"},
        "looks tagged": {"$": "no tag"},
        "empty": [[], {}, ""],
    }


@loom.step
async def typed(order: Order, sizes: tuple[Size, ...], at: datetime) -> tuple[Order, set[Size]]:
    act("typed")
    return order, set(sizes)


@loom.flow
async def crossing(ctx: loom.Context) -> Order:
    """Take values of all kinds across the log, with annotations and without."""
    for name, value in sorted((await ctx.run(everything)).items()):
        saw(name, value)
    order, sizes = await ctx.run(typed, Order("o-1", Decimal("2.50")), (Size.LARGE,), datetime(2024, 1, 1, tzinfo=UTC))
    saw("sizes", sorted(size.value for size in sizes))
    return saw("order", order)


# failures


@loom.step(retry=loom.Retry(attempts=3, delay=REST, jitter=0.5))
async def flaky(step: loom.StepContext) -> int:
    act("flaky")
    if step.attempt < 3:
        raise ConnectionError(f"attempt {step.attempt}")
    return step.attempt


@loom.step(retry=loom.Retry(attempts=2, delay=REST))
async def hopeless() -> None:
    act("hopeless")
    try:
        raise OSError("the disk is gone")
    except OSError as error:
        raise RuntimeError("hopeless") from error


@loom.step(failures={"declined": Declined, "refused": Refused})
async def pay(how: str) -> str:
    act("pay")
    if how == "card":
        raise loom.fail("declined", Declined(code="insufficient"))
    raise Refused(how, code=7)


@loom.step(idempotent=False, retry=loom.Retry(attempts=3, delay=REST, on=(Busy,)))
async def book(step: loom.StepContext) -> int:
    act("book")
    if step.attempt < 3:
        raise Busy
    return step.attempt


@loom.flow
async def failures(ctx: loom.Context) -> str:
    """Fail in each way, and go on."""
    saw("flaky", await ctx.run(flaky))
    for name, call in (
        ("hopeless", lambda: ctx.run(hopeless)),
        ("declined", lambda: ctx.run(pay, "card")),
        ("refused", lambda: ctx.run(pay, "cheque")),
    ):
        try:
            await call()
        except loom.TypedFailure as failure:
            saw(name, [failure.channel, failure.payload.code])
        except Refused as refused:
            saw(name, [refused.who, refused.code])
        except loom.StepFailed as failed:
            saw(name, [failed.error_type, failed.message, str(failed.cause)])
    saw("book", await ctx.run(book))
    return "went on"


# branches


@loom.step
async def quote(room: str) -> int:
    act(f"quote {room}")
    return len(room)


@loom.flow
async def branches(ctx: loom.Context) -> dict[str, Any]:
    """Branch by name, by number and by item, one scope in another; two scopes are cut by a failure."""

    async def room(ctx: loom.Context, name: str) -> int:
        saw("room", name)
        found = saw("quote", await ctx.run(quote, name))
        await ctx.sleep(REST)
        return found + await ctx.suspend("guests", expects=int)

    async def rooms(ctx: loom.Context) -> list[int]:
        return await ctx.map(room, ["north", "south-west", "attic"], limit=2)

    async def draws(ctx: loom.Context) -> list[str]:
        return [saw("draw", str(ctx.uuid())), saw("named draw", str(ctx.uuid("a")))]

    both = saw("both", await ctx.parallel({"rooms": rooms, "draws": draws}))

    async def waits(ctx: loom.Context) -> Any:
        return saw("never", await ctx.suspend("never"))

    async def fails(ctx: loom.Context) -> Any:
        saw("before", await ctx.run(quote, "cellar"))
        return await ctx.run(pay, "card")

    async def inner(ctx: loom.Context) -> Any:
        return await ctx.parallel(waits, waits)

    try:
        await ctx.parallel(inner, fails)
    except loom.TypedFailure as failure:
        saw("cut", failure)
    return {**both, "empty": saw("empty", await ctx.map(quote, []))}


# gates


@loom.flow
async def gates(ctx: loom.Context, amount: Decimal) -> str:
    """Wait for people and for the clock."""
    saw("begins", ctx.now())
    first = saw("approval", await ctx.suspend("approval", show={"amount": amount}, expects=Approval))
    saw("any", await ctx.suspend("approval", key="ticket-9"))
    try:
        saw("in time", await ctx.suspend("signature", expects=str, timeout=timedelta(days=3)))
        saw("late", await ctx.suspend("signature", expects=str, timeout=timedelta(days=3)))
    except loom.GateTimedOut as late:
        saw("timed out", late)
    await ctx.sleep(timedelta(hours=1), name="pause")
    saw("slept", ctx.now())
    await ctx.sleep_until(datetime(2020, 1, 1, tzinfo=UTC))
    return first.reason


@loom.flow
async def waiting(ctx: loom.Context) -> Any:
    """Wait at two gates and a timer; the log ends there."""

    async def sleeper(ctx: loom.Context) -> None:
        await ctx.sleep(timedelta(days=30))

    async def asker(ctx: loom.Context) -> Any:
        return saw(
            "answer", await ctx.suspend("question", expects=Approval, show=saw("quote", await ctx.run(quote, "b")))
        )

    return await ctx.parallel({"asker": asker, "other": asker, "sleeper": sleeper})


# doubt


@loom.step(idempotent=False, timeout=timedelta(milliseconds=1))
async def wire(step: loom.StepContext, to: str) -> str:
    act("wire")
    if step.attempt == 1 and "slow" in OUTSIDE.get().broken:
        await asyncio.Event().wait()
    return f"wired to {to}"


@loom.flow
async def doubts(ctx: loom.Context) -> str:
    """Lose sight of three effects; a person says of each what came of it."""
    for to in ("ada", "bob", "eve"):
        try:
            saw(to, await ctx.run(wire.keyed(to), to))
        except loom.StepFailed as failed:
            saw(to, failed)
    return "resolved"


# records


async def pieces(*, broken: bool) -> AsyncIterator[str]:
    act("pieces")
    yield "a"
    yield "b\u00e9"
    if broken:
        raise ValueError("torn")


def choose(options: list[str]) -> str:
    act("choose")
    return options[-1]


async def choose_well(options: list[str]) -> loom.Choice:
    act("choose_well")
    return loom.Choice(value=options[0], policy="greedy@2", propensity=0.75, context={"n": len(options)})


def cannot_choose() -> None:
    act("cannot_choose")
    raise LookupError("nothing to choose from")


@loom.flow
async def records(ctx: loom.Context) -> str:
    """Decide, tell, and stream."""
    saw("chosen", await ctx.decide("way", choose, ["card", "transfer"]))
    saw("chosen well", await ctx.decide("way", choose_well, ["card", "transfer"], policy="none"))
    try:
        await ctx.decide("way", cannot_choose)
    except loom.DecisionFailed as failed:
        saw("not chosen", failed)
    await ctx.emit("charged", {"amount": Decimal(5)})
    await ctx.emit("charged")
    saw("pieces", await ctx.stream("letter", pieces(broken=False)))
    try:
        await ctx.stream("letter", pieces(broken=True))
    except loom.DecisionFailed as torn:
        saw("torn", torn)
    return "told"


# runs that failed


@loom.step
async def work(name: str) -> str:
    act(name)
    return name


@loom.flow
async def retried(ctx: loom.Context) -> list[Any]:
    """Fail in a branch while another waits; tried again, go on from there."""
    saw("before", await ctx.run(work, "before"))

    async def one(ctx: loom.Context) -> Any:
        done = [await ctx.run(work, name) for name in ("one", "breaks", "after")]
        return saw("one", done)

    async def other(ctx: loom.Context) -> Any:
        name = await ctx.run(work, "other")
        return saw("other", [name, await ctx.suspend("other", expects=int)])

    both = await ctx.parallel(one, other)
    return [*both, saw("end", await ctx.run(work, "end"))]


@loom.flow
async def fails(ctx: loom.Context) -> None:
    """Fail for good."""
    saw("work", await ctx.run(work, "work"))
    await ctx.run(pay, "card")


@loom.flow
async def mistaken(ctx: loom.Context, name: str = "nobody") -> None:
    """Fail by a mistake of the flow's own, started without an input."""
    saw("work", await ctx.run(work, name))
    raise KeyError(name)


# code that changed


@loom.flow(id="moved")
async def moved_before(ctx: loom.Context) -> list[Any]:
    return [await ctx.run(work, "a"), await ctx.suspend("go")]


@loom.flow(id="moved")
async def moved(ctx: loom.Context) -> list[Any]:
    both = [saw("a", await ctx.run(work, "a")), saw("go", await ctx.suspend("go"))]
    return [*both, saw("new", await ctx.run(work, "new"))]


@loom.flow(id="strayed")
async def strayed(ctx: loom.Context) -> list[Any]:
    return [saw("a", await ctx.run(work, "a")), saw("go", await ctx.suspend("go"))]


@loom.flow(id="strayed")
async def strayed_off(ctx: loom.Context) -> list[Any]:
    return [await ctx.run(quote, "a"), await ctx.suspend("go")]


# The flows of a part of their own, which uses what stands above: a file may only be so long.
from tests.golden.driven import letters, rolls, taken_over  # noqa: E402, F401
from tests.golden.racing import blocks, races  # noqa: E402, F401
from tests.golden.stopped import outbid, stopped, too_long  # noqa: E402, F401
