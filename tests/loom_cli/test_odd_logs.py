"""Logs of a newer Loom, and damaged ones: looked at as far as they go, driven never, and no fault of the command."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import loom

RUN = "(SELECT run FROM executions WHERE id = 'refund-41')"


def changed(store: Path, *statements: str) -> None:
    """Change *store* behind Loom's back."""
    raw = sqlite3.connect(store)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


@pytest.mark.parametrize(
    "change", [f"UPDATE events SET type = 'LATER' WHERE run = {RUN} AND sequence = 3", "metadata = '{\"v\": 9}'"]
)
@pytest.mark.parametrize("arguments", [("logs",), ("logs", "-f"), ("logs", "-f", "--json"), ("show",)])
def test_a_log_of_a_newer_loom_is_read_to_its_end(change: str, arguments: tuple[str, ...], project: Project) -> None:
    if change.startswith("metadata"):
        change = f"UPDATE events SET {change} WHERE run = {RUN} AND type = 'GATE_OPENED'"
    changed(project.store, change)

    done = loom(arguments[0], "refund-41", *arguments[1:], folder=project.folder)

    assert (done.status, done.err) == (ExitCode.DONE, "")
    assert "EXECUTION_COMPLETED" in done.out or "completed" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("resume", "r1"),
        ("resume", "r1", "--set", "approved=true"),
        ("retry", "r1"),
        ("resolve", "r1", "--as", "failed"),
    ],
)
def test_a_log_of_a_newer_loom_is_not_driven(arguments: tuple[str, ...], desk: Path) -> None:
    loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk)
    changed(desk / ".loom" / "loom.db", "UPDATE events SET metadata = '{\"v\": 9}' WHERE type = 'GATE_OPENED'")

    done = loom(*arguments, folder=desk)

    assert done.status == ExitCode.FAILED
    assert done.err.startswith("error[log-newer]: ")


@pytest.mark.parametrize("cell", ["junk{", "[{}]", "7", "[3]", '{"gate": 1}'])
def test_one_damaged_row_of_the_index_does_not_hide_the_others(cell: str, project: Project) -> None:
    changed(project.store, f"UPDATE executions SET gates = '{cell}' WHERE id = 'refund-41'")

    shown = loom("ps", folder=project.folder, now_ms=project.now_ms)
    listed = loom("ps", "--json", folder=project.folder)

    assert shown.status == ExitCode.DONE
    assert shown.out.count("\n") == 6
    assert shown.err == "the index row of refund-41 is damaged: `loom show` reads its log instead\n"
    assert [row["gates"] for row in listed.json if row["id"] == "refund-41"] == [[]]


@pytest.mark.parametrize("arguments", [("show", "refund-41"), ("logs", "refund-41"), ("ps",), ("gates",)])
@pytest.mark.parametrize("at", [-99999999999999999, 99999999999999999])
def test_a_time_that_cannot_be_is_printed_all_the_same(at: int, arguments: tuple[str, ...], project: Project) -> None:
    changed(project.store, f"UPDATE events SET at = {at}", f"UPDATE executions SET started_at = {at}, wake_at = {at}")

    for terminal in (True, False):
        done = loom(*arguments, folder=project.folder, now_ms=project.now_ms, terminal=terminal)

        assert (done.status, done.err) == (ExitCode.DONE, "")


@pytest.mark.parametrize(
    "arguments", [("logs",), ("show",), ("resume",), ("cancel",), ("migrate",), ("replay",), ("replay", "--prove")]
)
def test_an_event_whose_type_is_no_text_is_damage_and_no_fault_of_the_command(
    arguments: tuple[str, ...], desk: Path
) -> None:
    loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk)
    changed(desk / ".loom" / "loom.db", "UPDATE events SET type = x'ff00' WHERE sequence = 2")

    done = loom(arguments[0], "r1", *arguments[1:], folder=desk)

    assert done.status == ExitCode.FAILED
    assert any(told in done.out + done.err for told in ("its type is no name", "or has no type"))
    assert "error[unexpected]" not in done.err
