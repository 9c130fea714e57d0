"""An answer that is on disk and that no driver took up: whoever gave it was killed before the run was driven."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import orjson
import pytest

from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli.desk import state, types
from tests.loom_cli.projects import loom
from tests.loom_cli.test_driving import waiting


@pytest.fixture
def answered(desk: Path) -> Path:
    """The desk, whose run r1 waits and has an answer in its lane: all that is left of a `loom resume` killed after its first commit."""
    waiting(desk)
    [gate] = state(desk, "r1").gates.values()
    body = orjson.dumps(
        {"start": gate.sequence, "answer": {"approved": False, "reason": "too late"}, "principal": "ada"}
    )

    async def killed() -> None:
        store = SqliteStorage(desk / ".loom" / "loom.db")
        head = await store.head(ExecutionId("r1"))
        assert head is not None
        inserted = await store.insert(
            head.execution_id,
            head.incarnation,
            kind="answer",
            key=f"gate:{gate.sequence}",
            at=9,
            body=body,
            while_open=True,
        )
        assert inserted == 1
        await store.close()

    asyncio.run(killed())
    return desk


@pytest.mark.proves("CLI-05")
def test_resume_goes_on_with_it(answered: Path) -> None:
    done = loom("resume", "r1", folder=answered)

    assert done.status == 0
    assert json.loads(done.out) == {"paid": None, "why": "too late"}
    assert types(answered, "r1").count("GATE_ANSWERED") == 1


@pytest.mark.proves("CLI-05")
def test_show_and_gates_say_so_and_how_to_go_on(answered: Path) -> None:
    [gate] = json.loads(loom("show", "r1", "--json", folder=answered).out)["gates"]

    assert json.loads(loom("show", "r1", "--json", folder=answered).out)["answered"] == [gate["gate"]]
    assert json.loads(loom("show", "r1", "--at", "3", "--json", folder=answered).out)["answered"] is None
    [row] = json.loads(loom("gates", "--json", folder=answered).out)
    assert (row["answered"], row["commands"]) == (True, ["loom resume r1"])
    for command in (["show", "r1"], ["gates"]):
        told = loom(*command, folder=answered).out
        assert "answered, and nobody drives the run; this goes on with it:\n  try   loom resume r1\n" in told
        assert "--answer" not in told


def test_what_waits_and_is_not_answered_is_told_as_ever(desk: Path) -> None:
    waiting(desk)

    [row] = json.loads(loom("gates", "--json", folder=desk).out)

    assert (row["answered"], json.loads(loom("show", "r1", "--json", folder=desk).out)["answered"]) == (False, [])
    assert "--set" in loom("gates", folder=desk).out or "--answer" in loom("gates", folder=desk).out


def test_a_second_answer_is_refused_and_told_what_goes_on_with_the_first(answered: Path) -> None:
    refused = loom("resume", "r1", "--set", "approved=true", folder=answered)

    assert refused.status == 2
    assert "was already answered" in refused.err
    assert "`loom resume r1` goes on with that answer" in refused.err
    assert json.loads(loom("resume", "r1", folder=answered).out)["why"] == "too late"


def test_the_bulk_form_takes_it_up_and_leaves_what_is_not_answered(answered: Path) -> None:
    waiting(answered, "r2")

    listed = loom("resume", "--where", "status=suspended", "--dry-run", "--json", folder=answered)
    done = loom("resume", "--where", "status=suspended", "--yes", folder=answered)

    rows = [json.loads(line) for line in listed.out.splitlines()]
    assert {row["id"]: row["refused"] for row in rows} == {"r1": None, "r2": "waits for an answer"}
    assert done.status == 0
    assert (state(answered, "r1").status, state(answered, "r2").status) == ("completed", "suspended")
