"""A few small flows that between them do all that a crash could spoil."""

from __future__ import annotations

import asyncio
import contextvars
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import loom

SHORT: Final = timedelta(milliseconds=3)


class Outside(NamedTuple):
    """What the flows reach of the world: who *choose*s, and the *folder* of the run."""

    choose: Callable[[list[str]], Awaitable[str]]
    folder: Path


OUTSIDE: Final[contextvars.ContextVar[Outside]] = contextvars.ContextVar("OUTSIDE")


@dataclass(frozen=True)
class SoldOut:
    left: int


@loom.step(retry=loom.Retry(attempts=3, delay=SHORT))
async def fetch(step: loom.StepContext, page: int) -> list[int]:
    if page == 1 and step.attempt < 3:
        raise ConnectionError(f"attempt {step.attempt}")
    return [page, step.attempt]


@loom.step
def count(pages: list[list[int]]) -> int:
    return sum(map(sum, pages))


@loom.flow
async def pages(ctx: loom.Context) -> dict[str, Any]:
    """Fetch pages in a loop; one of them fails twice."""
    found = []
    for page in range(3):
        found.append(await ctx.run(fetch, page))
        found[-1].append(len(found))
    return {"count": await ctx.run(count, found), "draw": ctx.random(), "id": str(ctx.uuid())}


@loom.step
async def quote(room: str) -> dict[str, int]:
    return {room: len(room)}


@loom.step
async def book(room: str, price: dict[str, int], guests: int) -> str:
    return f"{room} for {guests} at {price[room]}"


@loom.flow
async def rooms(ctx: loom.Context) -> Any:
    """Book two rooms side by side, each when somebody has answered, and quote three more meanwhile."""

    async def room(ctx: loom.Context, name: str) -> str:
        price = await ctx.run(quote, name)
        guests = await ctx.suspend("guests", expects=int, show=price)
        return await ctx.run(book, name, price, guests)

    return await ctx.parallel(
        {
            "north": lambda ctx: room(ctx, "north"),
            "southern": lambda ctx: room(ctx, "southern"),
            "more": lambda ctx: ctx.map(quote, ["a", "bb", "ccc"], limit=2),
        }
    )


@loom.step(failures={"sold_out": SoldOut})
async def reserve(way: str) -> None:
    raise loom.fail("sold_out", SoldOut(left=len(way)))


@loom.step
async def take_a_ticket() -> str:
    """Another one each time: what follows may have been done with the one that is on the log, and with no other."""
    return secrets.token_hex(4)


@loom.step(idempotent=False)
async def charge(step: loom.StepContext, amount: int, ticket: str) -> str:
    return f"receipt {amount} {step.idempotency_key}"


@loom.step
def mail(receipt: str, ticket: str = "") -> int:
    return len(receipt)


@loom.flow
async def order(ctx: loom.Context) -> dict[str, Any]:
    """Choose, fail in a declared way, charge exactly once, tell, rest, and mail."""
    way = await ctx.decide("way", OUTSIDE.get().choose, ["card", "transfer"])
    try:
        await ctx.run(reserve, way)
        left = -1
    except loom.TypedFailure as failure:
        left = failure.payload.left
    ticket = await ctx.run(take_a_ticket)
    receipt = await ctx.run(charge, left, ticket)
    await ctx.emit("charged", {"receipt": receipt})
    await ctx.sleep(SHORT)
    mailed = await ctx.run(mail, receipt, await ctx.run(take_a_ticket))
    return {"left": left, "mailed": mailed, "again": await ctx.run(charge, 0, "")}


@loom.step
async def hold(word: str) -> str:
    """Who comes first waits until it is let go; who comes after it does not."""
    folder = OUTSIDE.get().folder
    try:
        (folder / "held").touch(exist_ok=False)
    except FileExistsError:
        return word
    while not (folder / "go").exists():
        await asyncio.sleep(0.002)
    return word


@loom.flow
async def held(ctx: loom.Context) -> int:
    """Hang in a step, and go on with another."""
    word = await ctx.run(hold, "word")
    return await ctx.run(mail, word)


@loom.step(retry=loom.Retry(attempts=2, delay=SHORT))
async def take(step: loom.StepContext, what: str) -> str:
    if what == "car":
        raise ConnectionError(f"no car, attempt {step.attempt}")
    return f"{what} is taken"


@loom.step(retry=loom.Retry(attempts=2, delay=SHORT))
async def give_back(step: loom.StepContext, what: str) -> str:
    if what == "hotel" or (what == "seat" and step.attempt == 1):
        raise ConnectionError(f"no line to the {what}")
    return f"{what} is given back"


@loom.flow
async def trip(ctx: loom.Context) -> list[str]:
    """Take what cannot all be had; undo it in reverse, over an undo that fails once and one that fails for good."""
    taking = take.undone_by(give_back)
    try:
        async with loom.saga(ctx) as saga:
            await saga.run(taking, "flight")
            await ctx.map(lambda ctx, what: saga.run(taking, what), ["hotel", "spa"], limit=1)
            async with loom.saga(ctx) as inner:
                await inner.run(taking, "seat")
                await inner.run(taking, "car")
    except loom.CompensationFailed as failed:
        return [*failed.steps, *map(str, failed.records)]
    return []


@loom.flow
async def given_up(ctx: loom.Context) -> None:
    """Lose a race inside a saga, then wait for a person beside another saga: who cancels the run has all of it cleaned up."""
    taking, booked = take.undone_by(give_back), asyncio.Event()

    async def rents(ctx: loom.Context) -> None:
        async with loom.saga(ctx) as saga:
            await saga.run(taking, "seat")
            booked.set()
            await ctx.suspend("never")

    async def wins(ctx: loom.Context) -> None:
        await booked.wait()
        await ctx.emit("told")

    async def stays(ctx: loom.Context) -> None:
        async with loom.saga(ctx) as saga:
            await saga.run(taking, "spa")
            await ctx.suspend("stop")

    try:
        await ctx.select("race", rents=rents, wins=wins)
        await ctx.parallel(stays, lambda ctx: ctx.sleep(timedelta(days=1)))
    finally:
        await ctx.run(charge, 1, "")
        async with ctx.shield():
            await ctx.map(quote, ["a", "bb"])


@loom.step
async def file_away(letter: str) -> str:
    return f"filed {letter}"


@loom.flow
async def letters(ctx: loom.Context) -> list[list[str]]:
    """Receive letters of two topics side by side, and file each away."""

    async def reads(ctx: loom.Context, topic: str) -> list[str]:
        return [await ctx.run(file_away, await ctx.receive(topic, expects=str)) for _ in range(2)]

    return await ctx.map(reads, ["news", "bills"])


LETTERS: Final = (("news", "n1"), ("bills", "b1"), ("bills", "b2"), ("news", "n2"))


@loom.step
def greet(who: str) -> str:
    return f"hello {who}"


@loom.flow
async def grandchild(ctx: loom.Context, name: str) -> str:
    return await ctx.run(greet, f"the child of {name}")


@loom.flow
async def child(ctx: loom.Context, name: str) -> list[str]:
    """Greet, start a child of one's own, and wait for it; one child of the family fails before that."""
    own = await ctx.run(greet, name)
    if name == "cain":
        raise LookupError("no child of his is known")
    return [own, await loom.await_child(ctx, await loom.spawn(ctx, grandchild, name))]


@loom.flow
async def family(ctx: loom.Context) -> list[Any]:
    """Start two children side by side, wait for both, and say what became of them."""
    children = await ctx.map(lambda ctx, name: loom.spawn(ctx, child, name), ["abel", "cain"])
    found = await loom.await_children(ctx, children)
    return [str(each) if isinstance(each, loom.ChildFailed) else each for each in found]


@loom.step(idempotent=False)
async def lap(n: int) -> int:
    return n


@loom.flow
async def laps(ctx: loom.Context, n: int = 1) -> int:
    """Go on in a fresh log after each lap."""
    await ctx.run(lap.named(f"lap-{n}"), n)
    return n if n == 3 else await ctx.continue_as_new(n + 1)


@loom.flow
async def market(ctx: loom.Context) -> list[Any]:
    """Take what comes first, though a payment is on its way that must not be made twice; then run out of time."""

    async def pays(ctx: loom.Context) -> str:
        return await ctx.run(charge, 5, "")

    async def tells(ctx: loom.Context) -> str:
        await ctx.emit("told")
        return "told"

    won = await ctx.select("race", pays=pays, tells=tells, waits=loom.gate("never"), late=loom.timer(timedelta(days=1)))
    two = await ctx.first(
        2, {room: lambda ctx, room=room: ctx.run(quote, room) for room in ("a", "bb")} | {"gate": loom.gate("never")}
    )
    async with ctx.scope() as scope:
        prices = [scope.start(quote, room) for room in ("north", "south-west")]
        booked = await ctx.run(book, "hall", await prices[0] | {"hall": 4}, 2)
    try:
        async with ctx.scope(name="closing", timeout=SHORT) as scope:
            await scope.start(waits_for_ever)
    except loom.ScopeTimedOut as late:
        return [won.name, sorted(two), booked, await prices[1], late.scope, await ctx.run(mail, "closed")]
    return []


async def waits_for_ever(ctx: loom.Context) -> Any:
    return await ctx.suspend("never")


ANSWERS: Final = {"parallel/north/guests": 2, "parallel/southern/guests": 3}
