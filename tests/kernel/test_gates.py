from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import loom
from loom.core.errors import ExecutionTerminated
from loom.core.ids import ExecutionId, Incarnation
from loom.driving.errors import AlreadyAnswered, AmbiguousGate, ApprovalMismatch, GateNotOpen
from loom.spi.clock import VirtualClock
from loom.spi.event_store import LaneClosed, RequestKind, RequestTaken
from loom.spi.memory import MemoryStorage
from loom.values import InvalidPayload
from tests.kernel.running import RUN, kinds, payloads, records, runtime


class Approval(BaseModel):
    """What a person answers."""

    approved: bool
    by: str = ""


ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def act(what: str) -> str:
    ran.append(what)
    return what


@loom.flow
async def three(ctx: loom.Context) -> list[str]:
    async def branch(ctx: loom.Context, item: str) -> str:
        answer = await ctx.suspend("approve", expects=str, show={"item": item}, key=f"key-{item}")
        return await ctx.run(act, f"{item}{answer}")

    return await ctx.map(branch, ["a", "b", "c"])


@pytest.mark.proves("SUS-03")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_gates_may_be_answered_in_any_order_each_by_another_process(order: Sequence[int]) -> None:
    over = runtime(three)
    outcome = await over.start(three, id=RUN)

    for place in order:
        outcome = await runtime(three, storage=over.storage).resume(RUN, answer=str(place), gate=f"map/{place}/approve")

    assert outcome.value == ["a0", "b1", "c2"]
    assert sorted(ran) == ["a0", "b1", "c2"]


async def test_the_run_stays_suspended_until_the_last_gate_is_answered() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)

    first = await over.resume(RUN, answer="x", gate="key-a")
    second = await over.resume(RUN, answer="y", gate="key-c")

    assert (first.status, second.status) == ("suspended", "suspended")
    assert [gate.gate for gate in second.gates] == ["map/1/approve"]
    assert ran == ["ax", "cy"]


@pytest.mark.proves("SUS-02")
@pytest.mark.parametrize("address", ["map/1/approve", "1/approve", "key-b"])
async def test_an_address_a_whole_ending_of_it_or_a_key_finds_the_gate(address: str) -> None:
    over = runtime(three)
    await over.start(three, id=RUN)

    await over.resume(RUN, answer="!", gate=address)

    assert ran == ["b!"]


@pytest.mark.parametrize(
    ("address", "error"),
    [(None, AmbiguousGate), ("approve", AmbiguousGate), ("rove", GateNotOpen), ("map/3/approve", GateNotOpen)],
)
async def test_an_answer_that_could_be_for_another_gate_is_refused_and_changes_nothing(
    address: str | None, error: type[loom.LoomError]
) -> None:
    over = runtime(three)
    await over.start(three, id=RUN)
    before = await records(over.storage)

    with pytest.raises(error) as refused:
        await over.resume(RUN, answer="x", gate=address)

    assert list(refused.value.open_gates) == [f"map/{i}/approve" for i in range(3)]  # type: ignore[attr-defined]
    assert await records(over.storage) == before
    assert await over.storage.pending(ExecutionId(RUN), Incarnation(1)) == []


@loom.flow
async def approves(ctx: loom.Context, amount: int) -> str:
    answer = await ctx.suspend("approve", expects=Approval, show={"amount": amount})
    return await ctx.run(act, "paid" if answer.approved else "refused")


@pytest.mark.proves("SYS-07", "SUS-01")
@pytest.mark.parametrize("wrong", [{}, {"approved": "perhaps"}, None, "yes", 1, {"approved": True, "by": 7}])
async def test_an_answer_of_the_wrong_shape_is_refused_and_the_gate_stays_open(wrong: Any) -> None:
    over = runtime(approves)
    await over.start(approves, 1, id=RUN)
    before = await records(over.storage)

    with pytest.raises(InvalidPayload):
        await over.resume(RUN, answer=wrong)

    assert await records(over.storage) == before
    assert (await over.resume(RUN, answer={"approved": True})).value == "paid"


@pytest.mark.parametrize("answer", [{"approved": True, "by": "ada"}, Approval(approved=True, by="ada")])
async def test_an_answer_is_json_or_a_value_of_the_expected_type(answer: Any) -> None:
    over = runtime(approves)
    await over.start(approves, 1, id=RUN)

    outcome = await over.resume(RUN, answer=answer, principal="ada")

    assert outcome.value == "paid"
    [answered] = [event for event in await over.events(RUN) if event.type == "GATE_ANSWERED"]
    assert answered.metadata["principal"] == "ada"


@pytest.mark.proves("SUS-12")
async def test_an_approval_is_bound_to_what_was_shown() -> None:
    over = runtime(approves)
    shown = [(await over.start(approves, amount, id=f"run-{amount}")).gates[0].shown for amount in (1, 2)]

    with pytest.raises(ApprovalMismatch):
        await over.resume("run-2", answer={"approved": True}, shown=shown[0])

    assert ran == []
    assert (await over.resume("run-2", answer={"approved": True}, shown=shown[1])).value == "paid"


async def test_a_changed_question_is_never_answered_by_the_answer_to_the_old_one() -> None:
    def asking(question: str) -> loom.Flow[[], Any]:
        @loom.flow(id="asks")
        async def flow(ctx: loom.Context) -> Any:
            return [await ctx.suspend("approve", show=question), await ctx.suspend("end")]

        return flow

    old = asking("1 euro?")
    over = runtime(old)
    await over.start(old, id=RUN)
    await over.resume(RUN, answer="yes")
    changed = runtime(asking("1000 euro?"), storage=over.storage)

    with pytest.raises(loom.LoomError) as refused:
        await changed.resume(RUN, answer="end")

    assert refused.value.code == "replay-divergence"


@loom.flow
async def in_time(ctx: loom.Context) -> str:
    try:
        answer = await ctx.suspend("approve", expects=str, timeout=timedelta(hours=1))
    except loom.GateTimedOut as error:
        answer = f"nobody: {error.gate}"
    return f"{answer} then {await ctx.suspend('end', expects=str)}"


@pytest.mark.proves("NOT-10")
async def test_a_timeout_is_an_outcome_of_its_own_live_and_replayed() -> None:
    clock = VirtualClock()
    over = runtime(in_time, clock=clock)
    parked = await over.start(in_time, id=RUN)
    early = await over.resume(RUN)
    clock.advance(3_600_000)

    late = await over.resume(RUN)
    outcome = await runtime(in_time, storage=over.storage, clock=clock).resume(RUN, answer="x")

    assert parked.wake_at == early.wake_at == 1_700_000_000_000 + 3_600_000
    assert [gate.label for gate in late.gates] == ["end"]
    assert outcome.value == "nobody: approve then x"
    assert (await kinds(over)).count("GATE_TIMED_OUT") == 1


async def test_an_answer_in_time_leaves_no_timeout_behind() -> None:
    clock = VirtualClock()
    over = runtime(in_time, clock=clock)
    await over.start(in_time, id=RUN)

    parked = await over.resume(RUN, answer="yes")
    clock.advance(7_200_000)
    outcome = await over.resume(RUN, answer="x")

    assert parked.wake_at is None
    assert outcome.value == "yes then x"
    assert "GATE_TIMED_OUT" not in await kinds(over)


@loom.flow
async def asks_again(ctx: loom.Context) -> list[int]:
    return [await ctx.suspend("n", expects=int) for _ in range(3)]


async def test_an_earlier_answer_is_never_served_to_a_later_gate_of_the_same_label() -> None:
    over = runtime(asks_again)
    parked = await over.start(asks_again, id=RUN)
    seen = [parked.gates[0].gate]
    for number in (1, 2, 3):
        parked = await runtime(asks_again, storage=over.storage).resume(RUN, answer=number, gate=seen[-1])
        seen += [gate.gate for gate in parked.gates]

    assert seen == ["n", "n#1", "n#2"]
    assert parked.value == [1, 2, 3]


async def test_a_gate_that_was_answered_cannot_be_answered_again() -> None:
    over = runtime(asks_again)
    await over.start(asks_again, id=RUN)
    await over.resume(RUN, answer=1)

    with pytest.raises(AlreadyAnswered):
        await over.resume(RUN, answer=2, gate="n")


# -- answers that race ------------------------------------------------------------------------------------------------


def _told_apart(outcomes: Sequence[Any]) -> tuple[list[Any], list[type[BaseException]]]:
    done = [each for each in outcomes if isinstance(each, loom.Outcome)]
    return done, [type(each) for each in outcomes if isinstance(each, BaseException)]


async def test_of_two_answers_at_once_in_one_process_one_is_told_that_the_other_was_first() -> None:
    over = runtime(approves)
    await over.start(approves, 1, id=RUN)

    outcomes = await asyncio.gather(
        over.resume(RUN, answer={"approved": True}),
        over.resume(RUN, answer={"approved": False}),
        return_exceptions=True,
    )

    done, refused = _told_apart(outcomes)
    assert [outcome.status for outcome in done] == ["completed"]
    assert refused == [AlreadyAnswered]
    assert len(ran) == 1


@pytest.mark.parametrize("resources", [{}, {"slow": None}])
@pytest.mark.parametrize("others", [1, 5])
async def test_of_answers_from_several_runtimes_on_one_file_one_counts(
    tmp_path: Path, others: int, resources: dict[str, None]
) -> None:
    def process() -> Any:
        storage = loom.sqlite_storage(str(tmp_path / "loom.db"))
        return runtime(approves, storage=storage, resources=dict.fromkeys(resources, _opened_slowly))

    runtimes = [process() for _ in range(others + 1)]
    await runtimes[0].start(approves, 1, id=RUN)

    outcomes = await asyncio.gather(
        *(each.resume(RUN, answer={"approved": i % 2 == 0}) for i, each in enumerate(runtimes)), return_exceptions=True
    )

    done, refused = _told_apart(outcomes)
    assert len(ran) == 1
    assert [outcome.value for outcome in done] == ran
    assert set(refused) <= {AlreadyAnswered, ExecutionTerminated}
    assert (await kinds(runtimes[0])).count("GATE_ANSWERED") == 1
    for each in runtimes:
        await each.close()


class _opened_slowly:  # noqa: N801  # a factory, used as a function
    async def __aenter__(self) -> str:
        await asyncio.sleep(0.005)
        return "open"

    async def __aexit__(self, *_: object) -> None:
        return None


async def test_answers_to_different_gates_at_once_all_count() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)

    outcomes = await asyncio.gather(*(over.resume(RUN, answer=str(i), gate=f"map/{i}/approve") for i in range(3)))
    final = await over.wait(RUN)

    assert {outcome.status for outcome in outcomes} <= {"completed", "accepted", "suspended"}
    assert final.value == ["a0", "b1", "c2"]
    assert sorted(ran) == ["a0", "b1", "c2"]


async def test_a_resume_without_an_answer_beside_one_with_an_answer_hangs_nobody() -> None:
    over = runtime(approves)
    await over.start(approves, 1, id=RUN)

    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(over.resume(RUN), over.resume(RUN, answer={"approved": True}))
        final = await over.wait(RUN)

    assert {outcome.status for outcome in outcomes} <= {"completed", "accepted", "suspended"}
    assert final.value == "paid"


class InsertWaits(MemoryStorage):
    """A store whose lane takes its time: *insert* waits until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.may = asyncio.Event(), asyncio.Event()

    async def insert(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        kind: RequestKind,
        key: str,
        at: int,
        body: bytes,
        while_open: bool = False,
    ) -> int | RequestTaken | LaneClosed | None:
        self.reached.set()
        await self.may.wait()
        return await super().insert(
            execution_id, incarnation, kind=kind, key=key, at=at, body=body, while_open=while_open
        )


@pytest.mark.parametrize("first_lets", ["the drive park", "the answer in"])
async def test_an_answer_that_meets_a_drive_about_to_park_is_never_left_lying(first_lets: str) -> None:
    store, step_may_end = InsertWaits(), asyncio.Event()

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async def asks(ctx: loom.Context) -> Any:
            return await ctx.suspend("approve", expects=int)

        async def works(ctx: loom.Context) -> Any:
            return await ctx.run("work", step_may_end.wait)

        return list(await ctx.parallel(asks, works))

    over = runtime(flow, storage=store)
    starting = asyncio.create_task(over.start(flow, id=RUN))
    await over.wait_for_suspend(RUN)
    answering = asyncio.create_task(over.resume(RUN, answer=3))
    await store.reached.wait()
    if first_lets == "the drive park":
        step_may_end.set()
        await starting
        store.may.set()
    else:
        store.may.set()
        step_may_end.set()

    async with asyncio.timeout(5):
        await asyncio.gather(starting, answering)
        final = await over.wait(RUN)

    assert final.value == [3, True]


async def test_an_answer_inserted_by_a_process_that_died_is_taken_at_the_next_resume() -> None:
    over = runtime(approves)
    await over.start(approves, 1, id=RUN)
    body = b'{"start":1,"answer":{"approved":true},"principal":"ada"}'
    await over.storage.insert(ExecutionId(RUN), Incarnation(1), kind="answer", key="gate:1", at=0, body=body)

    outcome = await over.resume(RUN)

    assert outcome.value == "paid"
    assert await over.storage.pending(ExecutionId(RUN), Incarnation(1)) == []


async def test_an_answer_of_the_wrong_shape_in_the_lane_is_dropped_with_its_reason() -> None:
    over = runtime(approves)
    await over.start(approves, 1, id=RUN)
    body = b'{"start":1,"answer":7}'
    await over.storage.insert(ExecutionId(RUN), Incarnation(1), kind="answer", key="gate:1", at=0, body=body)

    outcome = await over.resume(RUN)

    assert outcome.status == "suspended"
    [dropped] = await payloads(over, "REQUEST_DROPPED")
    assert dropped.key == "gate:1"


@pytest.mark.parametrize(
    "wrong_label", [lambda c: c.suspend(""), lambda c: c.suspend("x" * 201), lambda c: c.suspend("a\ud800")]
)
async def test_a_label_that_is_no_word_is_refused_before_anything_is_recorded(
    wrong_label: Callable[[loom.Context], Any],
) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await wrong_label(ctx)
        except loom.LoomError as error:
            return await ctx.run(act, error.code)
        return "not refused"

    over = runtime(flow)

    async with asyncio.timeout(5):
        outcome = await over.start(flow, id=RUN)

    assert outcome.value == "invalid-id"


async def test_a_sleep_and_a_gate_end_in_time_beside_a_step_that_is_still_running() -> None:
    woken = asyncio.Event()

    async def waits() -> str:
        await woken.wait()
        return "woken"

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async def sleeper(ctx: loom.Context) -> None:
            await ctx.sleep(0.001)
            with contextlib.suppress(loom.GateTimedOut):
                await ctx.suspend("nobody", timeout=timedelta(milliseconds=1))
            woken.set()

        async def worker(ctx: loom.Context) -> str:
            return await ctx.run("slow", waits)

        return list(await ctx.parallel(sleeper, worker))

    async with asyncio.timeout(10):
        outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == [None, "woken"]
