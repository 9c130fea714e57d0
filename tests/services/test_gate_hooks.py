"""Hooks of gates: each gate is told once, by whichever worker finds it, and until it has arrived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration, InvalidId
from loom.plugins.sqlite import SqliteStorage
from loom.services.gate_hooks import FLOW, HooksNotKept
from loom.spi.change_feed import CursorUnknown
from loom.spi.event_store import ExecutionQuery
from loom.spi.gate_hook import GateNotice


@loom.flow
async def refund(ctx: loom.Context, amount: int) -> str:
    first = await ctx.suspend("approval", show={"amount": amount}, expects=bool)
    second = await ctx.suspend("approval", expects=bool)
    return f"{first} {second}"


@loom.flow
async def leave(ctx: loom.Context) -> bool:
    return await ctx.suspend("boss", expects=bool)


class Desk:
    """Notes what it is told; fails so often before it takes anything."""

    def __init__(self, *, failing: int = 0, flows: tuple[str, ...] = ()) -> None:
        self.told: list[GateNotice] = []
        self.asked: list[str] = []
        self._failing, self._flows = failing, flows

    def wants(self, flow: str) -> bool:
        return not self._flows or flow in self._flows

    async def tell(self, notice: GateNotice) -> None:
        self.asked.append(notice.key)
        if self._failing:
            self._failing -= 1
            raise ConnectionError("nobody is at the desk")
        self.told.append(notice)

    @property
    def gates(self) -> list[tuple[str, str]]:
        return [(notice.execution_id, notice.gate.gate) for notice in self.told]


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    store = loom.MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


def wired(storage: Any, **hooks: Desk) -> loom.LoomApp:
    return loom.define_config(flows=[refund, leave], storage=storage, gate_hooks=hooks)


async def until_idle(*apps: loom.LoomApp) -> None:
    await asyncio.gather(*(app.worker(until_idle=True, poll_s=0.01).run() for app in apps))


async def test_each_gate_of_a_run_is_told_with_what_it_shows(storage: Any) -> None:
    desk = Desk()
    app = wired(storage, desk=desk)
    await app.runtime.start(refund, 7, id="r")

    await until_idle(app)
    await app.runtime.resume("r", answer=True)
    await until_idle(app)
    await until_idle(app)

    assert desk.gates == [("r", "approval"), ("r", "approval#1")]
    assert desk.told[0].gate.show == {"amount": 7}
    assert desk.told[0].gate.schema == {"type": "boolean"}
    assert (desk.told[0].flow, desk.told[0].incarnation) == ("refund", (await storage.row("r")).incarnation)


async def test_what_waited_before_the_worker_began_is_told_by_one_of_two(storage: Any) -> None:
    desk = Desk()
    apps = [wired(storage, desk=desk), wired(storage, desk=desk)]
    for number in range(20):
        await apps[0].runtime.start(leave, id=f"l{number:02}")

    await until_idle(*apps)

    assert sorted(desk.gates) == [(f"l{number:02}", "boss") for number in range(20)]
    assert len({notice.key for notice in desk.told}) == 20


async def test_a_gate_that_opens_in_another_process_while_the_worker_works_is_told(storage: Any) -> None:
    desk, other = Desk(), wired(storage)
    app = wired(storage, desk=desk)
    worker = app.worker(poll_s=0.01)
    working = asyncio.create_task(worker.run())
    await other.runtime.start(leave, id="l")

    while not desk.told:
        assert not working.done()
        await asyncio.sleep(0)
    worker.stop()
    await working

    assert desk.gates == [("l", "boss")]


async def test_who_did_not_take_it_is_told_again_with_the_same_key(storage: Any) -> None:
    desk = Desk(failing=1)
    app = wired(storage, desk=desk)
    await app.runtime.start(leave, id="l")

    await until_idle(app)
    [run] = await storage.find(ExecutionQuery(flows=[FLOW]))
    outcome = await app.runtime.wait(run.execution_id)

    assert outcome.value == "told"
    assert desk.gates == [("l", "boss")]
    assert len(desk.asked) == 2
    assert len(set(desk.asked)) == 1


async def test_a_gate_that_is_answered_before_it_is_told_is_left_alone(storage: Any) -> None:
    desk = Desk(failing=2)
    app = wired(storage, desk=desk)
    await app.runtime.start(leave, id="l")

    await until_idle(app)  # the second attempt has failed; the third is two seconds away, so the run has parked
    await app.runtime.resume("l", answer=True)
    [run] = await storage.find(ExecutionQuery(flows=[FLOW]))
    outcome = await app.runtime.resume(run.execution_id)

    assert outcome.value == "it was not open any more"
    assert desk.told == []


async def test_each_hook_is_told_of_the_flows_it_wants(storage: Any) -> None:
    all_, some = Desk(), Desk(flows=("refund",))
    app = wired(storage, all=all_, some=some)
    await app.runtime.start(leave, id="l")
    await app.runtime.start(refund, 1, id="r")

    await until_idle(app)

    assert sorted(all_.gates) == [("l", "boss"), ("r", "approval")]
    assert some.gates == [("r", "approval")]


class Unsure(Desk):
    def wants(self, flow: str) -> bool:
        raise LookupError(flow)


async def test_a_hook_that_cannot_say_what_it_wants_is_told_and_stops_nobody(storage: Any) -> None:
    unsure, desk = Unsure(), Desk()
    app = wired(storage, unsure=unsure, desk=desk)
    await app.runtime.start(leave, id="l")

    await until_idle(app)

    assert unsure.gates == desk.gates == [("l", "boss")]


class TakenBack(loom.MemoryStorage):
    """A store that was restored to an earlier time: the cursors that were given by then are none of its."""

    gone: str | None = None
    looked = 0

    async def changed(self, after: str = "", *, limit: int = 1_000) -> Any:
        self.looked += 1
        if after == self.gone:
            raise CursorUnknown(after, store=self.url)
        return await super().changed(after, limit=limit)


async def test_after_a_restore_of_the_store_a_worker_tells_on() -> None:
    desk, store = Desk(), TakenBack()
    app = wired(store, desk=desk)
    await app.runtime.start(leave, id="before")
    await until_idle(app)
    worker = app.worker(poll_s=0.01)
    working, looked = asyncio.create_task(worker.run()), store.looked
    while store.looked == looked:
        await asyncio.sleep(0)
    store.gone = await store.latest()
    await wired(store).runtime.start(leave, id="after")

    async with asyncio.timeout(20):
        while len(desk.told) < 2:
            await asyncio.sleep(0.01)
    worker.stop()
    await working

    assert desk.gates == [("before", "boss"), ("after", "boss")]


async def test_a_run_that_tells_says_for_whom_and_of_what(storage: Any) -> None:
    app = wired(storage, desk=Desk())
    await app.runtime.start(leave, id="l")

    await until_idle(app)

    [run] = await storage.find(ExecutionQuery(flows=[FLOW]))
    begun = (await app.runtime.events(run.execution_id))[0]
    assert begun.payload.attributes == {"hook": "desk", "of": "l"}
    assert begun.metadata["principal"] == "hook:desk"


def test_without_hooks_an_app_has_its_own_flows_alone() -> None:
    assert set(loom.define_config(flows=[leave]).registry.flows) == {"leave"}


def test_what_cannot_be_told_is_refused_when_it_is_wired() -> None:
    with pytest.raises(InvalidDeclaration, match="is no hook"):
        wired(loom.MemoryStorage(), desk="https://example.org")  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        loom.define_config(flows=[leave], gate_hooks={"a desk": Desk()})


def test_a_store_that_does_not_tell_what_has_changed_is_refused() -> None:
    class Mute:
        url = "mute:"

    with pytest.raises(HooksNotKept, match="mute:"):
        wired(Mute(), desk=Desk())
