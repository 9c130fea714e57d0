"""The app's authorizer is asked before a verb changes a run; what it refuses stands on the log and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.errors import Denied, ExecutionNotFound
from loom.driving.runtime import WorkflowRuntime
from loom.spi import Action
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, kinds, payloads, runtime


class Only:
    """Lets *who* do everything, and others nothing; remembers what it was asked."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.asked: list[tuple[str | None, Action, str, str]] = []

    async def authorize(
        self, principal: str | None, action: Action, execution_id: ExecutionId, flow: str
    ) -> str | None:
        self.asked.append((principal, action, execution_id, flow))
        return None if principal == self.who else f"only {self.who} may"


@loom.step(idempotent=False)
async def pay() -> str:
    raise ConnectionResetError("the line went dead")


@loom.flow
async def story(ctx: loom.Context) -> Any:
    await ctx.decide("pick", lambda: 1)
    message = await ctx.receive("news")
    answer = await ctx.suspend("ask", expects=int)
    if answer < 0:
        raise ValueError("negative")
    return [message, answer]


Verb = Callable[[WorkflowRuntime, str | None], Awaitable[Any]]
VERBS: dict[Action, Verb] = {
    "send": lambda over, who: over.send(RUN, "news", 1, principal=who),
    "answer": lambda over, who: over.resume(RUN, answer=1, principal=who),
    "resolve": lambda over, who: over.resolve(RUN, None, "done", principal=who),
    "retry": lambda over, who: over.retry(RUN, principal=who),
    "cancel": lambda over, who: over.cancel(RUN, principal=who),
    "pause": lambda over, who: over.pause(RUN, principal=who),
    "unpause": lambda over, who: over.unpause(RUN, principal=who),
    "hold": lambda over, who: over.hold(RUN, "news", principal=who),
    "release": lambda over, who: over.release(RUN, "news", principal=who),
    "attach": lambda over, who: over.attach(RUN, "pick", 0.8, principal=who),
}


@pytest.mark.proves("SUS-05")
async def test_a_message_of_the_wrong_principal_is_absent_and_the_refusal_is_present() -> None:
    over = runtime(story, authorizer=Only("ada"))
    await over.start(story, id=RUN)

    with pytest.raises(Denied) as denied:
        await over.send(RUN, "news", "forged", principal="eve")
    waits = await over.send(RUN, "news", "real", principal="ada")

    [refusal] = [event for event in await over.events(RUN) if event.type == "EXECUTION_DENIED"]
    assert refusal.payload._asdict() == {"action": "send", "reason": "only ada may", "principal": "eve"}
    assert refusal.metadata == {"principal": "eve"}
    assert [gate.gate for gate in waits.gates] == ["ask"]
    assert [fact.message for fact in await payloads(over, "MESSAGE_RECEIVED")] == ["real"]
    assert str(denied.value) == f"eve may not send {RUN}: only ada may"
    assert (denied.value.action, denied.value.principal, denied.value.reason) == ("send", "eve", "only ada may")


@pytest.mark.parametrize("action", VERBS)
@pytest.mark.parametrize("principal", ["eve", None])
async def test_each_verb_asks_first_and_a_refusal_is_all_that_happens(action: Action, principal: str | None) -> None:
    authorizer = Only("ada")
    over = runtime(story, authorizer=authorizer)
    await over.start(story, id=RUN)

    with pytest.raises(Denied):
        await VERBS[action](over, principal)

    assert authorizer.asked == [(principal, action, RUN, "story")]
    assert (await kinds(over))[3:] == ["SUSPENDED", "DENIED"]
    head = await over.storage.head(ExecutionId(RUN))
    assert head is not None
    assert await over.storage.pending(head.execution_id, head.incarnation) == []


async def test_ending_a_run_by_the_record_alone_asks_as_well() -> None:
    over = runtime(story, authorizer=Only("ada"))
    await over.start(story, id=RUN)

    with pytest.raises(Denied):
        await over.cancel(RUN, principal="eve", force=True)

    assert (await over.load_state(RUN)).status == "suspended"
    assert (await over.cancel(RUN, principal="ada", force=True)).status == "cancelled"


async def test_who_may_does_it_as_without_an_authorizer() -> None:
    over = runtime(story, authorizer=Only("ada"))
    await over.start(story, id=RUN)

    await over.send(RUN, "news", 1, principal="ada")
    failed = await over.resume(RUN, answer=-1, principal="ada")
    again = await over.retry(RUN, principal="ada")

    assert (failed.status, again.status) == ("failed", "failed")
    assert "DENIED" not in await kinds(over)


async def test_starting_and_going_on_without_an_answer_ask_nobody() -> None:
    authorizer = Only("ada")
    over = runtime(story, authorizer=authorizer)

    await over.start(story, id=RUN, principal="eve")
    await over.resume(RUN, principal="eve")

    assert authorizer.asked == []


async def test_a_refusal_may_follow_the_end() -> None:
    over = runtime(story, authorizer=Only("ada"))
    await over.start(story, id=RUN)
    await over.send(RUN, "news", 1, principal="ada")
    await over.resume(RUN, answer=1, principal="ada")

    with pytest.raises(Denied):
        await over.attach(RUN, "pick", 0.1, principal="eve")

    assert (await kinds(over))[-2:] == ["COMPLETED", "DENIED"]
    assert (await over.load_state(RUN)).status == "completed"


async def test_a_run_that_is_driven_journals_the_refusal_itself() -> None:
    over = runtime(long, authorizer=Only("ada"))
    Elsewhere.done = asyncio.Event()
    driving = asyncio.ensure_future(over.start(long, id=RUN))
    async with asyncio.timeout(5):
        while "STEP_STARTED" not in await kinds(over):
            await asyncio.sleep(0)

    with pytest.raises(Denied):
        await over.send(RUN, "news", 1, principal="eve")
    async with asyncio.timeout(5):
        while "DENIED" not in await kinds(over):
            await asyncio.sleep(0)
    Elsewhere.done.set()

    assert (await driving).status == "completed"
    [refusal] = [event for event in await over.events(RUN) if event.type == "EXECUTION_DENIED"]
    assert refusal.metadata == {"request": 1, "principal": "eve"}


class Elsewhere:
    """What a step waits for."""

    done: asyncio.Event


@loom.step
async def linger() -> None:
    await Elsewhere.done.wait()


@loom.flow
async def long(ctx: loom.Context) -> None:
    await ctx.run(linger)


async def test_an_id_that_does_not_exist_is_told_as_that() -> None:
    authorizer = Only("ada")

    with pytest.raises(ExecutionNotFound):
        await runtime(story, authorizer=authorizer).send(RUN, "news", 1, principal="eve")

    assert authorizer.asked == []


async def test_an_authorizer_that_breaks_refuses_and_records_nothing() -> None:
    class Broken:
        async def authorize(self, *_: Any) -> str | None:
            raise ConnectionError("the directory does not answer")

    over = runtime(story, authorizer=Broken())
    await over.start(story, id=RUN)

    with pytest.raises(ConnectionError):
        await over.send(RUN, "news", 1)

    assert (await kinds(over))[-1] == "SUSPENDED"


async def test_without_an_authorizer_nothing_is_read_for_it() -> None:
    class Counted(MemoryStorage):
        rows = 0

        async def row(self, execution_id: ExecutionId) -> Any:
            self.rows += 1
            return await super().row(execution_id)

    store = Counted()
    over = runtime(story, storage=store)
    await over.start(story, id=RUN)
    before = store.rows

    await over.attach(RUN, "pick", 0.8)

    assert store.rows == before + 1  # it is loaded, and looked at no second time
