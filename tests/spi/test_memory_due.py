"""The heap of due times says what a look at all logs would say."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, after, appended, first
from loom.spi.clock import VirtualClock
from loom.spi.event_store import NOBODY, Appended, LeaseChange
from loom.spi.memory import MemoryStorage
from loom.spi.memory_due import ready_at

RUNS: Final = [ExecutionId(name) for name in ("a", "b", "c")]
LEASE_MS: Final = 10

runs = st.sampled_from(RUNS)
times = st.integers(0, 30)
changes = st.one_of(
    st.tuples(st.just("park"), runs, st.none() | times),
    st.tuples(st.just("end"), runs, st.none()),
    st.tuples(st.just("drive"), runs, st.none()),
    st.tuples(st.just("call"), runs, st.none()),
    st.tuples(st.just("claim"), st.sampled_from(["one", "other"]), st.integers(1, 3)),
    st.tuples(st.just("leave"), runs, st.none()),
    st.tuples(st.just("release"), runs, st.none()),
    st.tuples(st.just("advance"), st.just(""), times),
)


@given(st.lists(changes, max_size=25))
def test_what_is_due_next_is_what_a_look_at_all_logs_finds(given_changes: list[tuple[str, Any, Any]]) -> None:
    asyncio.run(_changed(given_changes))


async def _changed(given_changes: list[tuple[str, Any, Any]]) -> None:
    clock = VirtualClock(0)
    store = MemoryStorage(clock=clock)
    heads = {run: await appended(store, first(run, index=replace(INDEX, wake_at=None))) for run in RUNS}
    for what, whom, value in given_changes:
        match what:
            case "claim":
                expected = _due(store, clock.now_ms())[:value]
                claims = await store.claim(whom, lease_ms=LEASE_MS, limit=value)
                assert [claim.row.execution_id for claim in claims] == expected
            case "advance":
                clock.advance(value)
            case _:
                heads[whom] = await _moved(store, heads[whom], what, whom, value)
        for at in (0, clock.now_ms(), clock.now_ms() + 5):
            later = [ready for log in store._logs.values() if (ready := ready_at(log)) is not None and ready > at]
            assert store.next_due_ms(after=at) == min(later, default=None)


async def _moved(store: MemoryStorage, head: Appended, what: str, run: ExecutionId, value: Any) -> Appended:
    log = store._logs[run]
    match what:
        case "park":
            index = replace(INDEX, status="suspended", wake_at=value)
            return await appended(store, after(head, run, b"1", index=index, lease=NOBODY))
        case "end":
            ended = replace(INDEX, status="completed", ended=True)
            return await appended(store, after(head, run, b"1", index=ended, lease=NOBODY))
        case "drive":
            return await appended(store, after(head, run, b"1", index=INDEX, lease=LeaseChange("one", LEASE_MS)))
        case "call":
            await store.insert(run, head.incarnation, kind="message", key="", at=1, body=b"{}")
        case "leave":
            await store.leave(log.driver, {run: 0})
        case "release":
            await store.release(log.driver, [run])
    return head


def _due(store: MemoryStorage, now: int) -> list[ExecutionId]:
    due = [(at, log) for log in store._logs.values() if (at := ready_at(log)) is not None and at <= now]
    return [log.execution_id for _, log in sorted(due, key=lambda each: (each[0], each[1].incarnation))]
