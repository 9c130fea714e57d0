"""A store that is not there, locked, damaged, newer or no store at all: told in words, with a status of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from loom.plugins.sqlite import SqliteStorage
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import loom, process

READERS = [("ps",), ("show", "refund-42"), ("logs", "refund-42"), ("logs", "refund-42", "-f"), ("gates",)]


def missing(store: Path) -> None:
    for file in store.parent.glob("*"):
        file.unlink()


def directory(store: Path) -> None:
    missing(store)
    store.mkdir()


def empty(store: Path) -> None:
    missing(store)
    store.touch()


def text_file(store: Path) -> None:
    missing(store)
    store.write_text("not a database, but long enough to look like one\n" * 100, encoding="utf-8")


def of_another(store: Path) -> None:
    missing(store)
    with sqlite3.connect(store) as raw:
        raw.execute("CREATE TABLE t (x)")
    raw.close()


def newer(store: Path) -> None:
    raw = sqlite3.connect(store)
    raw.execute("PRAGMA user_version = 99")
    raw.commit()
    raw.close()


def torn(store: Path) -> None:
    raw = sqlite3.connect(store)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    whole = store.read_bytes()
    store.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


REFUSALS = [
    (missing, ExitCode.NOT_FOUND, "store-not-found"),
    (empty, ExitCode.NOT_FOUND, "store-not-found"),
    (directory, ExitCode.FAILED, "store-corrupt"),
    (text_file, ExitCode.FAILED, "store-corrupt"),
    (of_another, ExitCode.FAILED, "store-corrupt"),
    (newer, ExitCode.FAILED, "store-newer"),
    (torn, ExitCode.FAILED, "store-corrupt"),
]


@pytest.mark.proves("CLI-23")
@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
@pytest.mark.parametrize(("harm", "status", "code"), REFUSALS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_reader_tells_what_is_wrong_with_the_store(
    harm: Callable[[Path], None], status: ExitCode, code: str, arguments: tuple[str, ...], project: Project
) -> None:
    harm(project.store)

    ended = loom(*arguments, folder=project.folder)

    assert (ended.status, ended.out) == (status, "")
    assert ended.err.startswith(f"error[{code}]: ")
    assert str(project.store) in ended.err
    assert "\ntry: " in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(("harm", "status", "code"), REFUSALS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_same_is_json_with_json(
    harm: Callable[[Path], None], status: ExitCode, code: str, project: Project
) -> None:
    harm(project.store)

    ended = loom("ps", "--json", folder=project.folder)

    assert (ended.status, ended.out, ended.error["code"]) == (status, "", code)
    assert ended.error["fields"] == {"store": f"sqlite:{project.store}"}


@pytest.mark.parametrize(("harm", "status", "code"), REFUSALS, ids=lambda value: getattr(value, "__name__", ""))
def test_doctor_names_the_fault_of_a_store_and_a_missing_one_is_none(
    harm: Callable[[Path], None], status: ExitCode, code: str, project: Project
) -> None:
    harm(project.store)

    ended = loom("doctor", "--json", folder=project.folder)

    assert ended.status == (ExitCode.DONE if status is ExitCode.NOT_FOUND else ExitCode.FAILED)
    assert ("fault" in ended.json["store"]) == (status is not ExitCode.NOT_FOUND)


def test_a_locked_store_is_told_once_waiting_has_not_helped(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = SqliteStorage(project.store, readonly=True, busy_timeout_s=0.05)
    monkeypatch.setattr(Cli, "runs", lambda cli, store: hasty)
    raw = sqlite3.connect(project.store, isolation_level=None)
    raw.execute("PRAGMA journal_mode = DELETE")  # only then does a lock keep readers out
    raw.execute("BEGIN EXCLUSIVE")
    try:
        ended = loom("ps", folder=project.folder)
    finally:
        raw.close()

    assert ended.status == ExitCode.FAILED
    assert "error[store-unavailable]: another process kept the database locked" in ended.err


def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    assert loom("ps", folder=tmp_path).status == ExitCode.NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_the_store_is_named_by_option_variable_and_project(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    store = str(project.store)

    assert process("ps", "--store", store, folder=elsewhere).status == ExitCode.DONE
    assert process("ps", "--store", f"sqlite:///{store}", folder=elsewhere).status == ExitCode.DONE
    assert process("ps", folder=elsewhere, environ={"LOOM_STORE": store}).status == ExitCode.DONE
    (elsewhere / "pyproject.toml").write_text(f"[tool.loom]\nstore = '{store}'\n", encoding="utf-8")
    assert process("ps", folder=elsewhere).status == ExitCode.DONE
    (elsewhere / "pyproject.toml").write_text("[tool.loom", encoding="utf-8")
    assert process("ps", folder=elsewhere).status == ExitCode.USAGE


def test_a_corrupt_record_is_named_and_the_rows_before_it_are_printed(project: Project) -> None:
    with sqlite3.connect(project.store) as raw:
        raw.execute(
            "UPDATE events SET payload = CAST('{' AS BLOB) WHERE sequence = 2"
            " AND run = (SELECT run FROM executions WHERE id = 'broken-1')"
        )
    raw.close()

    logs, show = (loom(verb, "broken-1", folder=project.folder) for verb in ("logs", "show"))

    assert len(logs.out.splitlines()) == 2
    assert logs.err.startswith("error[log-corrupt]: event 2 of broken-1 cannot be read")
    assert (logs.status, show.status) == (ExitCode.FAILED, ExitCode.FAILED)
    assert loom("show", "nap-1", folder=project.folder).status == ExitCode.DONE
