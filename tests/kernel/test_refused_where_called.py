"""What a syscall cannot take is refused where it is called: before it takes a place, and so alike live and replayed."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, payloads, runtime


class Plain:
    """A class that no JSON can be validated as."""


class Raises:
    """A type that says by an error of its own that it has no schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise ZeroDivisionError


class Word(str):
    """A text of a class of its own."""

    __slots__ = ()


class Topic(str, enum.Enum):  # noqa: UP042  # its str() is another text than it is
    """Names, as authors keep them."""

    ORDERS = "orders"


Asks = Callable[[Any], Any]
asked: list[Asks] = []
refused: list[str] = []


@loom.step
async def by_mail() -> str:
    return "by mail"


@loom.flow
async def child(ctx: loom.Context) -> int:
    return 1


@loom.flow
async def asks(ctx: Any) -> str:
    try:
        await asked[0](ctx)
    except Exception as error:  # noqa: BLE001  # whatever it raises, it has to be the same at each replay
        refused.append(f"{type(error).__name__}: {error}")
    how: str = await ctx.run(by_mail)
    await ctx.suspend("stop")
    return how


async def first_of(n: Any, ctx: Any) -> Any:
    async def branch(ctx: Any) -> None: ...

    return await ctx.first(n, branch, branch)


async def scope_of(ctx: Any, **options: Any) -> Any:
    async with ctx.scope(**options):
        pass


async def waits_badly(ctx: Any) -> Any:
    await loom.await_child(ctx, await loom.spawn(ctx, child, key="a"), timeout=timedelta(-1))


REFUSED: dict[str, tuple[Asks, str]] = {
    "a class as expects": (lambda ctx: ctx.suspend("g", expects=Plain), "expects of the gate g: .* as Plain"),
    "what raises as expects": (
        lambda ctx: ctx.suspend("g", expects=Raises),
        "expects of the gate g: .*ZeroDivisionError",
    ),
    "text as expects": (lambda ctx: ctx.suspend("g", expects="#=k"), "expects of the gate g: "),
    "no text as expects": (lambda ctx: ctx.suspend("g", expects=""), "expects of the gate g: "),
    "half a pair as expects": (lambda ctx: ctx.suspend("g", expects="\ud800"), "expects of the gate g: "),
    "a number as expects": (lambda ctx: ctx.suspend("g", expects=5), "expects of the gate g: "),
    "a list as expects": (lambda ctx: ctx.suspend("g", expects=["a"]), "expects of the gate g: "),
    "a class as expects of a topic": (
        lambda ctx: ctx.receive("t", expects=Plain),
        "expects of the topic t: .* as Plain",
    ),
    "text as expects of a topic": (lambda ctx: ctx.receive("t", expects="#=k"), "expects of the topic t: "),
    "a set as key": (lambda ctx: ctx.suspend("g", key=frozenset({"a"})), "no text but a frozenset .* a key"),
    "a number as key": (lambda ctx: ctx.suspend("g", key=5), "no text but a int .* a key"),
    "no label": (lambda ctx: ctx.suspend(None), "no text but a NoneType .* a gate"),
    "a set as label": (lambda ctx: ctx.suspend({"a"}), "no text but a set .* a gate"),
    "a list as label": (lambda ctx: ctx.suspend(["a"]), "no text but a list .* a gate"),
    "a set as topic": (lambda ctx: ctx.receive({"a"}), "no text but a set .* a topic"),
    "no duration as timeout": (lambda ctx: ctx.suspend("g", timeout="1 h"), "timeout: '1 h' is no duration"),
    "an option that is none": (lambda ctx: ctx.suspend("g", timout=1), "no timout"),
    "a timeout in the past": (lambda ctx: ctx.receive("t", timeout=timedelta(-1)), "timeout: .* in the past"),
    "a set as name of a sleep": (lambda ctx: ctx.sleep(0, name={"a"}), "no text but a set .* a timer"),
    "no name of a decision": (lambda ctx: ctx.decide(None, lambda: 1), "no text but a NoneType .* a decision"),
    "a set as candidates of no JSON": (lambda ctx: ctx.decide("d", len, Plain()), "NotSerializable"),
    "no type of an event": (lambda ctx: ctx.emit(5), "no text but a int .* an event"),
    "no label of a stream": (lambda ctx: ctx.stream(5, None), "no text but a int .* a stream"),
    "no label of a step": (lambda ctx: ctx.run(None, by_mail), "no text but a NoneType .* a step"),
    "a list as label of a step": (lambda ctx: ctx.run(["a"], by_mail), "no text but a list .* a step"),
    "no name of a step": (lambda ctx: ctx.run(by_mail.named(5)), "no text but a int .* a step"),  # type: ignore[arg-type]
    "a fraction as retry": (lambda ctx: ctx.run(by_mail.retried(1.5)), "counted from 1"),  # type: ignore[arg-type]
    "a fraction of branches": (lambda ctx: first_of(Fraction(1), ctx), "the first Fraction"),
    "no number as limit": (lambda ctx: ctx.map(by_mail, [1], limit=math.nan), "limit=nan"),
    "a number as name of a branch": (lambda ctx: ctx.parallel({5: child.fn}), "no text but a int .* a branch"),
    "a number as name of a scope": (lambda ctx: scope_of(ctx, name=5), "no text but a int .* a scope"),
    "no duration of a scope": (lambda ctx: scope_of(ctx, timeout="1 h"), "timeout: '1 h' is no duration"),
    "an arm of a select": (
        lambda ctx: ctx.select(a=loom.gate("g", expects=Plain)),
        "expects of the gate g: .* as Plain",
    ),
    "an arm that is none": (lambda ctx: ctx.select(a=5), "takes async functions"),
    "no patch": (lambda ctx: ctx.patched(None), "no text but a NoneType .* a patch"),
    "a wait for a child": (waits_badly, "timeout: .* in the past"),
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    refused.clear()


@pytest.mark.parametrize("case", REFUSED)
async def test_what_a_syscall_cannot_take_is_caught_by_the_flow_alike_live_and_replayed(case: str) -> None:
    asked[:], storage = [REFUSED[case][0]], MemoryStorage()

    first = await runtime(asks, child, storage=storage).start(asks, id=RUN)
    second = await runtime(asks, child, storage=storage).resume(RUN, answer=1, gate="stop")

    assert (first.status, second.value) == ("suspended", "by mail")
    assert len(refused) == 2
    assert refused[0] == refused[1]
    assert re.search(REFUSED[case][1], refused[0]), refused[0]


@loom.flow
async def names(ctx: loom.Context) -> Any:
    await ctx.suspend(Word("ask"), key=Topic.ORDERS)
    message = await ctx.receive(Topic.ORDERS, expects=str)
    await ctx.emit(Word("told"), message)
    return await ctx.run(by_mail.named(Word("mail")))


async def test_text_of_a_class_of_its_own_is_the_text_it_is_on_the_log() -> None:
    storage = MemoryStorage()
    await runtime(names, storage=storage).start(names, id=RUN)
    await runtime(names, storage=storage).resume(RUN, answer=1, gate="orders")
    outcome = await runtime(names, storage=storage).send(RUN, "orders", "two")

    assert outcome.value == "by mail"
    over = runtime(names, storage=storage)
    assert [(gate.label, gate.key) for gate in await payloads(over, "GATE_OPENED")] == [("ask", "orders")]
    assert [awaited.topic for awaited in await payloads(over, "MESSAGE_AWAITED")] == ["orders"]
    assert [start.id for start in await payloads(over, "STEP_STARTED")] == ["mail"]


@loom.flow
async def waits_again(ctx: loom.Context) -> int:
    begun = await loom.spawn(ctx, child)
    with suppress(InvalidDeclaration):
        await loom.await_child(ctx, begun, timeout=timedelta(-1))
    return await loom.await_child(ctx, begun)


async def test_a_child_whose_wait_was_refused_can_be_awaited_again() -> None:
    outcome = await runtime(waits_again, child).start(waits_again, id=RUN, linger_s=5)

    assert outcome.value == 1


class Probability(float):
    """As libraries of numbers return them."""


@loom.flow
async def chooses(ctx: loom.Context, propensity: str) -> Any:
    try:
        return await ctx.decide("d", lambda: loom.Choice(value=1, propensity=Probability(propensity)))
    except loom.DecisionFailed as failed:
        return failed.record.message


@pytest.mark.parametrize(("given", "came_to"), [("0.25", 1), ("nan", "a propensity is a probability, not nan")])
async def test_a_propensity_is_kept_as_a_plain_number_or_fails_the_decision(given: str, came_to: Any) -> None:
    over = runtime(chooses)

    outcome = await over.start(chooses, given, id=RUN)

    assert outcome.value == came_to
    kept = (await payloads(over, "DECISION_RECORDED"))[0].propensity
    assert kept == (0.25 if came_to == 1 else None)
