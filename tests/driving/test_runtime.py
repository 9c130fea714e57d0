from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated, InvalidId, UnknownFlow
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionAlreadyExists, ExecutionNotFound
from loom.spi.event_store import LaneClosed
from loom.spi.memory import MemoryStorage
from loom.values import InvalidPayload
from tests.kernel.running import RUN, cut_off_after, kinds, records, runtime

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.flow
async def waits(ctx: loom.Context, name: str) -> str:
    await ctx.run(work, name)
    return f"{name} {await ctx.suspend('approve', expects=str)}"


@loom.flow
async def fails(ctx: loom.Context) -> str:
    raise ValueError("no")


@pytest.mark.proves("KER-04", "PRN-04")
async def test_the_life_of_a_run() -> None:
    over = runtime(waits)

    parked = await over.start(waits, "a", id=RUN, principal="ada")
    state = await over.load_state(RUN)
    outcome = await over.resume(RUN, answer="yes", principal="bob")

    assert parked.status == state.status == "suspended"
    assert (outcome.status, outcome.result()) == ("completed", "a yes")
    assert [row.index.status for row in await over.find(_everything())] == ["completed"]


def _everything() -> Any:
    from loom.spi.event_store import ExecutionQuery

    return ExecutionQuery()


@pytest.mark.proves("KER-21")
async def test_who_started_resumed_and_answered_stands_in_the_log() -> None:
    over = runtime(waits)
    await over.start(waits, "a", id=RUN, principal="ada")
    await over.resume(RUN, answer="yes", principal="bob")

    principals = {
        event.type: event.metadata["principal"] for event in await over.events(RUN) if "principal" in event.metadata
    }
    assert principals == {"EXECUTION_STARTED": "ada", "EXECUTION_RESUMED": "bob", "GATE_ANSWERED": "bob"}


@pytest.mark.proves("KER-11")
async def test_a_chosen_id_starts_once_also_when_two_processes_start_it(tmp_path: Path) -> None:
    runtimes = [runtime(waits, storage=loom.sqlite_storage(str(tmp_path / "loom.db"))) for _ in range(4)]

    outcomes = await asyncio.gather(*(each.start(waits, "a", id=RUN) for each in runtimes), return_exceptions=True)

    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert [type(each) for each in refused] == [ExecutionAlreadyExists] * 3
    assert ran == ["a"]
    for each in runtimes:
        await each.close()


async def test_an_id_that_is_taken_is_refused_also_after_the_run_has_ended() -> None:
    over = runtime(fails)
    await over.start(fails, id=RUN)
    before = await records(over.storage)

    with pytest.raises(ExecutionAlreadyExists):
        await over.start(fails, id=RUN)

    assert await records(over.storage) == before


@pytest.mark.proves("KER-20")
@pytest.mark.parametrize("wrong", ["", " ", "a b", "a\x00", "x" * 201, "\ud800"])
async def test_an_id_that_is_no_word_is_refused_by_every_verb(wrong: str) -> None:
    over = runtime(waits)

    for verb in (
        lambda: over.start(waits, "a", id=wrong),
        lambda: over.resume(wrong),
        lambda: over.retry(wrong),
        lambda: over.resolve(wrong, None, "failed"),
        lambda: over.load_state(wrong),
    ):
        with pytest.raises((InvalidId, ExecutionNotFound)):
            await verb()

    assert await over.storage.ids() == []


@pytest.mark.parametrize(("flow", "given"), [(waits, 7), (waits, {"name": "a"}), (waits, None), (fails, "unexpected")])
async def test_an_input_that_does_not_fit_is_refused_and_nothing_is_written(flow: Any, given: Any) -> None:
    over = runtime(waits, fails)

    with pytest.raises(InvalidPayload):
        await over.start(flow, given, id=RUN)
    with pytest.raises(InvalidPayload):
        await over.start(waits)

    assert await over.storage.ids() == []


async def test_a_default_of_the_input_is_used_when_nothing_was_given_and_only_then() -> None:
    @loom.flow
    async def flow(ctx: loom.Context, name: str | None = "default") -> str | None:
        return name

    over = runtime(flow)

    assert (await over.start(flow)).value == "default"
    assert (await over.start(flow, "given")).value == "given"


async def test_none_that_was_given_is_no_default() -> None:
    @loom.flow
    async def flow(ctx: loom.Context, name: str | None = "default") -> str | None:
        return name

    assert (await runtime(flow).start(flow, None)).value is None


async def test_an_unknown_flow_is_told_with_near_names() -> None:
    over = runtime(waits)

    with pytest.raises(UnknownFlow) as told:
        await over.start("wait", "a")

    assert told.value.near == ("waits",)


async def test_what_has_ended_cannot_be_resumed() -> None:
    over = runtime(fails)
    await over.start(fails, id=RUN)

    verbs: list[Callable[[], Awaitable[Any]]] = [lambda: over.resume(RUN), lambda: over.resume(RUN, answer=1)]
    for verb in verbs:
        with pytest.raises(ExecutionTerminated):
            await verb()


@pytest.mark.proves("KER-17")
async def test_waiting_for_a_gate_of_a_run_that_ends_first_tells_the_end() -> None:
    over = runtime(fails, waits)
    await over.start(fails, id="failed")
    await over.start(waits, "a", id="waits")

    async with asyncio.timeout(1):
        with pytest.raises(ExecutionTerminated) as told:
            await over.wait_for_suspend("failed")
        parked = await over.wait_for_suspend("waits")

    assert (told.value.status, "no" in told.value.cause) == ("failed", True)
    assert [gate.gate for gate in parked.gates] == ["approve"]


async def test_wait_returns_the_end_whoever_drives_and_whenever_it_is_asked() -> None:
    over = runtime(waits)
    await over.start(waits, "a", id=RUN)
    waiting = [asyncio.create_task(over.wait(RUN)) for _ in range(3)]
    await asyncio.sleep(0)

    await runtime(waits, storage=over.storage).resume(RUN, answer="yes")
    outcomes = await asyncio.gather(*waiting)
    late = await over.wait(RUN)

    assert {outcome.value for outcome in [*outcomes, late]} == {"a yes"}


@pytest.mark.proves("KER-12")
async def test_a_failure_that_the_flow_handles_leaves_the_run_running() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.run("breaks", "".index, "x")
        except loom.StepFailed:
            return await ctx.suspend("after", expects=str)
        return "no"

    over = runtime(flow)
    await over.start(flow, id=RUN)
    left = await cut_off_after(over.storage, 3)

    outcome = await runtime(flow, storage=left).resume(RUN)

    assert outcome.status == "suspended"
    assert "FAILED" not in await kinds(runtime(flow, storage=left))


@pytest.mark.proves("LIF-01", "KER-08")
async def test_cut_off_after_each_event_every_effect_has_run_once_in_the_end() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        first = await ctx.run(work, "a")
        pair = await ctx.map(work, ["b", "c"])
        await ctx.sleep(0)
        return [first, *pair, await ctx.suspend("end", expects=str), await ctx.run(work, "d")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    await over.resume(RUN, answer="x")

    for length in range(1, len(await records(over.storage))):
        left = runtime(flow, storage=await cut_off_after(over.storage, length))
        ran.clear()
        done_before = [event.type for event in await left.events(RUN)].count("STEP_COMPLETED")
        outcome = await left.resume(RUN)
        if outcome.status == "suspended":
            outcome = await left.resume(RUN, answer="x")
        assert outcome.value == ["a", "b", "c", "x", "d"]
        assert len(ran) == len(set(ran)) == 4 - done_before


async def test_a_run_cut_off_before_anything_but_its_start_says_who_resumed_it() -> None:
    over = runtime(waits)
    await over.start(waits, "a", id=RUN)
    left = runtime(waits, storage=await cut_off_after(over.storage, 1))

    await left.resume(RUN, principal="bob")

    resumed = [event for event in await left.events(RUN) if event.type == "EXECUTION_RESUMED"]
    assert [event.metadata.get("principal") for event in resumed] == ["bob"]


async def test_a_result_that_cannot_be_encoded_fails_the_run_with_its_place() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        return {"deep": [object()]}

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.failure is not None
    assert outcome.failure.type == "loom.NotSerializable"
    assert "result['deep'][0]" in outcome.failure.message


@pytest.mark.proves("NOT-04")
async def test_two_runs_side_by_side_in_one_runtime_do_not_touch_each_other() -> None:
    over = runtime(waits)

    await asyncio.gather(*(over.start(waits, f"n{i}", id=f"run-{i}") for i in range(30)))
    outcomes = await asyncio.gather(*(over.resume(f"run-{i}", answer=str(i)) for i in range(30)))

    assert [outcome.value for outcome in outcomes] == [f"n{i} {i}" for i in range(30)]
    assert sorted(ran) == sorted(f"n{i}" for i in range(30))


def test_one_app_serves_several_event_loops_one_after_the_other(tmp_path: Path) -> None:  # field fault 42
    for storage in (MemoryStorage(), loom.sqlite_storage(str(tmp_path / "loom.db"))):
        over = runtime(waits, storage=storage)

        async def start(over: Any = over) -> Any:
            return await over.start(waits, "a", id=RUN)

        async def resume(over: Any = over) -> Any:
            outcome = await over.resume(RUN, answer="yes")
            await over.close()
            return outcome

        parked = asyncio.run(start())
        outcome = asyncio.run(resume())

        assert (parked.status, outcome.value) == ("suspended", "a yes")


SCRIPT = """
import asyncio, loom, sys, threading

@loom.flow
async def flow(ctx: loom.Context, name: str) -> str:
    await ctx.run("thread", len, name)
    await ctx.sleep(0)
    return await ctx.suspend("approve", expects=str)

async def main() -> None:
    app = loom.define_config(flows=[flow], storage=loom.sqlite_storage(sys.argv[1]))
    print((await app.runtime.start(flow, "a", id="r")).status)
    print((await app.runtime.resume("r", answer="yes")).value)

asyncio.run(main())
"""


@pytest.mark.proves("PRN-05")
def test_a_script_that_closes_nothing_ends(tmp_path: Path) -> None:  # field fault 32
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path / "loom.db")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert (done.stdout, done.stderr, done.returncode) == ("suspended\nyes\n", "", 0)


async def test_close_stops_what_is_driven_and_leaves_it_resumable() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await may_end.wait()

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        await ctx.run("slow", slow)
        return "done"

    over = runtime(flow, grace_s=0.01)
    running = asyncio.create_task(over.start(flow, id=RUN))
    await begun.wait()

    await over.close()
    with pytest.raises(loom.LoomError):
        await running
    may_end.set()
    outcome = await runtime(flow, storage=over.storage).resume(RUN)

    assert outcome.value == "done"


async def test_an_id_of_our_making_is_told_once_the_start_is_on_disk() -> None:
    over = runtime(waits)
    told: list[ExecutionId] = []
    lengths: list[int] = []

    def started(run: ExecutionId) -> None:
        told.append(run)
        lengths.append(len(over.storage._logs[run].events))  # type: ignore[attr-defined]  # the memory store

    outcome = await over.start(waits, "a", started=started)

    assert told == [outcome.execution_id]
    assert lengths == [1]
    assert outcome.execution_id.startswith("waits-")


@pytest.mark.parametrize("verb", ["cancel", "resume"])
async def test_a_verb_of_the_same_process_finds_a_run_that_has_just_been_started_driven(verb: str) -> None:
    over = runtime(waits)
    starting = asyncio.create_task(over.start(waits, "a", id=RUN))
    while await over.storage.head(ExecutionId(RUN)) is None:
        await asyncio.sleep(0)

    told = await (over.cancel(RUN) if verb == "cancel" else over.resume(RUN))
    outcome = await starting

    assert told.status in {"accepted", "cancelled", "suspended"}
    assert outcome.status == ("cancelled" if verb == "cancel" else "suspended")


async def test_an_answer_to_a_run_that_ended_meanwhile_is_told_that_it_has_ended() -> None:
    class EndsMeanwhile(MemoryStorage):
        async def insert(self, *run: Any, **request: Any) -> Any:
            return LaneClosed("cancelled") if request["kind"] == "answer" else await super().insert(*run, **request)

    over = runtime(waits, storage=EndsMeanwhile())
    await over.start(waits, "a", id=RUN)

    with pytest.raises(ExecutionTerminated, match="cancelled"):
        await over.resume(RUN, answer="yes")
