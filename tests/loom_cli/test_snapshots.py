"""`loom snapshot show` and `list`: what a snapshot is, what it holds, and what becomes of one that cannot be read."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.driving import snapshot_codecs
from loom.driving.loading import load
from loom.driving.snapshots import snapshot_of
from loom.lenses.folding import fold_at, state_json
from loom.plugins.sqlite import SqliteStorage
from tests.driving.long_runs import RUN, climber, stairs
from tests.loom_cli.projects import Ended, loom
from tests.loom_cli.story import HOSTILE, log_of

STAIRS = 150
Snapshots = Callable[..., Ended]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that has a snapshot in each codec, the newest compressed, and one without any."""
    path = tmp_path_factory.mktemp("snapshots") / "loom.db"

    async def made() -> None:
        storage = SqliteStorage(path)
        await climber(storage, snapshot_every=100).start(stairs, STAIRS, id=RUN)
        await climber(storage, snapshot_codec="zstd", snapshot_every=307).resume(RUN, answer=f"a {HOSTILE}")
        await climber(storage).start(stairs, 3, id="short")
        await storage.close()

    asyncio.run(made())
    return path


@pytest.fixture
def store(made_once: Path, tmp_path: Path) -> Path:
    """A copy of it that is the test's own."""
    return Path(shutil.copy(made_once, tmp_path / "loom.db"))


@pytest.fixture
def snapshots(store: Path) -> Snapshots:
    def run(*arguments: str) -> Ended:
        return loom("snapshot", *arguments, "--store", str(store), folder=store.parent)

    return run


async def events_of(store: Path) -> list[object]:
    storage = SqliteStorage(store, readonly=True)
    events = await log_of(storage, RUN)
    await storage.close()
    return list(events)


@pytest.mark.proves("CLI-19")
@pytest.mark.parametrize(("at", "codec"), [((), "zstd"), (("--at", "299"), "json"), (("--at", "150"), "json")])
def test_it_shows_what_a_snapshot_is_and_the_state_it_holds(
    at: tuple[str, ...], codec: str, store: Path, snapshots: Snapshots
) -> None:
    shown = snapshots("show", RUN, *at, "--json").json

    events = asyncio.run(events_of(store))
    assert shown["codec"] == codec
    assert shown["sequence"] == {(): 306, ("--at", "299"): 299, ("--at", "150"): 99}[at]
    assert shown["state"] == json.loads(json.dumps(state_json(fold_at(events, shown["sequence"]))))  # type: ignore[arg-type]
    with closing(sqlite3.connect(store)) as raw:
        [size] = raw.execute("SELECT length(body) FROM snapshots WHERE sequence = ?", (shown["sequence"],)).fetchone()
    assert shown["size"] == size


@pytest.mark.proves("CLI-19")
def test_people_are_told_the_same_in_lines(snapshots: Snapshots) -> None:
    shown = snapshots("show", RUN[:3])

    assert shown.status == 0
    assert re.sub(r" +", " ", shown.out).splitlines()[:4] == [
        "long after event 306",
        " codec zstd",
        f" size {snapshots('show', RUN, '--json').json['size']:,} bytes",
        *[line for line in re.sub(r" +", " ", shown.out).splitlines() if line.startswith(" made ")],
    ]
    assert "by fold 1.0.0 and state codec 1.0.0" in shown.out
    assert "150 steps, 1 decision, 1 gate" in shown.out
    assert "gate top#1" in shown.out
    assert not set("\x1b\x07\x9b\u202e\x00") & set(shown.out)


def test_all_are_listed_the_newest_first(snapshots: Snapshots) -> None:
    lines = snapshots("list", RUN).out.splitlines()

    assert [line.split()[:2] for line in lines] == [
        ["EVENT", "CODEC"],
        ["306", "zstd"],
        ["299", "json"],
        ["199", "json"],
        ["99", "json"],
    ]
    told = snapshots("list", RUN, "--json").json
    assert [each["sequence"] for each in told] == [306, 299, 199, 99]
    assert set(told[0]) | {"state"} == set(snapshots("show", RUN, "--json").json)


def test_a_run_without_any_is_told_so(snapshots: Snapshots) -> None:
    listed, shown, before = snapshots("list", "short"), snapshots("show", "short"), snapshots("show", RUN, "--at", "5")

    assert (listed.status, listed.out) == (0, "")
    assert "has no snapshots in sqlite:" in listed.err
    assert snapshots("list", "short", "--json").json == []
    assert shown.status == before.status == 4
    assert "error[snapshot-not-found]: short has no snapshot" in shown.err
    assert "has no snapshot at event 5 or before" in before.err
    assert snapshots("show", "nobody").status == 4


def test_a_damaged_one_is_told_so_and_what_it_is(store: Path, snapshots: Snapshots) -> None:
    with closing(sqlite3.connect(store)) as raw, raw:
        raw.execute("UPDATE snapshots SET body = substr(body, 2) WHERE sequence = 306")

    shown = snapshots("show", RUN)

    assert shown.status == 1
    assert "long  after event 306" in shown.out
    assert "error[snapshot-unusable]" in shown.err
    assert "it is damaged" in shown.err
    assert "Nothing is lost: the log says the same" in shown.err
    assert snapshots("show", RUN, "--at", "299").status == 0


def test_one_that_cannot_be_decompressed_here_is_told_so(snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, snapshot_codecs._MODULE, None)

    shown = snapshots("show", RUN)

    assert shown.status == 1
    assert "which is not installed" in shown.err


def test_those_of_other_versions_and_checkpoints_are_marked(store: Path, snapshots: Snapshots) -> None:
    async def marked() -> None:
        storage = SqliteStorage(store)
        state, row, _ = await load(storage, RUN)
        await storage.put_snapshot(snapshot_of(state, row.incarnation, at=0, is_checkpoint=True))
        await storage.close()

    asyncio.run(marked())
    with closing(sqlite3.connect(store)) as raw, raw:
        raw.execute("UPDATE snapshots SET fold_version = '0.9.0' WHERE sequence = 99")

    first, *_, last = snapshots("list", ExecutionId(RUN)).out.splitlines()[1:]

    assert first.rstrip().endswith("checkpoint")
    assert last.rstrip().endswith("not used: by another version")
    assert "checkpoint events up to it were taken out of the log" in snapshots("show", RUN).out
    assert "by fold 0.9.0 and state codec 1.0.0, and this Loom has 1.0.0" in snapshots("show", RUN, "--at", "99").out
