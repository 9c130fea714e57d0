from __future__ import annotations

import sqlite3
from itertools import chain
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.plugins.sqlite import SqliteStorage
from tests.plugins.sqlite.processes import APPENDER, finish, start

SMALL_CHECKPOINT_BYTES = 64 << 10


async def test_processes_that_race_for_one_log_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"

    printed = [finish(process) for process in [start(APPENDER, path, REFUND, 60) for _ in range(3)]]

    assert [lines.pop() for lines in printed] == ["done"] * 3
    assert sorted(await _log(path, REFUND)) == sorted(chain.from_iterable(printed))


async def test_five_processes_that_start_on_no_file_all_get_in(tmp_path: Path) -> None:
    path = tmp_path / "made" / "for" / "it" / "loom.db"

    printed = [finish(process) for process in [start(APPENDER, path, f"run-{n}", 5) for n in range(5)]]

    assert [len(lines) for lines in printed] == [6] * 5
    assert [await _log(path, f"run-{n}") for n in range(5)] == [lines[:-1] for lines in printed]


async def test_commits_survive_frequent_checkpoints_of_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    runs = ["shared", "shared", "own-1", "own-2"]

    processes = [start(APPENDER, path, run, 300, SMALL_CHECKPOINT_BYTES) for run in runs]
    printed = [finish(process)[:-1] for process in processes]

    assert sorted(await _log(path, "shared")) == sorted(printed[0] + printed[1])
    assert [await _log(path, run) for run in runs[2:]] == printed[2:]
    assert _integrity(path) == "ok"


@pytest.mark.parametrize("acknowledged", [1, 7, 150])
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "loom.db"
    process = start(APPENDER, path, REFUND, 100_000, SMALL_CHECKPOINT_BYTES)
    assert process.stdout is not None
    seen = [process.stdout.readline().strip() for _ in range(acknowledged)]

    process.kill()
    seen += process.stdout.read().split()  # not by communicate, which passes over what is buffered
    process.communicate()

    log = await _log(path, REFUND)
    assert log[: len(seen)] == seen
    assert len(log) - len(seen) in {0, 1}  # the last commit may have come before its acknowledgement
    assert _integrity(path) == "ok"


async def test_a_writer_goes_on_after_another_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    victim = start(APPENDER, path, REFUND, 100_000)
    assert victim.stdout is not None
    victim.stdout.readline()

    victim.kill()
    victim.communicate()

    assert finish(start(APPENDER, path, REFUND, 3))[-1] == "done"


async def test_a_disk_that_fills_up_is_told_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    limit_bytes = 256 << 10

    *acknowledged, code = finish(start(APPENDER, path, REFUND, 10_000, 4 << 20, limit_bytes))

    assert code == "store-unavailable"
    assert await _log(path, REFUND) == acknowledged
    assert finish(start(APPENDER, path, REFUND, 1))[-1] == "done"


async def test_a_reader_follows_a_writer_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    writer = SqliteStorage(path)
    await appended(writer, first(ExecutionId("other")))
    reader = SqliteStorage(path, readonly=True)
    process = start(APPENDER, path, REFUND, 40)

    seen: list[str] = []
    async for record in reader.subscribe(REFUND):
        seen.append(record.payload.decode())
        if len(seen) == 40:
            break

    assert seen == finish(process)[:-1]
    await reader.close()
    await writer.close()


async def _log(path: Path, execution_id: str) -> list[str]:
    store = SqliteStorage(path)
    log = await payloads(store, ExecutionId(execution_id))
    await store.close()
    return [payload.decode() for payload in log]


def _integrity(path: Path) -> str:
    database = sqlite3.connect(path)
    try:
        [verdict] = database.execute("PRAGMA integrity_check").fetchone()
    finally:
        database.close()
    return str(verdict)
