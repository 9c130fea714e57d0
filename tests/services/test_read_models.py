"""Rows of read models: kept current by whoever is there, the same whoever folds, and nothing that a run would notice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, first, in_chain
from loom.plugins.sqlite import SqliteStorage
from loom.services import read_models
from loom.services.read_models import Keeping, ReadModelFailed, ReadModelLacksEvents, ReadModels, UnknownReadModel
from loom.services.worker import Report
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, Storage
from loom.spi.memory import MemoryStorage
from tests.services.test_worker import until, working

FOLDED: Counter[str] = Counter()
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    FOLDED.clear()
    BROKEN.clear()
    step = read_models._Kept.step

    def counted(self: Any, row: Any, event: Any) -> Any:
        FOLDED[event.execution_id] += self.model is totals
        return step(self, row, event)

    monkeypatch.setattr(read_models._Kept, "step", counted)


@dataclass(frozen=True)
class Totals:
    flow: str
    steps: int = 0
    last: str = ""


@loom.read_model
def totals(row: Totals | None, event: loom.EventEnvelope[Any]) -> Totals | None:
    if event.execution_id in BROKEN and event.type == "STEP_COMPLETED":
        raise ValueError("a fold that breaks \ud800")
    if event.type == "EXECUTION_STARTED":
        return Totals(event.payload.flow)
    if row is None:
        return None
    return replace(row, steps=row.steps + (event.type == "STEP_COMPLETED"), last=event.type)


@loom.read_model(id="only.refunds")
def refunds(row: dict[str, Any] | None, event: loom.EventEnvelope[Any]) -> dict[str, Any] | None:
    if event.type == "EXECUTION_STARTED" and event.payload.flow == "refund":
        return {"input": event.payload.input}
    return row


@loom.step
async def work(number: int) -> int:
    return number


@loom.flow
async def refund(ctx: loom.Context, number: int) -> int:
    await ctx.run(work, number)
    await ctx.suspend("approval")
    return await ctx.run(work, number + 1)


@loom.flow
async def other(ctx: loom.Context) -> int:
    return await ctx.run(work, 1)


def app_on(storage: Storage, *models: loom.ReadModel[Any], **options: Any) -> loom.LoomApp:
    chosen: Sequence[loom.ReadModel[Any]] = models or (totals, refunds)
    return loom.define_config(flows=[refund, other], read_models=chosen, storage=storage, **options)


async def kept(app: loom.LoomApp, model: loom.ReadModel[Any] = totals) -> dict[str, Any]:
    return {row.execution_id: row.value async for row in app.read_models.rows(model)}


@pytest.fixture
async def app() -> AsyncIterator[loom.LoomApp]:
    async with app_on(MemoryStorage()) as app:
        yield app


async def test_a_row_is_what_the_fold_made_of_the_events(app: loom.LoomApp) -> None:
    await app.runtime.start(refund, 5, id="r-1")
    await app.runtime.start(other, id="o-1")

    done = await app.read_models.catch_up()

    assert (done.advanced, list(done.faults)) == (4, [])
    assert await kept(app) == {
        "r-1": Totals("refund", 1, "EXECUTION_SUSPENDED"),
        "o-1": Totals("other", 1, "EXECUTION_COMPLETED"),
    }
    assert await kept(app, refunds) == {"r-1": {"input": 5}}
    row = await app.read_models.row(totals, "r-1")
    assert row is not None
    assert row.sequence == (await app.runtime.load_state("r-1")).sequence
    assert await app.read_models.row(refunds, "o-1") is None
    assert [row.execution_id async for row in app.read_models.rows(totals, prefix="o")] == ["o-1"]


async def test_each_event_is_folded_once(app: loom.LoomApp) -> None:
    await app.runtime.start(refund, 5, id="r-1")
    await app.read_models.catch_up(totals)
    await app.runtime.resume("r-1", answer=None)

    assert (await app.read_models.catch_up("totals")).advanced == 1
    assert (await app.read_models.catch_up(totals)).advanced == 0

    assert FOLDED["r-1"] == len(await app.runtime.events("r-1"))
    assert (await kept(app))["r-1"] == Totals("refund", 2, "EXECUTION_COMPLETED")


async def test_a_worker_keeps_them_current_while_it_drives(app: loom.LoomApp) -> None:
    await app.runtime.enqueue(refund, 5, id="r-1")

    async def is_at(row: Totals) -> bool:
        return (await kept(app)).get("r-1") == row

    async with working(app):
        await until(lambda: is_at(Totals("refund", 1, "EXECUTION_SUSPENDED")))
        await app.runtime.resume("r-1", answer=None)
        await until(lambda: is_at(Totals("refund", 2, "EXECUTION_COMPLETED")))


async def test_a_worker_that_ends_when_nothing_is_left_leaves_nothing_behind(app: loom.LoomApp) -> None:
    await app.runtime.start(other, id="before")
    await app.runtime.enqueue(refund, 5, id="r-1")

    await app.worker(until_idle=True).run()

    assert sorted(await kept(app)) == ["before", "r-1"]
    assert [behind for name in app.read_models.versions for behind in await _behind(app, name)] == []


async def _behind(app: loom.LoomApp, name: str) -> Any:
    assert isinstance(app.storage, MemoryStorage)
    return await app.storage.behind(name, app.read_models.versions[name])


async def test_what_nobody_noted_is_caught_up_with_after_a_restart(tmp_path: Path) -> None:
    async with app_on(SqliteStorage(tmp_path / "loom.db")) as app:
        await app.runtime.start(refund, 5, id="r-1")
        await app.read_models.catch_up()
        await app.runtime.start(other, id="o-1")

    async with app_on(SqliteStorage(tmp_path / "loom.db")) as app:
        assert await kept(app) == {"r-1": Totals("refund", 1, "EXECUTION_SUSPENDED")}
        await app.worker(until_idle=True).run()
        assert sorted(await kept(app)) == ["o-1", "r-1"]


async def converging(open_store: Callable[[], Storage]) -> None:
    """Have two nodes drive, and fold all the while; what they come to is what a fold of each log comes to."""
    nodes = [app_on(open_store(), totals) for _ in range(2)]
    going = True

    async def fold_on(app: loom.LoomApp) -> None:
        while going:
            await asyncio.gather(app.read_models.catch_up(), app.read_models.advance())

    folding = [asyncio.create_task(fold_on(app)) for app in nodes]
    for number in range(10):
        await asyncio.gather(*(app.runtime.start(refund, number, id=f"{n}-{number}") for n, app in enumerate(nodes)))
        await asyncio.gather(*(app.runtime.resume(f"{1 - n}-{number}", answer=None) for n, app in enumerate(nodes)))
    going = False
    await asyncio.gather(*folding)
    await asyncio.gather(*(app.read_models.catch_up() for app in nodes))

    rows = [await kept(app) for app in nodes]
    assert (
        rows[0]
        == rows[1]
        == {f"{n}-{m}": Totals("refund", 2, "EXECUTION_COMPLETED") for n in (0, 1) for m in range(10)}
    )
    for app in nodes:
        await app.close()


@pytest.mark.proves("STO-09")
async def test_two_nodes_that_fold_at_once_come_to_the_same_rows(tmp_path: Path) -> None:
    await converging(lambda: SqliteStorage(tmp_path / "loom.db"))


@given(cuts=st.lists(st.integers(1, 12), max_size=6))
def test_wherever_a_fold_is_taken_up_again_it_comes_to_the_same(cuts: list[int]) -> None:
    asyncio.run(_cut(sorted(set(cuts))))


async def _cut(cuts: list[int]) -> None:
    async with app_on(MemoryStorage()) as source:
        await source.runtime.start(refund, 5, id="r-1")
        await source.runtime.resume("r-1", answer=None)
        await source.read_models.catch_up()
        records = list(await source.storage.read(ExecutionId("r-1")))
        whole = await kept(source)
    async with app_on(MemoryStorage()) as copy:
        at, life = 0, None
        for stop in [*(cut for cut in cuts if cut < len(records)), len(records)]:
            begun = first(ExecutionId("r-1"), index=in_chain(ExecutionId("r-1"), INDEX))
            item: Append = replace(begun, incarnation=life, expected=at, events=records[at:stop], append_id=f"{at}")
            [result] = await copy.storage.append([item])
            at, life = stop, result.incarnation  # type: ignore[union-attr]  # it fits
            await copy.read_models.catch_up()
        assert await kept(copy) == whole


async def test_a_fold_that_raises_stops_its_row_and_nothing_else(app: loom.LoomApp) -> None:
    BROKEN.add("r-1")
    told: list[Report] = []
    await app.runtime.enqueue(refund, 5, id="r-1")
    await app.runtime.enqueue(other, id="o-1")

    await app.worker(until_idle=True, told=told.append).run()
    await app.worker(until_idle=True).run()

    rows = await kept(app)
    assert rows["o-1"].steps == 1
    assert rows.get("r-1", Totals("refund")).steps == 0
    assert await kept(app, refunds) == {"r-1": {"input": 5}}
    assert (await app.runtime.load_state("r-1")).status == "suspended"
    [report] = [report for report in told if report.did == "failing"]
    assert isinstance(report.error, ReadModelFailed)
    assert report.execution_id == "r-1"
    assert "the read model totals stops at event" in str(report.error)
    assert "ValueError: a fold that breaks" in str(report.error)
    BROKEN.clear()
    assert (await app.read_models.catch_up()).advanced == 1
    assert (await kept(app))["r-1"].steps == 1


async def test_a_row_that_cannot_be_kept_is_told_of(app: loom.LoomApp) -> None:
    @loom.read_model
    def odd(row: Any, event: loom.EventEnvelope[Any]) -> Any:
        return object()

    models = ReadModels(app.storage, [odd])
    await app.runtime.start(other, id="o-1")

    done = await models.catch_up()

    [fault] = done.faults
    assert "the read model odd stops at event" in str(fault)


async def test_other_code_has_rows_of_its_own(app: loom.LoomApp) -> None:
    @loom.read_model(id="totals")
    def later(row: Totals | None, event: loom.EventEnvelope[Any]) -> Totals | None:
        return Totals("later", 1)

    await app.runtime.start(other, id="o-1")
    await app.read_models.catch_up(totals)
    other_app = app_on(app.storage, later)

    assert other_app.read_models.versions["totals"] != app.read_models.versions["totals"]
    assert await kept(other_app, later) == {}
    await other_app.read_models.catch_up()
    assert await kept(other_app, later) == {"o-1": Totals("later", 1)}
    assert await kept(app) == {"o-1": Totals("other", 1, "EXECUTION_COMPLETED")}


@pytest.mark.proves("STO-11")
async def test_erasing_one_subject_takes_its_rows_and_folds_no_others_again(app: loom.LoomApp) -> None:
    for number in range(6):
        await app.runtime.start(other, id=f"o-{number}", attributes={"customer": f"c{number % 2}"})
    await app.read_models.catch_up()
    before, folded = await kept(app), FOLDED.copy()
    assert isinstance(app.storage, MemoryStorage)

    erased = await app.storage.erase_model_rows([ExecutionId(f"o-{number}") for number in (1, 3, 5)])
    await app.worker(until_idle=True).run()

    assert erased == 3
    assert await kept(app) == {name: row for name, row in before.items() if name in ("o-0", "o-2", "o-4")}
    assert folded == FOLDED


async def test_what_was_noted_is_noted_still_where_the_store_could_not_be_reached(
    app: loom.LoomApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.runtime.start(other, id="o-1")
    told: list[loom.LoomError] = []

    async def fall(*given: Any, **more: Any) -> Any:
        raise StoreUnavailable("it fell", store="memory:")

    with monkeypatch.context() as falling:
        falling.setattr(MemoryStorage, "behind", fall)
        for _ in range(2):
            await Keeping(app.read_models).finish(told.append, thoroughly=False)

    assert [type(error) for error in told] == [StoreUnavailable] * 2
    assert (await app.read_models.advance()).advanced == 2


async def test_a_log_that_was_begun_anew_meanwhile_is_left_to_the_next_pass(app: loom.LoomApp) -> None:
    await app.runtime.start(other, id="o-1")
    models = ReadModels(app.storage, [totals])
    assert isinstance(app.storage, MemoryStorage)
    [behind] = await app.storage.behind("totals", models.versions["totals"])
    log = app.storage._kept.by_id[ExecutionId("o-1")]
    app.storage._kept.forget(log)

    assert await models._fold(models._kept("totals"), behind) is None


async def test_a_log_whose_events_were_moved_away_is_told_of(app: loom.LoomApp) -> None:
    await app.runtime.start(other, id="o-1")
    assert isinstance(app.storage, MemoryStorage)
    del app.storage._kept.by_id[ExecutionId("o-1")].events[1:3]

    done = await app.read_models.catch_up(totals)

    [fault] = done.faults
    assert isinstance(fault, ReadModelLacksEvents)
    assert fault.sequence == 1


async def test_what_the_app_does_not_have_is_refused_in_words(app: loom.LoomApp) -> None:
    with pytest.raises(UnknownReadModel, match=r"no read model 'nobody'; it has only\.refunds, totals"):
        await app.read_models.catch_up("nobody")
    with pytest.raises(InvalidDeclaration, match="keeps no read models"):
        await ReadModels(cast("Storage", NoRows()), [totals]).catch_up()
    with pytest.raises(InvalidDeclaration, match="which is none"):
        loom.define_config(read_models=[len])  # type: ignore[list-item]  # that is the point


class NoRows:
    """A store of somebody's that knows nothing of read models."""

    url = "somewhere:"


async def _slow(row: Any, event: Any) -> Any: ...


def _one(row: Any) -> Any: ...


@pytest.mark.parametrize(("fold", "why"), [(_slow, "plain def"), (_one, "a row and an event"), (len, "plain def")])
def test_what_is_no_fold_is_refused(fold: Any, why: str) -> None:
    with pytest.raises(InvalidDeclaration, match=why):
        loom.read_model(fold)


def test_a_declared_read_model_is_the_plain_function_still() -> None:
    event: Any = loom.EventEnvelope(ExecutionId("r"), 0, "app.noted", 5, {})

    assert totals(Totals("f"), event) == Totals("f", 0, "app.noted")
    assert (totals.id, refunds.id) == ("totals", "only.refunds")
