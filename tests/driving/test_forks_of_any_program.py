"""Forks in compacted history, tried on any program: each is what it would be had its source never been compacted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.core.state import TERMINAL, empty_state
from loom.driving.loading import load
from loom.driving.stored_log import records_of
from loom.kernel.codec import decode_events
from loom.kernel.fold import fold
from loom.lenses.folding import state_json, states
from loom.plugins.sqlite import SqliteStorage
from loom.services.compacting import furthest
from loom.services.snapshot_taking import take_snapshot
from loom.spi.event_store import Append, EventRecord, Storage
from loom.spi.event_trim import Deleted
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import SnapshotCodec
from tests.driving.compacted_forks import ForkedStorage
from tests.kernel.lives import INDEX, RUN, Driver, Way, live
from tests.kernel.programs import replayer
from tests.kernel.test_live_and_replay import Program, programs, ways, wild
from tests.services.compacted import compacted, numbered, row_of, told

pytestmark = pytest.mark.timeout(400)  # a failing program takes its time to become small

SOURCE: Final = ExecutionId("source")
_numbers = itertools.count()
_TAKEN_OVER: Final = "EXECUTION_TAKEN_OVER"
EXAMPLES: Final = settings.default.max_examples // 6 if settings.default is not None else 8
"""Each is a run of three lives or more."""


class Cut(NamedTuple):
    """How a source is compacted, and its fork: *through* which events; a snapshot is taken *at* one of them."""

    at: int
    through: int
    codec: SnapshotCodec
    again: int | None
    is_deleted: bool


def cuts(log: Sequence[EventRecord], at: int) -> st.SearchStrategy[Cut]:
    return st.builds(
        Cut,
        at=st.just(at),
        through=st.integers(1, furthest(log)),
        codec=st.sampled_from(["json", "zstd"]),
        again=st.one_of(st.none(), st.integers(1, at + 1)),
        is_deleted=st.booleans(),
    )


def open_places(log: Sequence[EventRecord]) -> list[int]:
    """Return the events of a log after which its run has not ended."""
    events = decode_events(RUN, log)
    return [state.sequence for state in states(events) if state.status not in TERMINAL and state.sequence]


async def begun(store: Storage, log: Sequence[EventRecord]) -> None:
    """Let a run in *store* have *log*."""
    status = fold(decode_events(SOURCE, log), empty_state(SOURCE)).status
    index = replace(INDEX, status=status, chain=SOURCE, ended=status in TERMINAL)
    await store.append(
        [Append(execution_id=SOURCE, incarnation=None, expected=0, append_id="it", events=log, index=index)]
    )


async def forked(store: Storage, at: int, way: Way) -> Driver:
    """Fork the run after event *at*, and return who drives the fork."""
    driver = Driver(store, way)
    await driver.runtime.fork(SOURCE, at=at, id=RUN)
    return driver


async def gone(store: ForkedStorage) -> bool:
    """Delete the source, and tell whether it went: one that has not ended does not."""
    head = await store.head(SOURCE)
    assert head is not None
    return isinstance((await store.delete([[head]]))[0], Deleted)


async def verdict(store: Storage) -> Any:
    kept = await records_of(store, RUN)
    return (await replayer().replay(RUN, kept.records, base=kept.base)).verdict


def breaks(found: Any) -> tuple[object, ...]:
    """Return where a replay breaks, of a verdict, and of what."""
    return found.step, found.sequence, found.recorded, found.asked, found.why


def unnamed(log: Sequence[EventRecord]) -> list[EventRecord]:
    """Return *log* without the names of those who drove, which are another in each runtime."""
    return [event._replace(payload=_nameless(event.payload)) if event.type == _TAKEN_OVER else event for event in log]


def _nameless(payload: bytes) -> bytes:
    return orjson.dumps(orjson.loads(payload) | {"driver": ""})


async def later(store: Storage, start: int) -> list[Any]:
    """Return the state after each event of the fork, from *start* on."""
    kept = await records_of(store, RUN)
    first = kept.base.length if kept.base is not None else 0
    events = decode_events(RUN, unnamed([record for record in kept.records if record.sequence >= first]))
    return [state_json(state) for state in states(events, base=kept.base) if state.sequence >= start]


@pytest.mark.proves("LIF-06")
@settings(max_examples=EXAMPLES)
@given(program=programs(wild), first=ways(retries=1), second=ways(retries=1), data=st.data())
async def test_a_fork_of_a_compacted_run_comes_to_what_one_of_the_whole_log_comes_to(
    program: Program, first: Way, second: Way, data: st.DataObject
) -> None:
    await as_of_the_whole(MemoryStorage(), program, first, second, data)


@pytest.mark.proves("LIF-06")
@settings(max_examples=max(1, EXAMPLES // 4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs(wild), first=ways(retries=1), second=ways(retries=1), data=st.data())
async def test_so_it_does_in_sqlite(
    tmp_path: Path, program: Program, first: Way, second: Way, data: st.DataObject
) -> None:
    store = SqliteStorage(tmp_path / f"{next(_numbers)}.db")
    await as_of_the_whole(store, program, first, second, data)
    await store.close()


async def as_of_the_whole(short: ForkedStorage, program: Program, first: Way, second: Way, data: st.DataObject) -> None:
    """Hold a fork of a run that is compacted in *short*, which is empty, to a fork of the same run that is whole."""
    life = await live(program, first)
    log = life.log[: data.draw(st.integers(3, len(life.log)), label="length")] if len(life.log) > 3 else life.log
    if furthest(log) < 1:
        return
    at = data.draw(st.sampled_from(open_places(log)), label="at")
    cut = data.draw(cuts(log, at), label="cut")
    plain, archive = MemoryStorage(), MemoryStorage()
    await begun(plain, log)
    await begun(short, log)
    await take_snapshot(short, await row_of(short, SOURCE), at=at, codec=cut.codec)
    await compacted(short, archive, SOURCE, through=cut.through, codec=cut.codec)

    there, here = await forked(plain, at, second), await forked(short, at, second)
    assert (await load(short, RUN)).state == (await load(plain, RUN)).state
    assert await verdict(short) == await verdict(plain)
    is_gone = cut.is_deleted and await gone(short)
    if cut.again is not None:
        await compacted(short, archive, RUN, through=min(cut.again, at))
    whole, rest = await there.go_on(), await here.go_on()
    assert breaks(await verdict(short)) == breaks(await verdict(plain))
    if not is_gone:
        assert numbered(await told(short, archive, RUN)) == list(range((await row_of(short, RUN)).length))
    if not isinstance(short, MemoryStorage):
        return

    assert (rest.traces, rest.effects) == (whole.traces, whole.effects)
    assert rest.outcome == whole.outcome
    assert unnamed([record for record in rest.log if record.sequence > at]) == unnamed(whole.log[at + 1 :])
    assert await later(short, at + 1) == await later(plain, at + 1)
    assert await verdict(short) == await verdict(plain)
    if not is_gone:
        assert unnamed(await told(short, archive, RUN)) == unnamed(whole.log)
