"""The sweep of contents: what it removes of a store that real runs have used, and what it never does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any, Final

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ContentRef, ExecutionId
from loom.services import sweeping
from loom.services.ageing import SweepTally
from loom.services.pinning import PinsRaised
from loom.services.retention import Retention
from loom.services.sweeping import ContentSweep
from loom.spi.clock import VirtualClock
from loom.spi.content_memory import MemoryContent
from loom.spi.content_store import Citer, Content, address_of
from loom.spi.errors import StoreUnavailable
from loom.spi.memory import MemoryStorage

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
TTL: Final = 30 * DAY
LATER: Final = TTL + 10
"""A little more: a content that is put and cited within one millisecond is touched at two, one after the other."""
fails: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_fails() -> None:
    fails.clear()


@loom.step(claim_check=loom.ClaimCheck(over_bytes=0))
async def fetch(name: str) -> bytes:
    return name.encode()


@loom.step
async def read(step: loom.StepContext, page: loom.Claimed[bytes]) -> str:
    if "read" in fails:
        raise ConnectionError("no")
    return (await step.content.get(page)).decode()


@loom.flow
async def reads(ctx: loom.Context, name: str) -> str:
    return await ctx.run(read, await ctx.run(fetch, name))


@loom.flow
async def waits(ctx: loom.Context, name: str) -> str:
    page = await ctx.run(fetch, name)
    await ctx.suspend("go on")
    return await ctx.run(read, page)


@loom.flow
async def holds(ctx: loom.Context, name: str) -> str:
    await ctx.run(fetch, name)
    await ctx.suspend("go on")
    return "done"


@loom.flow
async def rolls(ctx: loom.Context, turn: int) -> str:
    page = await ctx.run(fetch, f"turn {turn}")
    if turn < 2:
        return await ctx.continue_as_new(turn + 1)
    await ctx.suspend("go on")
    return await ctx.run(read, page)


class Meddled(MemoryContent):
    """Contents that somebody touches between being judged and being removed."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def remove(self, contents: Collection[Content]) -> Collection[ContentRef]:
        if self.meanwhile is not None:
            await self.meanwhile()
        return await super().remove(contents)


class House:
    """A store of logs and one of contents, a runtime on them, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.logs, self.contents = MemoryStorage(clock=self.clock), Meddled(clock=self.clock)
        flows: list[Any] = [reads, waits, holds, rolls, wavers]
        self.app = loom.define_config(flows=flows, storage=self.logs, content=self.contents, clock=self.clock)

    async def start(self, flow: Any, given: Any, id: str) -> Any:
        return await self.app.runtime.start(flow, given, id=id)

    async def answer(self, id: str) -> Any:
        return await self.app.runtime.resume(id, answer=None)

    async def swept(self, *, dry_run: bool = False, ttl_ms: int = TTL, **options: Any) -> SweepTally:
        return await ContentSweep(self.contents, self.logs, ttl_ms=ttl_ms, dry_run=dry_run, **options).run()

    async def left(self) -> set[str]:
        refs = [content.ref for content in await self.contents.contents()]
        return {data.decode() for data in (await self.contents.get_many(refs)).values()}


@pytest.fixture
def house() -> House:
    return House()


async def test_what_nobody_cites_ages_from_when_it_was_put(house: House) -> None:
    await house.contents.put(b"put and never recorded")
    house.clock.advance(TTL)
    assert (await house.swept()).removed == 0
    house.clock.advance(1)

    tally = await house.swept()

    assert (tally.removed, tally.bytes, dict(tally.by)) == (1, 22, {"uncited": 1})
    assert await house.left() == set()


@pytest.mark.proves("LIF-16")
async def test_a_run_that_has_not_ended_keeps_what_it_cites_and_can_still_read_it(house: House) -> None:
    await house.start(waits, "Ada", "r1")
    house.clock.advance(100 * TTL)

    tally = await house.swept()

    assert (tally.removed, dict(tally.kept)) == (0, {"open": 1})
    assert (await house.answer("r1")).result() == "Ada"


@pytest.mark.proves("LIF-16", "CLI-18")
async def test_the_clock_starts_at_the_end_of_the_run(house: House) -> None:
    await house.start(holds, "Ada", "r1")
    await house.start(reads, "Bob", "r2")
    house.clock.advance(TTL)
    await house.answer("r1")
    house.clock.advance(10)

    first = await house.swept()
    house.clock.advance(TTL)
    second = await house.swept()

    assert (first.removed, dict(first.by), dict(first.kept)) == (1, {"citation": 1}, {"held_by_end_clock": 1})
    assert (second.removed, dict(second.by)) == (1, {"end": 1})


@pytest.mark.proves("LIF-16")
async def test_a_run_that_was_opened_again_keeps_the_clock_of_its_citation_and_is_told(house: House) -> None:
    fails.add("read")
    assert (await house.start(reads, "Ada", "r1")).status == "failed"
    house.clock.advance(LATER)
    fails.clear()
    assert (await house.app.runtime.retry("r1")).status == "completed"
    cited = (await house.contents.citations([address_of(b"Ada")]))[0]
    house.clock.advance(DAY)
    # the retry wrote no envelope anew but the argument of its step, which cites: age that, too
    house.contents._kept[address_of(b"Ada")].citers[cited.by] = cited.at - LATER
    house.contents._kept[address_of(b"Ada")].touched_at = cited.at - LATER

    dry, tally = await house.swept(dry_run=True), await house.swept()

    assert dict(dry.by) == dict(tally.by) == {"reopened": 1}
    assert await house.left() == set()


async def test_the_citations_of_a_run_end_with_it(house: House) -> None:
    await house.start(reads, "Ada", "r1")
    house.clock.advance(LATER)
    await Retention(house.logs, ttl_ms=TTL).run()
    await house.start(reads, "Ada", "r2")
    await house.start(reads, "Bob", "r3")
    assert len(await house.contents.citations([address_of(b"Ada")])) == 2

    tally = await house.swept()

    assert (tally.forgotten, tally.removed, dict(tally.kept)) == (1, 0, {"young": 2})
    assert [each.by.execution_id for each in await house.contents.citations([address_of(b"Ada")])] == ["r2"]


async def test_another_life_of_the_id_cites_nothing_of_the_one_before(house: House) -> None:
    await house.start(waits, "Ada", "r1")
    await house.answer("r1")
    house.clock.advance(LATER)
    await Retention(house.logs, ttl_ms=TTL).run()
    await house.start(waits, "Bob", "r1")

    tally = await house.swept()

    assert (tally.removed, dict(tally.by), dict(tally.kept)) == (1, {"uncited": 1}, {"open": 1})
    assert await house.left() == {"Bob"}


async def test_a_link_of_a_chain_keeps_what_it_cites_until_the_chain_has_ended(house: House) -> None:
    await house.start(rolls, 0, "c1")
    house.clock.advance(10 * TTL)
    while_it_lives = await house.swept()
    await house.answer("c1")
    house.clock.advance(LATER)

    tally = await house.swept()

    assert (while_it_lives.removed, dict(while_it_lives.kept)) == (0, {"open": 3})
    assert (tally.removed, dict(tally.by)) == (
        3,
        {"end": 2, "citation": 1},
    )  # the last link hands its page on at its end


class Pins:
    """Names runs and contents that are to stay."""

    def __init__(self, *, runs: Collection[str] = (), contents: Collection[bytes] = ()) -> None:
        self.runs, self.refs = set(runs), {address_of(data) for data in contents}

    async def pinned_runs(self, executions: Sequence[str]) -> Collection[str]:
        return [each for each in executions if each in self.runs]

    async def pinned_contents(self, refs: Sequence[str]) -> Collection[str]:
        return [ref for ref in refs if ref in self.refs]


@pytest.mark.proves("LIF-15")
async def test_what_is_pinned_stays_by_itself_or_with_a_run_and_goes_once_it_is_not(house: House) -> None:
    await house.start(reads, "Ada", "r1")
    await house.start(rolls, 0, "c1")
    await house.answer("c1")
    await house.contents.put(b"Bob")
    house.clock.advance(LATER)
    pins = Pins(runs=["c1"], contents=[b"Bob"])

    first = await house.swept(pins=pins)
    kept = await house.left()
    pins.runs.clear()
    second = await house.swept(pins=pins)
    third = await house.swept()

    assert (first.removed, dict(first.kept)) == (1, {"pinned": 4})
    assert kept == {"Bob", "turn 0", "turn 1", "turn 2"}
    assert (second.removed, dict(second.kept)) == (3, {"pinned": 1})
    assert (third.removed, await house.left()) == (1, set())


@pytest.mark.proves("LIF-15")
async def test_pins_that_raise_are_told_with_their_place_and_nothing_is_deleted_by_them(house: House) -> None:
    class Broken(Pins):
        async def pinned_runs(self, executions: Sequence[str]) -> Collection[str]:
            known: dict[str, str] = {}
            return [known["findings"] for _ in executions]

        async def pinned_contents(self, refs: Sequence[str]) -> Collection[str]:
            raise StoreUnavailable("locked", store="findings")

    await house.start(rolls, 0, "c1")
    await house.answer("c1")
    house.clock.advance(LATER)
    before = await house.left()

    with pytest.raises(
        PinsRaised, match=r"pinned_runs of the pins raised KeyError: 'findings' \(.*test_sweeping.py:\d+"
    ):
        await Retention(house.logs, ttl_ms=TTL, pins=Broken()).run()
    with pytest.raises(StoreUnavailable, match="locked"):
        await house.swept(pins=Broken())

    assert await house.left() == before
    assert await house.logs.row(ExecutionId("c1")) is not None


@pytest.mark.proves("LIF-15")
async def test_a_pinned_run_is_not_deleted_with_all_of_its_family(house: House) -> None:
    await house.start(reads, "Ada", "r1")
    await house.start(rolls, 0, "c1")
    await house.answer("c1")
    house.clock.advance(LATER)

    tally = await Retention(house.logs, ttl_ms=TTL, pins=Pins(runs=["c1~2"])).run()

    assert (tally.runs, dict(tally.kept)) == (1, {"pinned": 1})
    assert (await Retention(house.logs, ttl_ms=TTL, pins=Pins()).run()).runs == 1


@pytest.mark.proves("CLI-18")
async def test_what_is_put_or_cited_between_the_look_and_the_removal_stays(house: House) -> None:
    await house.start(reads, "Ada", "r1")
    await house.contents.put(b"Bob")
    house.clock.advance(2 * TTL)

    async def meanwhile() -> None:
        await house.contents.put(b"Ada")
        await house.start(reads, "Bob", "r2")

    house.contents.meanwhile = meanwhile
    tally = await house.swept()

    assert (tally.removed, dict(tally.kept)) == (0, {"kept_by_touch": 2})
    assert await house.left() == {"Ada", "Bob"}
    assert (await house.app.runtime.load_state("r2")).status == "completed"


@loom.flow
async def wavers(ctx: loom.Context, names: list[str]) -> str:
    pages = [await ctx.run(fetch, name) for name in names]
    await ctx.run("look", _looked)
    await ctx.suspend("go on")
    return " ".join([await ctx.run(read, page) for page in pages])


def _looked() -> None:
    if "look" in fails:
        raise ConnectionError("no")


async def test_a_run_that_is_opened_again_during_a_sweep_keeps_what_the_rest_of_it_comes_to(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "PAGE", 1)
    names = [f"page {number}" for number in range(8)]
    fails.add("look")
    await house.start(wavers, names, "r1")
    fails.clear()
    house.clock.advance(LATER)

    async def opened_again() -> None:
        house.contents.meanwhile = None
        await house.app.runtime.retry("r1")

    house.contents.meanwhile = opened_again
    tally = await house.swept()

    assert (tally.removed, dict(tally.kept)) == (1, {"open": 7})  # the first had been judged by then


async def test_a_sweep_looks_up_once_where_runs_stand_whose_contents_stay(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "PAGE", 1)
    await house.start(waits, "page", "open")
    for number in range(8):
        await house.contents.cite([(await house.contents.put(b"%d" % number), Citer(ExecutionId("open"), None))])
    looked: list[str] = []
    row = house.logs.row

    async def noted(run_id: ExecutionId) -> Any:
        looked.append(run_id)
        return await row(run_id)

    monkeypatch.setattr(house.logs, "row", noted)
    assert dict((await house.swept()).kept) == {"open": 9}

    assert looked == ["open"]


@pytest.mark.proves("LIF-15")
@pytest.mark.parametrize("answer", ["r1", b"r1", None, [1], iter(["r1"])])
@pytest.mark.parametrize("method", ["pinned_runs", "pinned_contents"])
async def test_an_answer_that_pins_nothing_by_a_slip_deletes_nothing(house: House, method: str, answer: object) -> None:
    await house.start(reads, "Ada", "r1")
    house.clock.advance(LATER)
    pins: Any = Pins()

    async def slip(names: Sequence[str]) -> object:
        return answer

    setattr(pins, method, slip)

    with pytest.raises(InvalidDeclaration, match="no collection of texts; nothing was deleted by it"):
        await house.swept(pins=pins)
    if method == "pinned_runs":
        with pytest.raises(InvalidDeclaration, match="no collection of texts; nothing was deleted by it"):
            await Retention(house.logs, ttl_ms=TTL, pins=pins).run()
    assert await house.left() == {"Ada"}
    assert await house.logs.head(ExecutionId("r1")) is not None


async def test_a_predicate_that_is_not_async_is_told(house: House) -> None:
    await house.start(reads, "Ada", "r1")
    house.clock.advance(LATER)
    pins: Any = Pins()
    pins.pinned_runs = list

    with pytest.raises(InvalidDeclaration, match="no async def"):
        await Retention(house.logs, ttl_ms=TTL, pins=pins).run()


@pytest.mark.proves("CLI-18")
async def test_what_was_touched_lately_is_counted_and_stays_however_short_the_policy(house: House) -> None:
    await house.start(reads, "Ada", "r1")
    house.clock.advance(HOUR // 2)

    tally = await house.swept(ttl_ms=60_000)

    assert (tally.removed, dict(tally.kept)) == (0, {"kept_by_touch": 1})
    house.clock.advance(HOUR // 2 + 10)
    assert (await house.swept(ttl_ms=60_000)).removed == 1


async def history(house: House, rng: random.Random) -> None:
    """Let a hundred days go by with runs that begin, wait, end, fail, are retried and deleted."""
    waiting: list[str] = []
    failed: list[str] = []
    for number in range(60):
        house.clock.advance(rng.randrange(3 * DAY))
        what, name = rng.randrange(7), f"page {rng.randrange(25)}"
        if what < 2:
            await house.start(reads, name, f"r{number}")
        elif what == 2:
            await house.start(waits, name, f"r{number}")
            waiting.append(f"r{number}")
        elif what == 3 and waiting:
            await house.answer(waiting.pop(rng.randrange(len(waiting))))
        elif what == 4:
            fails.add("read")
            await house.start(reads, name, f"r{number}")
            fails.clear()
            failed.append(f"r{number}")
        elif what == 5 and failed:
            run = failed.pop(rng.randrange(len(failed)))
            if await house.logs.head(ExecutionId(run)) is not None:
                await house.app.runtime.retry(run)
        else:
            await house.contents.put(name.encode())
            if rng.random() < 0.3:
                await Retention(house.logs, ttl_ms=TTL).run()


@pytest.mark.proves("CLI-18", "LIF-16")
@pytest.mark.parametrize("round_", range(8))
async def test_a_dry_run_says_what_the_real_one_does_and_every_run_stays_whole(seed: int, round_: int) -> None:
    house, rng = House(), random.Random(seed + round_)
    await history(house, rng)
    before = {run: await house.app.runtime.load_state(run) for run in await house.logs.ids()}
    contents = await house.contents.contents()

    dry = await house.swept(dry_run=True)
    assert await house.contents.contents() == contents
    real = await house.swept()
    again = await house.swept()

    assert asdict(dry) == asdict(real)
    assert (again.removed, again.looked_at) == (0, real.looked_at - real.removed)
    for run, state in before.items():
        assert await house.app.runtime.load_state(run) == state
        if state.status == "suspended":
            assert (await house.answer(run)).status == "completed"  # what an open run cites can be read


async def test_a_sweep_can_be_stopped_between_two_pages_and_tells_how_far_it_is(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loom.services.sweeping.PAGE", 3)
    for number in range(10):
        await house.contents.put(b"%d" % number)
    house.clock.advance(LATER)
    sweep = ContentSweep(house.contents, house.logs, ttl_ms=TTL)
    told: list[int] = []

    def tell(tally: SweepTally) -> None:
        told.append(tally.removed)
        if len(told) == 2:
            sweep.stop()

    tally = await sweep.run(told=tell)

    assert told == [3, 6]
    assert (tally.looked_at, tally.removed, len(await house.left())) == (6, 6, 4)
    assert (await house.swept()).removed == 4


async def test_two_sweeps_at_once_remove_everything_once(house: House) -> None:
    for number in range(50):
        await house.contents.put(b"%d" % number)
    house.clock.advance(LATER)

    tallies = await asyncio.gather(house.swept(), house.swept())

    assert sum(tally.removed for tally in tallies) == 50
    assert await house.left() == set()
