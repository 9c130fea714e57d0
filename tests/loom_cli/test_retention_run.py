"""`loom retention run`: what it deletes, what it predicts, and what it says."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.event_trim import DONE, child_of, ended
from loom.devtools.conformance.logs import INDEX, after, appended, first
from loom.devtools.conformance.snapshot_store import BYTES, log_of, put, snapshot
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Appended
from loom_cli.exits import ExitCode
from loom_cli.retaining import KEPT_WORDS
from tests.loom_cli.desk import Running
from tests.loom_cli.projects import Ended, loom, tree
from tests.retained import fill

POLICY = """
from datetime import timedelta

import loom

POLICY = loom.retention_policy(terminal_ttl=timedelta(days=30))
PRUNING = loom.retention_policy(terminal_ttl=timedelta(days=30), snapshots=2)
OTHER = 7
"""


def ids(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / ".loom" / "loom.db")) as raw:
        return [name for (name,) in raw.execute("SELECT id FROM executions ORDER BY id")]


def filled(folder: Path, *, old: int = 3) -> None:
    """Make a store with *old* runs that ended in 1970, one that is open, and a family that is kept."""

    async def make() -> None:
        store = SqliteStorage(folder / ".loom" / "loom.db")
        await fill(store, old)
        await appended(store, first(ExecutionId("open"), index=INDEX))
        await ended(store, ExecutionId("parent"))
        await appended(store, first(ExecutionId("parent:c"), index=child_of(ExecutionId("parent"), INDEX)))
        await store.close()

    (folder / "retention.py").write_text(POLICY, encoding="utf-8")
    asyncio.run(make())


def run(folder: Path, *options: str) -> Ended:
    return loom("retention", "run", *options, folder=folder)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    filled(tmp_path)
    return tmp_path


@pytest.mark.proves("CLI-17", "RNG-16")
def test_it_deletes_by_the_policy_what_its_dry_run_has_predicted(house: Path) -> None:
    would = run(house, "--policy", "retention:POLICY", "--dry-run", "--json")
    still = ids(house)

    did = run(house, "--policy", "retention:POLICY", "--json")

    assert (would.status, did.status) == (ExitCode.DONE, ExitCode.DONE)
    assert still == ["old-000000", "old-000001", "old-000002", "open", "parent", "parent:c"]
    assert ids(house) == ["open", "parent", "parent:c"]
    assert did.json["deleted"] == {"families": 3, "runs": 3, "logs": 3, "events": 6}
    assert did.json["kept"] == {"child": 1}
    passing = {"dry_run", "ended_before_at"}
    assert {key: value for key, value in would.json.items() if key not in passing} == {
        key: value for key, value in did.json.items() if key not in passing
    }
    assert (would.json["dry_run"], did.json["dry_run"], did.json["ttl_ms"]) == (True, False, 30 * 86_400_000)


@pytest.mark.proves("CLI-17")
def test_a_dry_run_changes_no_byte_of_the_database(house: Path) -> None:
    before = tree(house / ".loom")["loom.db"]

    done = run(house, "--policy", "retention:POLICY", "--dry-run")

    assert tree(house / ".loom")["loom.db"] == before
    assert not tree(house / ".loom").get("loom.db-wal")
    [did, kept] = done.out.splitlines()
    assert did.startswith("would delete 3 runs (6 events) that ended before ")
    assert kept == "kept 1: it has a child or a fork that has not ended, or not for so long"


def test_it_says_what_it_did_and_where(house: Path) -> None:
    done = run(house, "--ttl", "30d")
    again = run(house, "--ttl", "30d")

    assert done.out.startswith("deleted 3 runs (6 events) that ended before ")
    assert str(house / ".loom" / "loom.db") in done.out
    assert again.out.startswith("nothing to delete")


@pytest.mark.proves("LIF-12")
def test_snapshots_are_pruned_where_the_policy_says_how_many_stay(house: Path) -> None:
    asyncio.run(_snapshots(house))

    left_alone = run(house, "--policy", "retention:POLICY", "--dry-run", "--json")
    would = run(house, "--policy", "retention:PRUNING", "--dry-run", "--json")
    did = run(house, "--policy", "retention:PRUNING", "--json")
    again = run(house, "--policy", "retention:PRUNING", "--json")

    gone = {"executions": 2, "snapshots": 5, "bytes": 5 * len(BYTES)}
    assert left_alone.json["snapshots"] is None
    assert (would.json["snapshots"], did.json["snapshots"]) == (gone, gone)
    assert again.json["snapshots"] == {"executions": 0, "snapshots": 0, "bytes": 0}
    with closing(sqlite3.connect(house / ".loom" / "loom.db")) as raw:
        assert raw.execute("SELECT count(*) FROM snapshots").fetchone() == (2,)


async def _snapshots(house: Path) -> None:
    """Keep five snapshots of a run that is open, and four of one that is about to be deleted."""
    store = SqliteStorage(house / ".loom" / "loom.db")
    open_ = await log_of(store, 9, ExecutionId("climbs"))
    await put(store, *(snapshot(open_, at, run=ExecutionId("climbs")) for at in range(5)))
    head = await store.head(ExecutionId("old-000000"))
    assert head is not None
    log = Appended(head.incarnation, head.length)
    grown = await appended(store, after(log, head.execution_id, b"2", b"3", index=DONE))
    await put(store, *(snapshot(grown, at, run=head.execution_id) for at in range(4)))
    await store.close()


def test_what_was_deleted_is_read_from_the_archive_that_was_named(house: Path) -> None:
    done = run(house, "--ttl", "1d", "--archive", "archive.db")

    assert done.status == ExitCode.DONE, done
    assert ids(house) == ["open", "parent", "parent:c"]
    assert asyncio.run(_archived(house / "archive.db")) == {f"old-{number:06}": 2 for number in range(3)}


async def _archived(path: Path) -> dict[str, int]:
    """Return of how many events of which runs there are copies."""
    archive = SqliteStorage(path)
    lives = await archive.archived_lives()
    await archive.close()
    return {life.execution_id: life.events for life in lives}


def test_a_ttl_goes_before_the_policy(house: Path) -> None:
    done = run(house, "--policy", "retention:POLICY", "--ttl", "36500d", "--json")

    assert (done.json["deleted"]["runs"], done.json["ttl_ms"]) == (0, 36_500 * 86_400_000)
    assert len(ids(house)) == 6


def test_so_many_and_no_more(house: Path) -> None:
    assert run(house, "--ttl", "1d", "--limit", "2", "--json").json["deleted"]["runs"] == 2
    assert ids(house) == ["old-000002", "open", "parent", "parent:c"]


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ([], ExitCode.USAGE, "--policy MODULE:NAME"),
        (["--ttl", "30s"], ExitCode.USAGE, "shorter than a minute"),
        (["--ttl", "0"], ExitCode.USAGE, "no time to take"),
        (["--policy", "retention:OTHER"], ExitCode.USAGE, "retention:OTHER is int, no retention policy"),
        (["--policy", "retention:MISSING"], ExitCode.USAGE, "MISSING"),
        (["--policy", "nowhere:POLICY"], ExitCode.USAGE, "nowhere"),
        (["--ttl", "1d", "--store", "other.db"], ExitCode.NOT_FOUND, "there is no database"),
        (["--ttl", "1d", "--store", "other.db", "--dry-run"], ExitCode.NOT_FOUND, "there is no database"),
    ],
)
def test_what_cannot_be_done_is_refused(house: Path, options: Sequence[str], status: ExitCode, words: str) -> None:
    done = run(house, *options)

    assert (done.status, done.out) == (status, "")
    assert words in done.err
    assert "Traceback" not in done.err
    assert len(ids(house)) == 6
    assert not (house / "other.db").exists()


def test_a_policy_with_a_typo_is_told_with_its_line(house: Path) -> None:
    (house / "typo.py").write_text("import loom\nPOLICY = loom.retention_policy(terminal_tl=1)\n", encoding="utf-8")

    done = run(house, "--policy", "typo:POLICY")

    assert done.status == ExitCode.USAGE
    assert "no key 'terminal_tl'" in done.err
    assert "typo.py" in done.err


def test_an_interrupted_pass_says_what_it_did_and_leaves_every_run_whole(tmp_path: Path) -> None:
    filled(tmp_path, old=6_000)
    running = Running(tmp_path, "retention", "run", "--ttl", "1d", "--json")
    running.wait_until(lambda: len(ids(tmp_path)) < 6_003, "it never began")

    running.send(signal.SIGINT)
    done = running.ended()

    assert done.status == ExitCode.INTERRUPTED, done
    assert "stopping after this transaction" in done.err
    told: dict[str, Any] = json.loads(done.out)
    assert told["interrupted"] is True
    assert 0 < told["deleted"]["runs"] < 6_000
    left = ids(tmp_path)
    assert len(left) == 6_003 - told["deleted"]["runs"]
    with closing(sqlite3.connect(tmp_path / ".loom" / "loom.db")) as raw:
        [(events,)] = raw.execute("SELECT count(*) FROM events")
        [(lengths,)] = raw.execute("SELECT sum(length) FROM executions")
    assert events == lengths


def test_every_reason_to_keep_a_family_has_words_and_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    [section] = [each for each in page.split("\n## ") if each.startswith("`loom retention run`")]

    assert {why for why in KEPT_WORDS if f"`{why}`" not in section} == set()
