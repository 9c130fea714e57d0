"""What is brought in from a bundle is what was put into it; and of a store that refuses one log, nothing is changed."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson
import pytest

from loom.core.claims import ContentNotWired
from loom.core.errors import ExecutionTerminated
from loom.core.ids import ExecutionId
from loom.core.state import TERMINAL
from loom.devtools.conformance.logs import appended, first
from loom.driving.runtime import WorkflowRuntime
from loom.driving.stored_log import log_of, stored_records
from loom.kernel.errors import LogCorrupt
from loom.lenses.folding import log_chain, state_digest
from loom.plugins.bundle import BundleStorage
from loom.plugins.bundle.importing import BundleRedacted, ImportConflict, Imported, Importing
from loom.plugins.sqlite import SqliteStorage
from loom.services.reindexing import reindexed
from loom.spi.content_store import Citer
from loom.spi.errors import StoreCorrupt
from loom.spi.event_store import EventRecord, IndexRow, Storage
from loom.spi.memory import MemoryStorage
from tests.forked import Forks
from tests.golden import logs
from tests.plugins.bundle.packing import changed, members_of, packed, sealed, store_of
from tests.plugins.bundle.test_bundles import opened, written

RUN = ExecutionId("refund-42")


async def imported(path: Path, bundle: bytes, target: Storage) -> Imported:
    """Bring *bundle* into *target*, with the contents where those of the target are."""
    return await imported_from(written(path, bundle), target)


async def imported_from(path: Path, target: Storage) -> Imported:
    source = BundleStorage(path)
    await source.open()
    try:
        contents = target.content_store() if isinstance(target, MemoryStorage | SqliteStorage) else None
        return await Importing(source, target, contents, principal="ada").run()
    finally:
        await source.close()


@pytest.fixture(params=["memory", "sqlite"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    store = MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


@pytest.mark.parametrize("name", logs.names())
async def test_a_log_is_the_same_to_the_byte_and_ends_where_it_had_not(
    name: str, target: Storage, tmp_path: Path
) -> None:
    golden = logs.read(name)
    store = await store_of(golden.run, golden.log)
    source = await log_of(store, golden.run)

    brought = await imported(tmp_path / "run.loombundle", (await packed(store, golden.run))[0], target)

    records = await stored_records(target, golden.run)
    here, length = await log_of(target, golden.run), len(golden.log)
    has_ended = source.state().status in TERMINAL
    assert records[:length] == golden.log
    assert log_chain(here.events[:length]) == log_chain(source.events)
    assert [record.type for record in records[length:]] == ([] if has_ended else ["EXECUTION_CANCELLED"])
    assert brought.logs[0].is_ended_here is not has_ended
    assert here.state().is_terminal
    assert state_digest(here.state()) == golden.digests[-1] or not has_ended
    found = await reindexed(target, golden.run)
    assert found is not None
    assert (found.became, found.differences) == ("right", {})
    assert await target.claim("a worker", lease_ms=1, limit=9) == []


async def test_it_is_told_how_far_reading_and_then_writing_have_come(target: Storage, tmp_path: Path) -> None:
    golden = logs.read("waiting")
    store = await store_of(golden.run, golden.log)
    source = BundleStorage(written(tmp_path / "run.loombundle", (await packed(store, golden.run))[0]))
    await source.open()
    told: list[tuple[str, int]] = []

    await Importing(source, target, None, principal="ada", told=lambda *each: told.append(each)).run()
    await source.close()

    assert list(dict.fromkeys(phase for phase, _ in told)) == ["reading", "writing"]
    assert sum(events for phase, events in told if phase == "reading") == len(golden.log)
    assert sum(events for phase, events in told if phase == "writing") == len(golden.log)


async def test_to_bring_it_in_again_changes_nothing_whatever_came_of_the_run(target: Storage, tmp_path: Path) -> None:
    golden = logs.read("waiting")
    store = await store_of(golden.run, golden.log)
    bundle, _ = await packed(store, golden.run)
    await imported(tmp_path / "run.loombundle", bundle, target)
    before = await stored_records(target, golden.run)

    again = await imported(tmp_path / "run.loombundle", bundle, target)
    at_home = await imported(tmp_path / "run.loombundle", bundle, store)

    assert [log.became for log in again.logs] == [log.became for log in at_home.logs] == ["there"]
    assert await stored_records(target, golden.run) == before
    assert await stored_records(store, golden.run) == golden.log


async def test_another_run_under_one_of_the_ids_is_refused_and_nothing_is_written(
    target: Storage, tmp_path: Path
) -> None:
    golden, other = logs.read("gates"), logs.read("hello")
    store = await store_of(golden.run, golden.log)
    await appended(store, replace(first(other.run), events=other.log, index=await _index(other)))
    bent = [golden.log[0], golden.log[1]._replace(at=golden.log[1].at + 1), *golden.log[2:]]
    await appended(target, replace(first(golden.run), events=bent))

    with pytest.raises(ImportConflict, match="another run from event 1 on"):
        await imported(tmp_path / "x.loombundle", (await packed(store, other.run, golden.run))[0], target)

    assert await target.ids() == [golden.run]
    assert await stored_records(target, golden.run) == bent


async def test_a_log_that_is_shorter_here_is_another(target: Storage, tmp_path: Path) -> None:
    golden = logs.read("hello")
    store = await store_of(golden.run, golden.log)
    await appended(target, replace(first(golden.run), events=golden.log[:2]))

    with pytest.raises(ImportConflict, match="from event 2 on"):
        await imported(tmp_path / "x.loombundle", (await packed(store, golden.run))[0], target)


async def _index(golden: logs.Golden) -> IndexRow:
    row = await (await store_of(golden.run, golden.log)).row(golden.run)
    assert row is not None
    return row.index


async def test_nobody_can_have_it_go_on_but_by_a_fork(tmp_path: Path) -> None:
    golden, target = logs.read("waiting"), MemoryStorage()
    store = await store_of(golden.run, golden.log)
    await imported(tmp_path / "run.loombundle", (await packed(store, golden.run))[0], target)
    runtime = WorkflowRuntime(target, flows={})

    for verb in (runtime.unpause, runtime.pause):
        with pytest.raises(ExecutionTerminated):
            await verb(golden.run)
    forked = await runtime.fork(golden.run, at=len(golden.log) - 1, id="again")

    assert forked.status == "forked"
    records = await stored_records(target, ExecutionId("again"))
    assert records[: len(golden.log)] == golden.log
    await runtime.close()


async def test_contents_are_there_and_cited_before_the_logs_are(target: Storage, tmp_path: Path) -> None:
    golden, store = logs.read("hello"), MemoryStorage()
    ref = await store.content_store().put(b"page" * 500_000)
    envelope = b'{"start":1,"result":{"ref":"%s","size":2000000}}' % ref.encode()
    place = next(number for number, record in enumerate(golden.log) if record.type == "STEP_COMPLETED")
    claimed = [*golden.log[:place], golden.log[place]._replace(payload=envelope), *golden.log[place + 1 :]]
    await appended(store, replace(first(golden.run), events=claimed, index=await _index(golden)))
    bundle, _ = await packed(store, golden.run)

    brought = await imported(tmp_path / "run.loombundle", bundle, target)

    assert isinstance(target, MemoryStorage | SqliteStorage)
    contents = target.content_store()
    assert brought.contents == 1
    assert await contents.sizes([ref]) == {ref: 2_000_000}
    assert [cited.by for cited in await contents.citations([ref])] == [Citer(golden.run, None)]
    source = await opened(tmp_path / "run.loombundle", bundle)
    with pytest.raises(ContentNotWired):
        await Importing(source, MemoryStorage(), None, principal=None).run()
    await source.close()
    await contents.close()


# What is refused


async def test_a_redacted_bundle_is_not_taken_for_its_runs(tmp_path: Path) -> None:
    golden = logs.read("hello")
    members = members_of((await packed(await store_of(golden.run, golden.log), golden.run))[0])
    redacted = changed(members, lambda m: m.update(redacted={"fields": ["card"], "patterns": 0, "values": 1}))
    target = MemoryStorage()

    with pytest.raises(BundleRedacted, match="for looking only"):
        await imported_from(sealed(tmp_path / "x.loombundle", redacted), target)

    assert await target.ids() == []


async def test_a_log_that_does_not_fold_is_refused(target: Storage, tmp_path: Path) -> None:
    golden, store = logs.read("gates"), MemoryStorage()
    gap = [*golden.log[:3], *golden.log[4:]]
    await appended(store, replace(first(golden.run), events=gap, index=await _index(golden)))

    with pytest.raises(LogCorrupt, match="event 3 is missing"):
        await imported(tmp_path / "x.loombundle", (await packed(store, golden.run))[0], target)

    assert await target.ids() == []


async def test_a_link_cannot_put_itself_behind_a_run_of_the_store(target: Storage, tmp_path: Path) -> None:
    """A log that says it is the next of another's would be the one that others' requests are for."""
    golden, store = logs.read("hello"), MemoryStorage()
    start = orjson.loads(golden.log[0].payload) | {"chain": ["victim", 1], "link": 9}
    stray = [golden.log[0]._replace(payload=orjson.dumps(start)), *golden.log[1:]]
    await appended(target, first(ExecutionId("victim"), b"0"))
    await appended(store, replace(first(ExecutionId("stray")), events=stray))

    with pytest.raises(StoreCorrupt, match="it is of victim, which is no run of the bundle"):
        await imported(tmp_path / "x.loombundle", (await packed(store, "stray"))[0], target)

    assert await target.ids() == ["victim"]


# Killed

LOGS, NOTES = 2, 5_000


MORTAL: Final = Path(__file__).with_name("mortal.py")
KILLED: Final = 128 + signal.SIGKILL


def mortal(forks: Forks, place: int, *command: str, folder: Path) -> int:
    """Run the command, which dies when it comes to part number *place*; return how a shell says that it ended."""
    line = [str(forks.programs / "python"), str(MORTAL), str(place), *command]
    return subprocess.run(line, cwd=folder, capture_output=True, check=False).returncode


async def fill(store: Storage) -> list[EventRecord]:
    """Write some logs of several parts each, and return what is in every one."""
    golden = logs.read("hello")
    data = b'{"id":"n","ordinal":1,"digest":"d","data":"%s"}' % (b"x" * 400)
    note, end = EventRecord(0, "user.note", golden.log[0].at, data, b""), golden.log[-1]
    whole = [golden.log[0], *itertools.repeat(note, NOTES), end]
    numbered = [record._replace(sequence=number) for number, record in enumerate(whole)]
    index = await _index(golden)
    for name in (f"r-{number}" for number in range(LOGS)):
        item = replace(first(ExecutionId(name)), events=numbered, index=replace(index, chain=name))
        await appended(store, item)
    return numbered


async def found_in(database: Path) -> list[list[EventRecord]]:
    store = SqliteStorage(database)
    there = [await stored_records(store, id) for id in await store.ids()]
    await store.close()
    return there


def test_an_import_that_is_killed_has_brought_in_all_or_nothing_and_is_done_again(forks: Forks, tmp_path: Path) -> None:
    big = tmp_path / "big.loombundle"

    async def made() -> tuple[list[EventRecord], int]:
        store = MemoryStorage()
        records = await fill(store)
        data, told = await packed(store, *(f"r-{number}" for number in range(LOGS)))
        written(big, data)
        return records, sum(len(log.parts) for log in told.manifest.logs)

    whole, parts = asyncio.run(made())
    killed, there = 0, list[list[EventRecord]]()

    for place in range(1, 4 * parts):  # each part is read for the fold, and again as it is written
        status = mortal(forks, place, "import", "big.loombundle", folder=tmp_path)
        there = asyncio.run(found_in(tmp_path / ".loom" / "loom.db"))
        if status == 0:
            break
        assert (status, there) == (KILLED, [])
        killed += 1

    assert there == [whole] * LOGS
    assert killed == 2 * parts > 10


def test_a_bundle_whose_writing_is_killed_is_not_there_under_its_name(forks: Forks, tmp_path: Path) -> None:
    async def made() -> None:
        store = SqliteStorage(tmp_path / "loom.db")
        await fill(store)
        await store.close()

    asyncio.run(made())
    statuses = list[int]()

    while 0 not in statuses:
        assert not list(tmp_path.glob("r-0.*"))
        statuses.append(mortal(forks, len(statuses) + 1, "bundle", "r-0", "--store", "loom.db", folder=tmp_path))

    assert set(statuses) == {0, KILLED}
    assert len(statuses) > 3
    records = asyncio.run(_of_bundle(tmp_path / "r-0.loombundle"))
    assert len(records) == NOTES + 2


async def _of_bundle(path: Path) -> list[EventRecord]:
    bundle = BundleStorage(path)
    records = await stored_records(bundle, ExecutionId("r-0"))
    await bundle.close()
    return records
