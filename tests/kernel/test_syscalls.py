"""Each syscall in three situations: the first run parks, a replay serves its record, a replay still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import loom
from loom.kernel.drive import Drive
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Storage
from tests.kernel.running import RUN, kinds, records, runtime

Ask = Callable[[loom.Context], Awaitable[Any]]
NOW_MS = 1_700_000_000_000
HOUR = timedelta(hours=1)
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.step(retry=loom.Retry(attempts=2, delay=HOUR, delay_max=HOUR))
async def rests(name: str) -> str:
    ran.append(name)
    if len(ran) == 1:
        raise ConnectionError(name)
    return name


@loom.step(idempotent=False, timeout=timedelta(milliseconds=10))
async def doubtful(name: str) -> str:
    ran.append(name)
    await asyncio.sleep(10)
    return name


def chooses(candidates: list[str]) -> str:
    ran.append("chosen")
    return candidates[-1]


async def pieces() -> Any:
    for piece in ("a", "b"):
        ran.append(piece)
        yield piece


async def asks(ctx: loom.Context, item: str) -> Any:
    return await ctx.suspend("gate", expects=str, show=item)


async def works(ctx: loom.Context, item: str) -> Any:
    return await ctx.run(work, item)


AT_ONCE: dict[str, tuple[Ask, Any, int]] = {
    "run": (lambda c: c.run(work, "x"), "x", 1),
    "run by label": (lambda c: c.run("label", work.fn, "x"), "x", 1),
    "run under a name": (lambda c: c.run(work.named("n"), "x"), "x", 1),
    "run under a key": (lambda c: c.run(work.keyed("k"), "x"), "x", 1),
    "execute": (lambda c: c.execute("work", {"name": "x"}), "x", 1),
    "decide": (lambda c: c.decide("pick", chooses, ["a", "b"]), "b", 1),
    "emit": (lambda c: c.emit("made", {"a": 1}), None, 0),
    "stream": (lambda c: c.stream("words", pieces()), ["a", "b"], 2),
    "parallel": (lambda c: c.parallel(lambda b: works(b, "x"), lambda b: works(b, "y")), ("x", "y"), 2),
    "parallel by name": (lambda c: c.parallel({"l": lambda b: works(b, "x")}), {"l": "x"}, 1),
    "parallel of nothing": (lambda c: c.parallel(), (), 0),
    "map": (lambda c: c.map(works, ["x", "y"], limit=1), ["x", "y"], 2),
    "map of a step": (lambda c: c.map(work, ["x", "y"]), ["x", "y"], 2),
    "map of nothing": (lambda c: c.map(work, []), [], 0),
    "sleep that is over": (lambda c: c.sleep(0), None, 0),
    "sleep until the past": (lambda c: c.sleep_until(datetime(2000, 1, 1, tzinfo=UTC)), None, 0),
}
"""What needs nobody: how it is asked, its value, and how many effects it has."""

WAITS: dict[str, tuple[Ask, Any, str | None]] = {
    "suspend": (lambda c: c.suspend("gate", expects=str), "answer", "gate"),
    "suspend with a timeout": (lambda c: c.suspend("gate", expects=str, timeout=HOUR), "answer", "gate"),
    "sleep": (lambda c: c.sleep(HOUR), None, None),
    "sleep_until": (lambda c: c.sleep_until(datetime.fromtimestamp(NOW_MS / 1000 + 60, UTC)), None, None),
    "run that rests": (lambda c: c.run(rests, "x"), "x", None),
    "parallel": (lambda c: c.parallel(lambda b: asks(b, "x"), lambda b: works(b, "y")), ("answer", "y"), "gate"),
    "map": (lambda c: c.map(asks, ["x"]), ["answer"], "gate"),
}
"""What has to wait: how it is asked, its value, and which gate it waits at (None: for time)."""


def asking(ask: Ask) -> loom.Flow[[], Any]:
    @loom.flow(id="asking")
    async def flow(ctx: loom.Context) -> Any:
        value = await ask(ctx)
        ran.append(f"served at {ctx.now().timestamp()} {ctx.random()}")
        return [value, await ctx.suspend("after")]

    return flow


def process(flow: loom.Flow[[], Any], clock: VirtualClock, storage: Storage | None = None) -> Any:
    return runtime(flow, storage=storage, clock=clock, steps=[work])


def effects() -> int:
    return sum(not line.startswith("served") for line in ran)


@pytest.mark.proves("SYS-01", "EFF-01")
@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize(("ask", "value", "count"), AT_ONCE.values(), ids=AT_ONCE)
async def test_what_needs_nobody_runs_once_and_is_served(ask: Ask, value: Any, count: int, resident: bool) -> None:
    clock, flow = VirtualClock(), asking(ask)
    over = process(flow, clock)

    parked = await over.start(flow, id=RUN)
    before = await records(over.storage)
    for _ in range(3):
        waiting = await process(flow, clock, over.storage).resume(RUN)
        assert waiting.status == "suspended"
        clock.advance(5_000)
    assert await records(over.storage) == before, "a replay that still waits writes nothing"
    outcome = await (over if resident else process(flow, clock, over.storage)).resume(RUN, answer=1)

    assert [gate.gate for gate in parked.gates] == ["after"]
    assert outcome.value == [value, 1]
    assert effects() == count
    assert len({line for line in ran if line.startswith("served")}) == 1


@pytest.mark.parametrize(("ask", "value", "gate"), WAITS.values(), ids=WAITS)
async def test_what_waits_parks_waits_again_and_is_served(ask: Ask, value: Any, gate: str | None) -> None:
    clock, flow = VirtualClock(), asking(ask)
    over = process(flow, clock)

    parked = await over.start(flow, id=RUN)
    before, effects_before = await records(over.storage), effects()
    waiting = await process(flow, clock, over.storage).resume(RUN)
    assert await records(over.storage) == before, "a replay that still waits writes nothing"
    assert effects() == effects_before
    if gate is None:
        clock.advance(3_600_000)
        moved = await process(flow, clock, over.storage).resume(RUN)
    else:
        moved = await process(flow, clock, over.storage).resume(RUN, answer="answer", gate=gate)
    outcome = await process(flow, clock, over.storage).resume(RUN, answer=1)

    assert (parked.status, waiting.status) == ("suspended", "suspended")
    assert parked.wake_at == waiting.wake_at
    assert [open_gate.gate for open_gate in moved.gates] == ["after"]
    assert outcome.value == [value, 1]
    assert len({line for line in ran if line.startswith("served")}) == 1
    assert (await kinds(over)).count("SUSPENDED") == 2


async def test_a_step_in_doubt_parks_waits_again_and_is_served() -> None:
    clock, flow = VirtualClock(), asking(lambda c: c.run(doubtful, "x"))
    over = process(flow, clock)

    parked = await over.start(flow, id=RUN)
    waiting = await process(flow, clock, over.storage).resume(RUN)
    moved = await process(flow, clock, over.storage).resolve(RUN, "doubtful", "done", value="by hand")
    outcome = await process(flow, clock, over.storage).resume(RUN, answer=1)

    assert (parked.status, waiting.status, moved.status) == ("in_doubt", "in_doubt", "suspended")
    assert outcome.value == ["by hand", 1]
    assert effects() == 1


@pytest.mark.parametrize("wrong", [-1, timedelta(days=-1)])
async def test_a_sleep_into_the_past_is_refused(wrong: Any) -> None:
    flow = asking(lambda c: c.sleep(wrong))

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.failure is not None
    assert outcome.failure.type == "loom.InvalidDeclaration"


async def test_a_time_without_its_zone_is_refused() -> None:
    flow = asking(lambda c: c.sleep_until(datetime(2030, 1, 1)))  # noqa: DTZ001  # what is refused

    assert (await runtime(flow).start(flow, id=RUN)).status == "failed"


async def test_a_drive_that_waits_in_place_does_nothing_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    look = Drive.idle

    async def counted(drive: Drive) -> bool:
        looks.append(None)
        return await look(drive)

    monkeypatch.setattr(Drive, "idle", counted)

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.sleep(0.3)
        await asyncio.sleep(0.3)

    await runtime(flow).start(flow, id=RUN)

    assert len(looks) < 10


@pytest.mark.parametrize("linger_s", [0, 30])
async def test_a_short_sleep_is_waited_for_in_place_or_parks_and_is_the_same(linger_s: int) -> None:
    clock = VirtualClock()

    @loom.flow
    async def flow(ctx: loom.Context) -> list[float]:
        begun = ctx.now()
        await ctx.sleep(20)
        return [(ctx.now() - begun).total_seconds()]

    over = runtime(flow, clock=clock)
    running = asyncio.create_task(over.start(flow, id=RUN, linger_s=linger_s))
    while not running.done() and clock.next_due_ms is None:
        await asyncio.sleep(0)
    waits_in_place = not running.done()
    clock.advance(20_000)
    outcome = await running
    if outcome.status == "suspended":
        outcome = await over.resume(RUN, linger_s=linger_s)

    assert waits_in_place == (linger_s == 30)
    assert outcome.value == [20.0]


@pytest.mark.proves("SYS-08")
async def test_a_timer_fires_once_even_when_two_look_at_once() -> None:
    clock, flow = VirtualClock(), asking(lambda c: c.sleep(timedelta(days=30)))
    over = process(flow, clock)
    await over.start(flow, id=RUN)
    clock.advance(30 * 24 * 3_600_000)

    outcomes = await asyncio.gather(
        over.resume(RUN), over.resume(RUN), process(flow, clock, over.storage).resume(RUN), return_exceptions=True
    )

    assert any(isinstance(each, loom.Outcome) for each in outcomes)
    assert (await kinds(over)).count("TIMER_FIRED") == 1
    assert (await over.load_state(RUN)).status == "suspended"
