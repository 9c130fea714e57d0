"""Receiving: a message is seen once, in order, at one recorded place, whenever it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import ReplayDivergence
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, runtime


@dataclass
class Order:
    """What is sent."""

    item: str
    count: int = 1


seen: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@loom.step
async def note(what: Any) -> Any:
    seen.append(what)
    return what


@loom.flow
async def three(ctx: loom.Context) -> list[int]:
    return [await ctx.receive("numbers", expects=int) for _ in range(3)]


@loom.flow
async def later(ctx: loom.Context) -> list[int]:
    await ctx.suspend("begin")
    return [await ctx.receive("numbers", expects=int) for _ in range(3)]


# In order, once, whenever it was sent


@pytest.mark.proves("SYS-09", "SUS-04")
async def test_messages_sent_before_the_wait_and_after_it_come_in_order_once() -> None:
    over = runtime(later)
    await over.start(later, id=RUN)
    await over.send(RUN, "numbers", 1)
    await over.send(RUN, "numbers", 2)

    waiting = await over.resume(RUN, answer=None)
    done = await over.send(RUN, "numbers", 3)

    assert (waiting.status, done.value) == ("suspended", [1, 2, 3])
    assert [fact.number for fact in await payloads(over, "MESSAGE_RECEIVED")] == [1, 2, 4]  # 3 was the answer
    assert await over.storage.pending(*(await _life(over))) == []


@pytest.mark.proves("SUS-04")
async def test_a_message_to_a_run_that_nobody_drives_is_received_by_the_next_drive() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)
    for number in (1, 2, 3):
        await over.send(RUN, "numbers", number, drive=False)

    done = await runtime(three, storage=over.storage).resume(RUN)

    assert done.value == [1, 2, 3]


async def test_each_message_stands_on_the_log_where_it_was_received() -> None:
    over = runtime(later)
    await over.start(later, id=RUN)
    for number in (1, 2, 3):
        await over.send(RUN, "numbers", number, principal="ada")

    await over.resume(RUN, answer=None)

    received = ["MESSAGE_AWAITED", "MESSAGE_RECEIVED"] * 3
    assert await kinds(over) == [
        *("STARTED", "GATE_OPENED", "SUSPENDED", "RESUMED", "GATE_ANSWERED"),
        *(*received, "COMPLETED"),
    ]
    assert [e.metadata for e in await over.events(RUN) if e.type == "MESSAGE_RECEIVED"] == [
        {"request": number, "principal": "ada"} for number in (1, 2, 3)
    ]


async def test_a_message_of_another_topic_waits_and_keeps_no_run_from_parking() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)

    sent = await over.send(RUN, "letters", "a")
    again = await over.resume(RUN)

    assert (sent.status, again.status) == ("accepted", "suspended")
    assert await kinds(over) == ["STARTED", "MESSAGE_AWAITED", "SUSPENDED"]
    assert len(await over.storage.pending(*(await _life(over)))) == 1


@loom.flow
async def by_turns(ctx: loom.Context) -> list[Any]:
    return [await ctx.receive(topic) for topic in ("b", "a", "b")]


async def test_topics_do_not_mix() -> None:
    over = runtime(by_turns)
    await over.start(by_turns, id=RUN)

    for topic, message in (("a", "a0"), ("a", "a1"), ("b", "b0")):
        await over.send(RUN, topic, message)
    done = await over.send(RUN, "b", "b1")

    assert done.value == ["b0", "a0", "b1"]


@loom.flow
async def side_by_side(ctx: loom.Context) -> list[Any]:
    async def branch(ctx: loom.Context, item: int) -> list[Any]:
        first = await ctx.receive("numbers")
        await ctx.run(note, [item, first])
        return [first, await ctx.receive("numbers")]

    return await ctx.map(branch, [0, 1, 2])


async def test_of_two_waits_for_one_topic_the_older_gets_the_older_message() -> None:
    over = runtime(side_by_side)
    await over.start(side_by_side, id=RUN)

    for number in range(5):
        await over.send(RUN, "numbers", number)
    done = await over.send(RUN, "numbers", 5)

    assert done.value == [[0, 3], [1, 4], [2, 5]]


async def test_a_drive_that_finds_them_all_gives_the_older_wait_the_older_message_too() -> None:
    over = runtime(side_by_side)
    await over.start(side_by_side, id=RUN)
    for number in range(6):
        await over.send(RUN, "numbers", number, drive=False)

    done = await over.resume(RUN)

    assert sorted(first for first, _ in done.result()) == [0, 1, 2]
    assert sorted(number for pair in done.result() for number in pair) == list(range(6))


# What a message is


@loom.flow
async def orders(ctx: loom.Context) -> list[str]:
    first = await ctx.receive("orders", expects=Order)
    second = await ctx.receive("orders", expects=Order)
    return [f"{type(order).__name__} {order.item} {order.count}" for order in (first, second)]


async def test_a_message_is_read_as_what_is_expected_live_and_replayed() -> None:
    over = runtime(orders)
    await over.start(orders, id=RUN)

    await over.send(RUN, "orders", Order("tea", 2))
    done = await runtime(orders, storage=over.storage).send(RUN, "orders", {"item": "milk"})

    assert done.value == ["Order tea 2", "Order milk 1"]


async def test_a_message_that_does_not_fit_is_dropped_on_the_record_and_the_wait_goes_on() -> None:
    over = runtime(orders)
    await over.start(orders, id=RUN)
    await over.send(RUN, "orders", {"item": "tea"})

    still = await over.send(RUN, "orders", {"count": "many"}, key="odd")
    done = await over.send(RUN, "orders", {"item": "milk"})

    [dropped] = await payloads(over, "REQUEST_DROPPED")
    assert still.status == "suspended"
    assert done.value == ["Order tea 1", "Order milk 1"]
    assert (dropped.kind, dropped.key) == ("message", "message:odd")
    assert "orders#1 does not take it" in dropped.reason
    assert "item" in dropped.reason


@loom.flow
async def anything(ctx: loom.Context) -> Any:
    return await ctx.receive("anything")


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (None, None),
        ({"a": [1, 2.5, "\u00e9"]}, {"a": [1, 2.5, "\u00e9"]}),
        (10**40, 10**40),
        (Decimal("1.50"), "1.50"),
        (b"text", "text"),
        (Order("tea"), {"item": "tea", "count": 1}),
    ],
)
async def test_a_message_that_nobody_typed_is_its_json(sent: Any, received: Any) -> None:
    over = runtime(anything)
    await over.start(anything, id=RUN)

    done = await over.send(RUN, "anything", sent)

    assert done.value == received


@loom.flow
async def odd(ctx: loom.Context) -> Any:
    return await ctx.receive("odd", expects=Callable[..., asyncio.Future[Any]])


async def test_an_annotation_that_fits_no_message_fails_the_flow_and_takes_no_message() -> None:
    over = runtime(odd)

    done = await over.start(odd, id=RUN)

    assert done.status == "failed"
    assert done.failure is not None
    assert "InvalidDeclaration" in done.failure.type


@pytest.mark.parametrize("topic", ["", "x" * 201])
async def test_a_topic_is_a_label(topic: str) -> None:
    @loom.flow
    async def listens(ctx: loom.Context) -> None:
        await ctx.receive(topic)

    over = runtime(listens)

    done = await over.start(listens, id=RUN)

    assert done.failure is not None
    assert "InvalidId" in done.failure.type


# In time


@loom.flow
async def patient(ctx: loom.Context) -> str:
    try:
        return str(await ctx.receive("news", timeout=timedelta(minutes=5)))
    except loom.ReceiveTimedOut as late:
        return f"{late.topic} {late.receive}: {late}"


async def test_a_message_that_does_not_come_in_time_raises_the_same_live_and_replayed() -> None:
    clock = VirtualClock()
    over = runtime(patient, clock=clock)
    parked = await over.start(patient, id=RUN, linger_s=0)
    assert parked.wake_at == clock.now_ms() + 300_000

    clock.advance(300_000)
    done = await over.resume(RUN)

    assert done.value == "news news: no message of 'news' came in time"
    assert await kinds(over) == [
        *("STARTED", "MESSAGE_AWAITED", "SUSPENDED", "RESUMED", "MESSAGE_TIMED_OUT", "COMPLETED")
    ]
    left = await cut_off_after(over.storage, 5)
    assert (await runtime(patient, storage=left).resume(RUN)).value == done.value


async def test_a_message_that_came_in_time_is_received_though_the_run_is_driven_late() -> None:
    clock = VirtualClock()
    over = runtime(patient, clock=clock)
    await over.start(patient, id=RUN, linger_s=0)
    await over.send(RUN, "news", "good", drive=False)

    clock.advance(900_000)
    done = await over.resume(RUN)

    assert done.value == "good"


async def test_a_message_after_the_timeout_is_left_unread() -> None:
    clock = VirtualClock()
    over = runtime(again, clock=clock)
    await over.start(again, id=RUN, linger_s=0)
    clock.advance(1_000)
    await over.resume(RUN)

    done = await over.send(RUN, "news", "late")

    assert done.value == ["nothing", "late"]


@loom.flow
async def again(ctx: loom.Context) -> list[str]:
    try:
        first = await ctx.receive("news", timeout=timedelta(seconds=1))
    except loom.ReceiveTimedOut:
        first = "nothing"
    return [first, await ctx.receive("news")]


# Where it was cut off, and where the code has changed


async def test_a_run_cut_off_at_any_event_receives_what_is_left_and_nothing_twice() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)
    for number in (1, 2, 3):
        await over.send(RUN, "numbers", number)

    for length in range(1, len(await over.events(RUN))):
        left = await cut_off_after(over.storage, length)
        told = len([kind for kind in await kinds(runtime(three, storage=left)) if kind == "MESSAGE_RECEIVED"])
        rest = runtime(three, storage=left)
        outcome = await rest.resume(RUN)
        for number in range(told, 3):
            outcome = await rest.send(RUN, "numbers", 10 * number)
        assert outcome.value == [*[1, 2, 3][:told], *(10 * number for number in range(told, 3))]


async def test_a_receive_of_another_topic_under_the_same_name_is_no_replay() -> None:
    def listening(topic: str) -> loom.Flow[Any, Any]:
        @loom.flow(id="listens")
        async def listens(ctx: loom.Context) -> Any:
            return await ctx.receive(topic)

        return listens

    before = listening("a")
    over = runtime(before)
    await over.start(before, id=RUN)

    with pytest.raises(ReplayDivergence):
        await runtime(listening("b"), storage=over.storage).resume(RUN)


@loom.flow
async def tries(ctx: loom.Context) -> Any:
    async def waits(ctx: loom.Context) -> Any:
        return await ctx.receive("numbers")

    async def breaks(ctx: loom.Context) -> None:
        await ctx.suspend("go")
        raise ValueError("broken")

    try:
        await ctx.parallel(waits, breaks)
    except ValueError:
        return await ctx.receive("numbers")


async def test_a_branch_that_is_cut_takes_no_message() -> None:
    over = runtime(tries)
    await over.start(tries, id=RUN)
    await over.resume(RUN, answer=None)

    done = await over.send(RUN, "numbers", 7)

    assert done.value == 7


async def test_a_branch_that_the_record_before_it_fails_takes_no_message() -> None:
    over = runtime(tries)
    await over.start(tries, id=RUN)
    await over.send(RUN, "numbers", 7, drive=False)

    done = await over.resume(RUN, answer=None)

    assert done.value == 7
    assert [kind for kind in await kinds(over) if kind in ("GATE_ANSWERED", "SCOPE_CUT", "MESSAGE_RECEIVED")] == [
        *("GATE_ANSWERED", "SCOPE_CUT", "MESSAGE_RECEIVED")
    ]


# While it is driven


@loom.flow
async def busy(ctx: loom.Context) -> list[int]:
    async def works(ctx: loom.Context) -> None:
        await ctx.run(endless)

    async def listens(ctx: loom.Context) -> list[int]:
        got = [await ctx.receive("numbers", expects=int) for _ in range(3)]
        Released.event.set()
        return got

    _, got = await ctx.parallel(works, listens)
    return got


class Released:
    """What the step waits for."""

    event: asyncio.Event


@loom.step
async def endless() -> None:
    await Released.event.wait()


async def test_a_branch_receives_while_another_one_works() -> None:
    Released.event = asyncio.Event()
    over = runtime(busy)
    driving = asyncio.ensure_future(over.start(busy, id=RUN))
    await _asked(over, "MESSAGE_AWAITED")

    for number in (1, 2, 3):
        assert (await over.send(RUN, "numbers", number)).status == "accepted"

    assert (await driving).value == [1, 2, 3]


class LaneReadings(MemoryStorage):
    """A store that counts how often a lane is read, and how many requests were read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = self.requests = 0

    async def pending(self, *about: Any, above: int = 0) -> Any:
        found = await super().pending(*about, above=above)
        self.readings += 1
        self.requests += len(found)
        return found


async def test_a_message_that_nobody_waits_for_is_read_once_by_a_drive_however_often_it_looks() -> None:
    Released.event = asyncio.Event()
    store = LaneReadings()
    over = runtime(busy, storage=store)
    driving = asyncio.ensure_future(over.start(busy, id=RUN))
    await _asked(over, "MESSAGE_AWAITED")

    for number in range(100):
        await over.send(RUN, "elsewhere", number)
        await _read_up_to(over, number + 1)
    for number in (1, 2, 3):
        await over.send(RUN, "numbers", number)

    assert (await driving).value == [1, 2, 3]
    assert store.readings > 100
    assert store.requests == 103


async def _read_up_to(over: WorkflowRuntime, number: int) -> None:
    [drive] = over._driver.drives.values()
    async with asyncio.timeout(5):
        while drive.requests.seen < number:
            await asyncio.sleep(0)


async def test_a_receive_whose_message_is_there_costs_no_further_reading_of_the_lane() -> None:
    store = LaneReadings()
    over = runtime(later, storage=store)
    await over.start(later, id=RUN)
    for number in (1, 2, 3):
        await over.send(RUN, "numbers", number)
    before = store.readings

    done = await over.resume(RUN, answer=None)

    assert done.value == [1, 2, 3]
    assert store.readings - before == 1


async def _asked(over: WorkflowRuntime, type_: str, count: int = 1) -> None:
    async with asyncio.timeout(5):
        while [event.type for event in await over.events(RUN)].count(type_) < count:
            await asyncio.sleep(0)


async def _life(over: WorkflowRuntime) -> Any:
    head = await over.storage.head(RUN)  # type: ignore[arg-type]  # an id is text
    assert head is not None
    return head.execution_id, head.incarnation
