"""How runs begin that may have to wait: what their logs show, whoever starts, drives and ends them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.errors import InvalidDeclaration
from loom.spi.admission_store import AdmissionStore
from loom.spi.event_store import ExecutionQuery
from loom.spi.memory import MemoryStorage
from loom.values import InvalidPayload
from tests.driving.lined import MINUTE, MINUTE_MS, ONE, TWO, World, begun, ran, shipping
from tests.kernel.running import kinds, payloads


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


# -- places --------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-15")
async def test_a_run_over_the_limit_is_written_with_why_it_waits_and_runs_nothing() -> None:
    world = World(TWO)
    for name in ("a", "b"):
        await world.start(name)

    waits = await world.start("c")

    assert (waits.status, waits.reason) == ("suspended", "a place among 2 runs of customer c-1")
    assert await kinds(world.over, "c") == ["STARTED", "SUSPENDED"]
    [suspended] = await payloads(world.over, "EXECUTION_SUSPENDED", "c")
    assert (suspended.wake_at, suspended.why) == (None, waits.reason)
    assert ran == ["a", "b"]


@pytest.mark.proves("BEY-15")
async def test_it_waits_in_every_process_until_a_place_is_free_and_then_begins() -> None:
    world = World(TWO)
    for name in ("a", "b", "c"):
        await world.start(name)
    elsewhere = world.process()

    still = await elsewhere.resume("c", linger_s=0.0)
    await elsewhere.resume("a", answer="yes")
    await elsewhere.settled()
    after = await elsewhere.resume("c", linger_s=0.0)

    assert still.reason == "a place among 2 runs of customer c-1"
    assert begun(after)
    assert (await kinds(world.over, "c"))[:4] == ["STARTED", "SUSPENDED", "RESUMED", "STEP_STARTED"]
    assert ran == ["a", "b", "c"]


@pytest.mark.proves("BEY-15")
async def test_the_process_in_which_a_run_has_ended_goes_on_with_the_next() -> None:
    world = World(ONE)
    for name in ("a", "b", "c"):
        await world.start(name)

    await world.end("a")

    assert ran == ["a", "b"]
    await world.end("b")
    assert ran == ["a", "b", "c"]


async def test_other_customers_have_places_of_their_own() -> None:
    world = World(TWO)
    for name in ("a", "b", "c"):
        await world.start(name)

    assert begun(await world.start("d", "c-2"))


@pytest.mark.parametrize("ends", ["completed", "failed", "cancelled", "forced"])
async def test_a_place_is_free_however_its_run_has_ended(ends: str) -> None:
    world = World(ONE)
    await world.start("a")
    await world.start("b")

    match ends:
        case "completed":
            await world.end("a")
        case "failed":
            await world.over.resume("a", answer="broken")
        case _:
            await world.over.cancel("a", force=ends == "forced")
    await world.over.settled()

    assert begun(await world.resume("b"))


async def test_a_failed_run_that_is_tried_again_needs_a_place_again() -> None:
    world = World(ONE)
    await world.start("a")
    await world.over.resume("a", answer="broken")
    await world.start("b")

    waits = await world.over.retry("a", linger_s=0.0)
    await world.end("b")
    again = await world.over.load_state("a")

    assert (waits.status, waits.reason) == ("suspended", "a place among 1 run of shipping")
    assert again.status == "failed"
    assert (await kinds(world.over, "a"))[-5:] == ["FAILED", "RETRIED", "SUSPENDED", "RESUMED", "FAILED"]


async def test_one_that_was_tried_again_with_a_place_free_goes_on() -> None:
    world = World(ONE)
    await world.start("a")
    await world.over.resume("a", answer="broken")

    assert (await world.over.retry("a")).status == "failed"
    assert begun(await world.start("b"))


@pytest.mark.proves("BEY-15")
async def test_a_run_that_waits_is_cancelled_without_having_begun() -> None:
    world = World(ONE)
    await world.start("a")
    await world.start("b")

    outcome = await world.over.cancel("b", reason="not needed", principal="ada")

    assert (outcome.status, outcome.reason) == ("cancelled", "not needed")
    assert await kinds(world.over, "b") == ["STARTED", "SUSPENDED", "CANCELLED"]
    assert ran == ["a"]


async def test_a_run_that_waits_past_its_deadline_ends() -> None:
    world = World(ONE)
    await world.start("a")
    waits = await world.start("b", deadline=MINUTE)
    world.clock.advance(MINUTE_MS)

    outcome = await world.resume("b")

    assert waits.wake_at == world.clock.now_ms()
    assert outcome.status == "cancelled"
    [cancelled] = await payloads(world.over, "EXECUTION_CANCELLED", "b")
    assert cancelled.cause == "deadline"


async def test_a_paused_run_is_passed_over_and_waits_again_when_it_may_go_on() -> None:
    world = World(ONE)
    for name in ("a", "b", "c"):
        await world.start(name)
    await world.over.pause("b")
    await world.end("a")

    assert begun(await world.resume("c"))
    waits = await world.over.unpause("b")

    assert (waits.status, waits.reason) == ("suspended", "a place among 1 run of shipping")


async def test_messages_are_kept_for_a_run_that_waits() -> None:
    world = World(ONE)
    await world.start("a")
    await world.start("b")

    sent = await world.over.send("b", "news", "soon")

    assert sent.status == "accepted"
    assert (await world.resume("b")).reason == "a place among 1 run of shipping"


async def test_runs_that_began_before_the_limit_was_declared_go_on_and_count() -> None:
    world = World(loom.flow(id="shipping")(shipping))
    await world.start("old")
    world.flow = ONE
    world.over = world.process()

    assert begun(await world.resume("old"))
    assert (await world.start("new")).reason == "a place among 1 run of shipping"


@pytest.mark.proves("BEY-15")
async def test_of_many_started_at_once_two_a_customer_begin() -> None:
    world = World(TWO)

    await asyncio.gather(*(world.start(f"{number}", f"c-{number % 3}") for number in range(30)))

    assert Counter(int(name) % 3 for name in ran) == {0: 2, 1: 2, 2: 2}


OPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "break", "retry", "resume", "cancel", "sweep", "process"]), st.integers(0, 9)
    ),
    max_size=25,
)


@pytest.mark.proves("BEY-15")
@settings(max_examples=40, deadline=None)
@given(ops=OPS)
def test_never_more_than_two_a_customer_whatever_happens_and_in_the_end_all_have_begun(
    ops: Sequence[tuple[str, int]],
) -> None:
    asyncio.run(_lived(ops))


async def _lived(ops: Sequence[tuple[str, int]]) -> None:
    world = World(TWO)
    names: list[str] = []
    for op, number in ops:
        if op == "start":
            names.append(f"r{len(names)}")
            await world.start(names[-1], f"c-{number % 2}")
        elif op == "process":
            world.over = world.process()
        elif names:
            await _do(world, op, names[number % len(names)])
        assert max((await _under_way(world)).values(), default=0) <= 2
    await _all_begin(world)


async def _do(world: World, op: str, name: str) -> None:
    status = (await world.over.load_state(name)).status
    gates = (await world.over.load_state(name)).gates
    if op == "sweep":
        await world.storage.sweep_lines()
    elif op == "retry" and status == "failed":
        await world.over.retry(name, linger_s=0.0)
    elif op in ("end", "break") and gates:
        await world.over.resume(name, answer="yes" if op == "end" else "broken")
    elif op == "cancel" and status == "suspended":
        await world.over.cancel(name)
    elif op == "resume" and status == "suspended":
        await world.resume(name)
    await world.over.settled()


async def _under_way(world: World) -> Counter[str]:
    """Return how many of each customer have begun, by their logs, and have not ended."""
    counts: Counter[str] = Counter()
    for row in await world.over.find(ExecutionQuery(ended=False)):
        state = await world.over.load_state(row.execution_id)
        if state.gates:
            counts[state.facts.input["customer"]] += 1
    return counts


async def _all_begin(world: World) -> None:
    """End what has begun, and take up who is called, until nobody is left."""
    for _ in range(100):
        if not (rows := await world.over.find(ExecutionQuery(ended=False))):
            return
        for row in rows:
            if (await world.over.load_state(row.execution_id)).gates:
                await world.end(row.execution_id)
        claims = await world.storage.claim("worker", lease_ms=1, limit=100)
        await world.storage.leave("worker", {claim.row.execution_id: 0 for claim in claims})
        for claim in claims:
            await world.resume(claim.row.execution_id)
    raise AssertionError("somebody waits, and nobody is called")


# -- what is refused, and what costs nothing ----------------------------------------------------------------------------


@pytest.mark.proves("BEY-15")
@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"id": "a"}, "customer: is not there; runs of shipping are told apart by it"),
        ({"id": "a", "customer": None}, "customer: is null"),
        ({"id": "a", "customer": {"id": 1, "name": "x"}}, "customer: has parts"),
    ],
)
async def test_an_input_without_the_key_is_refused_and_nothing_is_written(order: dict[str, Any], told: str) -> None:
    world = World(TWO)

    with pytest.raises(InvalidPayload, match=told):
        await world.over.start(TWO, order, id="a")

    assert await world.storage.ids() == []


async def test_a_store_that_keeps_no_lines_is_refused() -> None:
    class Bare(MemoryStorage):
        join_lines = None  # type: ignore[assignment]

        def __getattribute__(self, name: str) -> Any:
            if name in ("join_lines", "admit", "leave_lines", "sweep_lines", "admissions"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    world = World(ONE, Bare)

    with pytest.raises(InvalidDeclaration, match="keeps no lines, and runs of shipping stand in some"):
        await world.start("a")


class Counting(MemoryStorage):
    """A store that counts what it is asked about lines."""

    asked: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name in dir(AdmissionStore) and not name.startswith("_"):
            Counting.asked += 1
        return super().__getattribute__(name)


@pytest.mark.proves("BEY-15")
async def test_a_flow_that_declares_nothing_asks_the_store_nothing() -> None:
    world = World(loom.flow(id="shipping")(shipping), Counting)
    Counting.asked = 0

    await world.start("a")
    await world.resume("a")
    await world.over.resume("a", answer="broken")
    await world.over.retry("a")

    assert Counting.asked == 0
