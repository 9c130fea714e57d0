"""Sending: a message is stored once and durably, and whoever drives the run sees to it; or it is refused in words."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated, InvalidDeclaration, InvalidId
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import ReplayDivergence
from loom.spi.event_store import Request
from loom.spi.memory import MemoryStorage
from loom.values import InvalidPayload
from tests.kernel.running import RUN, kinds, payloads, records, runtime
from tests.plugins.sqlite.processes import ROOT

SENDER = Path(__file__).with_name("sender.py")


@loom.flow
async def pair(ctx: loom.Context) -> list[Any]:
    return [await ctx.receive("news"), await ctx.receive("news")]


@loom.flow
async def asks(ctx: loom.Context, fails: bool = False) -> Any:
    answer = await ctx.suspend("ask")
    if fails:
        raise ValueError("as asked")
    return answer


async def unread(over: WorkflowRuntime) -> list[Request]:
    head = await over.storage.head(ExecutionId(RUN))
    return list(await over.storage.pending(head.execution_id, head.incarnation)) if head else []


# What is refused


async def test_a_message_to_an_id_that_does_not_exist_is_refused() -> None:
    over = runtime(pair)

    with pytest.raises(ExecutionNotFound):
        await over.send(RUN, "news", 1)

    await over.start(pair, id=RUN)
    assert await unread(over) == []


@pytest.mark.parametrize("fails", [False, True])
async def test_a_message_to_a_run_that_has_ended_is_refused_and_not_inserted(fails: bool) -> None:
    """Field fault 16: no message is accepted that nobody will ever receive."""
    over = runtime(asks)
    await over.start(asks, fails, id=RUN)
    ended = await over.resume(RUN, answer=1)
    before = await records(over.storage)

    with pytest.raises(ExecutionTerminated) as refused:
        await over.send(RUN, "news", 1)

    assert refused.value.status == ended.status
    assert await unread(over) == []
    assert await records(over.storage) == before


class Meddled(MemoryStorage):
    """A store in which something else happens once an index row was read."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], Awaitable[Any]] | None = None

    async def row(self, execution_id: ExecutionId) -> Any:
        row = await super().row(execution_id)
        then, self.then = self.then, None
        if then is not None:
            await then()
        return row


async def test_a_run_that_ends_between_looking_and_inserting_refuses_the_message_too() -> None:
    store = Meddled()
    over = runtime(asks, storage=store)
    await over.start(asks, id=RUN)
    store.then = lambda: runtime(asks, storage=store).resume(RUN, answer=1)

    with pytest.raises(ExecutionTerminated):
        await over.send(RUN, "news", 1)

    assert await unread(over) == []


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"topic": ""}, InvalidId),
        ({"topic": "news", "key": ""}, InvalidId),
        ({"topic": "news", "principal": "\ud800"}, InvalidId),
        ({"topic": "news", "message": object()}, InvalidPayload),
        ({"topic": "news", "message": b"\xff"}, InvalidPayload),
    ],
)
async def test_what_cannot_be_a_message_is_refused_before_anything_is_written(
    given: dict[str, Any], refused: type[loom.LoomError]
) -> None:
    over = runtime(asks)
    await over.start(asks, id=RUN)

    with pytest.raises(refused):
        await over.send(RUN, **given)

    assert await unread(over) == []


# Once


async def test_what_is_sent_again_under_its_key_is_accepted_and_comes_to_nothing() -> None:
    over = runtime(pair)
    await over.start(pair, id=RUN)

    await over.send(RUN, "news", "first", key="n1")
    again = await over.send(RUN, "news", "other words", key="n1")
    done = await over.send(RUN, "news", "second", key="n2")

    assert (again.status, done.value) == ("accepted", ["first", "second"])


async def test_a_key_is_one_for_all_topics_and_no_key_is_none() -> None:
    over = runtime(asks)
    await over.start(asks, id=RUN)

    for topic, key in (("a", "k"), ("b", "k"), ("a", None), ("a", None)):
        await over.send(RUN, topic, key=key)

    assert [request.key for request in await unread(over)] == ["message:k", "", ""]


async def test_a_message_sent_again_because_nobody_knew_drives_the_run_that_still_waits() -> None:
    over = runtime(pair)
    await over.start(pair, id=RUN)
    await over.send(RUN, "news", "first", key="n1", drive=False)  # its process was lost here

    await over.send(RUN, "news", "first", key="n1")

    assert [fact.message for fact in await payloads(over, "MESSAGE_RECEIVED")] == ["first"]


# Who sees to it


async def test_a_parked_run_is_driven_on_by_the_message_it_waits_for() -> None:
    over = runtime(pair)
    await over.start(pair, id=RUN)

    waits = await over.send(RUN, "news", 1, principal="ada")
    done = await over.send(RUN, "news", 2)

    assert (waits.status, done.status, done.value) == ("suspended", "completed", [1, 2])
    assert (await over.events(RUN))[3].metadata == {"principal": "ada"}


@pytest.mark.parametrize("topic", ["news", "weather"])
async def test_a_run_that_waits_for_something_else_is_left_alone(topic: str) -> None:
    over = runtime(asks)
    await over.start(asks, id=RUN)

    sent = await over.send(RUN, topic, 1)

    assert (sent.status, sent.length) == ("accepted", 3)
    assert await kinds(over) == ["STARTED", "GATE_OPENED", "SUSPENDED"]


async def test_a_message_that_is_only_stored_drives_nothing() -> None:
    over = runtime(pair)
    await over.start(pair, id=RUN)

    sent = await over.send(RUN, "news", 1, drive=False)

    assert sent.status == "accepted"
    assert await kinds(over) == ["STARTED", "MESSAGE_AWAITED", "SUSPENDED"]
    assert [request.kind for request in await unread(over)] == ["message"]


async def test_a_message_needs_no_code_unless_the_run_is_driven() -> None:
    over = runtime(pair)
    await over.start(pair, id=RUN)

    sent = await WorkflowRuntime(over.storage, flows={}).send(RUN, "news", 1, drive=False)

    assert sent.status == "accepted"
    assert (await over.resume(RUN)).status == "suspended"


async def test_a_diverged_run_keeps_the_message_for_when_it_is_mended() -> None:
    @loom.flow(id="pair")
    async def other(ctx: loom.Context) -> None:
        await ctx.suspend("something else")

    over = runtime(pair)
    await over.start(pair, id=RUN)
    with pytest.raises(ReplayDivergence):
        await runtime(other, storage=over.storage).resume(RUN)

    sent = await over.send(RUN, "news", 1)

    assert sent.status == "accepted"
    assert (await over.resume(RUN)).status == "suspended"
    assert [fact.message for fact in await payloads(over, "MESSAGE_RECEIVED")] == [1]


class Elsewhere:
    """What a step waits for until the test, or the flow, lets it go."""

    done: asyncio.Event
    is_broken = False


@pytest.fixture(autouse=True)
def _nothing_is_done() -> None:
    Elsewhere.done = asyncio.Event()


@loom.step
async def linger() -> None:
    await Elsewhere.done.wait()


@loom.flow
async def beside(ctx: loom.Context) -> list[Any]:
    async def works(ctx: loom.Context) -> None:
        await ctx.run(linger)

    async def listens(ctx: loom.Context) -> Any:
        message = await ctx.receive("news")
        Elsewhere.done.set()
        return message

    return list(await ctx.parallel(works, listens))


async def _at_the_wait(over: WorkflowRuntime) -> None:
    async with asyncio.timeout(5):
        while "MESSAGE_AWAITED" not in await kinds(over):
            await asyncio.sleep(0)


async def test_a_drive_of_this_process_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loom.driving.lane_watch.POLL_S", 1_000)
    over = runtime(beside)
    driving = asyncio.ensure_future(over.start(beside, id=RUN))
    await _at_the_wait(over)

    sent = await over.send(RUN, "news", 1)

    assert (sent.status, (await driving).value) == ("accepted", [None, 1])


async def test_a_drive_of_another_process_finds_it_by_itself() -> None:
    over = runtime(beside)
    driving = asyncio.ensure_future(over.start(beside, id=RUN))
    await _at_the_wait(over)

    sent = await runtime(beside, storage=over.storage).send(RUN, "news", 1)

    assert (sent.status, (await driving).value) == ("accepted", [None, 1])


@pytest.mark.parametrize("at", ["EXECUTION_STARTED", "STEP_STARTED", "STEP_COMPLETED", "MESSAGE_AWAITED"])
@pytest.mark.parametrize("same_process", [True, False])
async def test_nothing_depends_on_whether_the_message_or_the_wait_was_first(at: str, same_process: bool) -> None:
    """Field fault 15: the message came before the wait, or while it was being registered."""
    tasks: list[asyncio.Task[Any]] = []

    def meanwhile(event: loom.EventEnvelope[Any]) -> None:
        if event.type == at and not tasks:
            sender = over if same_process else runtime(works_first, storage=over.storage)
            tasks.append(asyncio.get_running_loop().create_task(_sent(sender)))

    over = runtime(works_first, on_event=meanwhile)
    outcome = await over.start(works_first, id=RUN)

    sent = await tasks[0]
    done = next(each for each in (outcome, sent, await over.wait(RUN)) if each.status == "completed")
    assert done.value == "hello"


async def _sent(sender: WorkflowRuntime) -> Any:
    while await sender.storage.head(ExecutionId(RUN)) is None:
        await asyncio.sleep(0)
    return await sender.send(RUN, "news", "hello")


@loom.step
async def quick() -> None: ...


@loom.flow
async def works_first(ctx: loom.Context) -> Any:
    await ctx.run(quick)
    return await ctx.receive("news")


async def sent_by_another_process(path: Path, name: str, count: int) -> None:
    """Have a process of its own send as many messages to the run, each twice under one key."""
    sender = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SENDER), str(path), RUN, name, str(count)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await sender.communicate()
    assert (sender.returncode, said) == (0, b"done\n")


@loom.flow
async def counts(ctx: loom.Context, messages: int) -> list[Any]:
    return [await ctx.receive("news") for _ in range(messages)]


async def test_two_processes_that_send_at_once_lose_and_mix_up_nothing(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    over = runtime(counts, storage=loom.sqlite_storage(str(path)))
    await over.start(counts, 60, id=RUN, linger_s=0)

    await asyncio.gather(*(sent_by_another_process(path, name, 30) for name in ("a", "b")))
    done = await over.resume(RUN)

    got = done.result()
    assert [number for name, number in got if name == "a"] == list(range(30))
    assert [number for name, number in got if name == "b"] == list(range(30))
    await over.storage.close()


async def test_messages_of_other_processes_reach_a_run_while_it_is_driven(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    over = runtime(counts_while_busy, storage=loom.sqlite_storage(str(path)))
    driving = asyncio.ensure_future(over.start(counts_while_busy, 40, id=RUN))
    while not await over.storage.head(ExecutionId(RUN)):
        await asyncio.sleep(0)

    await asyncio.gather(*(sent_by_another_process(path, name, 20) for name in ("a", "b")))

    got = (await driving).result()
    assert [number for name, number in got if name == "a"] == list(range(20))
    assert [number for name, number in got if name == "b"] == list(range(20))
    await over.storage.close()


@loom.flow
async def counts_while_busy(ctx: loom.Context, messages: int) -> list[Any]:
    async def works(ctx: loom.Context) -> None:
        await ctx.run(linger)

    got: list[Any] = []

    async def listens(ctx: loom.Context) -> None:
        got.extend([await ctx.receive("news") for _ in range(messages)])
        Elsewhere.done.set()

    await ctx.parallel(works, listens)
    return got


async def test_who_waits_for_a_run_to_wait_is_told_when_it_waits_for_a_message() -> None:
    over = runtime(pair)
    waiting = asyncio.ensure_future(over.wait_for_suspend(RUN))
    await over.start(pair, id=RUN)

    assert (await waiting).status in ("running", "suspended")


# Beside a retry


@loom.step(retry=loom.Retry(attempts=1))
async def fragile() -> str:
    if Elsewhere.is_broken:
        raise ConnectionError("no line")
    return "mended"


@loom.flow
async def excuses(ctx: loom.Context) -> list[Any]:
    """Wait for an excuse where the step fails, and for another thing where it does not."""
    try:
        done = await ctx.run(fragile)
    except loom.StepFailed:
        await ctx.receive("excuses", expects=Excuse)
        raise
    return [done, await ctx.receive("excuses", expects=Excuse), await ctx.receive("excuses", expects=Excuse)]


@dataclass
class Excuse:
    """What is sent."""

    words: str
    worth: Decimal


async def test_a_message_that_a_retry_makes_unread_is_received_again() -> None:
    Elsewhere.is_broken = True
    over = runtime(excuses)
    await over.start(excuses, id=RUN)
    worth = Decimal("0.50")
    failed = await over.send(RUN, "excuses", {"words": "rain", "worth": worth}, principal="ada")
    Elsewhere.is_broken = False

    again = await over.retry(RUN)
    done = await over.send(RUN, "excuses", {"words": "snow", "worth": worth})

    assert (failed.status, again.status) == ("failed", "suspended")
    assert done.value == ["mended", Excuse("rain", worth), Excuse("snow", worth)]
    received = [event for event in await over.events(RUN) if event.type == "MESSAGE_RECEIVED"]
    assert [event.metadata.get("principal") for event in received] == ["ada", "ada", None]
    assert await unread(over) == []


async def test_a_message_that_a_retry_keeps_is_not_put_back() -> None:
    Elsewhere.is_broken = True
    over = runtime(then_works)
    await over.start(then_works, id=RUN)
    await over.send(RUN, "news", 1)
    Elsewhere.is_broken = False

    done = await over.retry(RUN)

    assert done.value == [1, "mended"]
    assert [request.key for request in await unread(over)] == []


@loom.flow
async def then_works(ctx: loom.Context) -> list[Any]:
    return [await ctx.receive("news"), await ctx.run(fragile)]


async def test_nobody_can_send_what_loom_tells_its_own_runs() -> None:
    over = runtime()

    with pytest.raises(InvalidDeclaration, match="Loom's own"):
        await over.send(RUN, "loom.child:run-1.x", {"status": "completed"})
