"""The state that a fork begins with: the fold of the log, whole but for the calls that are settled and tell of no child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from rpds import List

import loom
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.core.upcasting import UPCASTERS
from loom.driving.parents import tells_of_child
from loom.driving.state_codec import decode_unsettled, encode
from loom.driving.unsettled import unsettled_at, without_done_steps
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.fold import evolve, fold
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.golden import logs as golden
from tests.kernel.running import RUN, runtime
from tests.kernel.test_fold import logs


def unsettled(state: ExecutionState) -> ExecutionState:
    """Return *state* with the calls alone that are open, or tell of a child."""
    return state._replace(settled=List(list(filter(tells_of_child, state.settled))))


def assert_read_alike(records: Sequence[EventRecord], events: Sequence[EventEnvelope[Any]]) -> None:
    """Assert of every event of a log that the state after it is read alike from a snapshot, and from the log."""
    state = empty_state(events[0].execution_id)
    for length, event in enumerate(events, 1):
        state = evolve(state, event)
        wanted = unsettled(state)

        assert unsettled(decode_unsettled(encode(state))) == wanted
        if all(each.type != "EXECUTION_RETRIED" for each in events[:length]):
            some = decode_events(state.execution_id, without_done_steps(records[:length]))
            after = fold(some, empty_state(state.execution_id))
            assert unsettled(after._replace(sequence=state.sequence, at=state.at)) == wanted


@pytest.mark.parametrize("name", golden.names())
def test_at_every_event_of_every_golden_log_it_is_the_fold(name: str) -> None:
    log = golden.read(name)

    assert_read_alike(log.log, log.events)


@given(logs())
def test_at_every_event_of_any_log_it_is_the_fold(events: list[EventEnvelope[Any]]) -> None:
    assert_read_alike([encode_event(event) for event in events], events)


def test_a_long_log_of_steps_is_read_and_not_decoded() -> None:
    log = golden.read("loops")

    left = without_done_steps(log.log)

    assert [record.sequence for record in left][:2] == [0, 27], "thirteen steps ended before anything else happened"


def test_what_is_written_in_another_way_is_left_in() -> None:
    start = EventRecord(1, "STEP_STARTED", 5, b'{"id":"a","ordinal":0,"digest":"d"}', b"")
    done = EventRecord(2, "STEP_COMPLETED", 5, b'{"start":1,"result":3}', b"")
    spaced = done._replace(payload=b'{ "start": 1, "result": 3}')
    told = done._replace(metadata=b'{"v":2}')
    spawn = start._replace(payload=b'{"id":"spawn.child","ordinal":0,"digest":"d","args":{"on_cancel":"cancel"}}')
    other = done._replace(payload=b'{"start":12,"result":3}')

    assert without_done_steps([start, done]) == []
    for two in ([start, spaced], [start, told], [spawn, done], [start, other], [done, start]):
        assert without_done_steps(two) == two


def test_what_had_other_fields_in_an_earlier_version_is_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    events = golden.read("loops").events
    body = orjson.loads(encode(fold(events, empty_state(events[0].execution_id))))
    [steps] = [group for group in body["events"] if group["type"] == "STEP_STARTED"]
    steps["version"], steps["fields"]["called"] = 0, steps["fields"].pop("id")
    renamed = {0: lambda fields: {"id": fields.pop("called"), **fields}}
    monkeypatch.setitem(cast(Any, UPCASTERS), "STEP_STARTED", renamed)

    state = decode_unsettled(orjson.dumps(body))

    assert len(list(state.settled)) == len(steps["fields"]["called"])


class Paging(MemoryStorage):
    """A store whose pages have one event each."""

    async def read(self, execution_id: Any, **limits: Any) -> Sequence[EventRecord]:
        return await super().read(execution_id, **{**limits, "limit_bytes": 1})


tries: list[int] = []


@loom.step(retry=loom.Retry(attempts=1))
async def shaky(n: int) -> int:
    tries.append(n)
    if len(tries) < 3:
        raise ValueError("not yet")
    return n


@loom.flow
async def pair(ctx: loom.Context) -> list[int]:
    first = await ctx.run(shaky, 1)
    return [first, await ctx.suspend("more", expects=int)]


@pytest.mark.parametrize("storage", [MemoryStorage, Paging])
async def test_a_log_that_looks_back_at_what_was_settled_is_folded_whole(storage: type[MemoryStorage]) -> None:
    tries.clear()
    over = runtime(pair, storage=storage())
    await over.start(pair, id=RUN)
    await over.retry(RUN)
    await over.retry(RUN)
    row = await over.storage.row(ExecutionId(RUN))
    assert row is not None
    [first, _] = [event.sequence for event in await over.events(RUN) if event.type == "EXECUTION_RETRIED"]

    before, at = await unsettled_at(over.storage, row, first - 1), await unsettled_at(over.storage, row, first)
    fork = await over.fork(RUN, at=row.length - 1)

    assert before is not None
    assert (before.sequence, at) == (first - 1, None)
    assert (await over.resume(fork.execution_id, answer=2)).value == [1, 2]


# -- children ---------------------------------------------------------------------------------------------------------------


@loom.flow
async def child(ctx: loom.Context) -> int:
    return await ctx.suspend("kid", expects=int)


@loom.flow
async def parent(ctx: loom.Context) -> list[int]:
    kid = await loom.spawn(ctx, child)
    news = await ctx.receive(f"{RUN}:child", expects=int)
    return [news, await loom.await_child(ctx, kid)]


async def test_a_message_on_a_topic_named_like_a_child_is_not_its_end() -> None:
    over = runtime(parent, child)
    await over.start(parent, id=RUN)
    await over.settled()
    await over.send(RUN, f"{RUN}:child", 5)
    await over.settled()
    row = await over.storage.row(ExecutionId(RUN))
    assert row is not None

    fork = (await over.fork(RUN, at=row.length - 1)).execution_id
    await over.resume(fork)
    await over.resume(f"{fork}:child", answer=7)
    await over.settled()

    assert (await over.load_state(fork)).facts.result == [5, 7]
