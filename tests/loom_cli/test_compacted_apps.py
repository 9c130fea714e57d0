"""Runs that are more than one log and its values, once they are compacted: chains, and results that are kept beside the log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.loom_cli.projects import Ended, loom

APP = """
import loom


@loom.step(claim_check=loom.ClaimCheck(over_bytes=1))
async def fetch(n: int) -> str:
    return "x" * n


@loom.step
async def count(n: int) -> int:
    return n


@loom.flow
async def large(ctx: loom.Context) -> int:
    claimed = await ctx.run(fetch, 5_000)
    await ctx.suspend("sure", show=claimed.size)
    return claimed.size


@loom.flow
async def laps(ctx: loom.Context, n: int = 0) -> int:
    for each in range(4):
        await ctx.run(count, each)
    if n < 2:
        await ctx.continue_as_new(n + 1)
    await ctx.suspend("on")
    return n


app = loom.define_config(flows=[large, laps], storage=loom.sqlite_storage())
"""


def run(desk: Path, *arguments: str) -> Ended:
    return loom(*arguments, folder=desk)


@pytest.fixture
def project(desk: Path) -> Path:
    (desk / "app.py").write_text(APP, encoding="utf-8")
    return desk


@pytest.mark.proves("NOT-09", "RNG-16")
def test_a_replay_reads_neither_the_archive_nor_the_contents(project: Path) -> None:
    run(project, "run", "large", "--id", "l-1")
    run(project, "compact", "l-1", "--archive", "archive.db")
    contents = [path for path in (project / ".loom").iterdir() if path.is_dir()]
    assert any(path.is_file() for folder in contents for path in folder.rglob("*"))
    for folder in contents:
        shutil.rmtree(folder)
    (project / "archive.db").unlink()

    replayed, checked = run(project, "replay", "l-1"), run(project, "check", "replay", "--all", "--json")
    answered = run(project, "resume", "l-1", "--answer", "true")

    assert replayed.status == 0
    assert [json.loads(line)["verdict"] for line in checked.out.splitlines()] == ["same"]
    assert answered.status == 0, answered
    assert "5002" in answered.out  # the size of the JSON text


@pytest.mark.proves("LIF-05")
def test_a_chain_is_compacted_and_told_link_by_link(project: Path) -> None:
    run(project, "run", "laps", "--id", "c-1")
    whole = run(project, "logs", "c-1", "--json")

    done = [json.loads(line) for line in run(project, "compact", "c-1", "--archive", "a.db", "--json").out.splitlines()]
    told = run(project, "logs", "c-1", "--archived", "--archive", "a.db", "--json")
    left = [json.loads(line) for line in run(project, "logs", "c-1", "--json").out.splitlines()]
    answered = run(project, "resume", "c-1", "--answer", "true")

    assert [each["id"] for each in done] == ["c-1", "c-1~2", "c-1~3"]
    assert [{**json.loads(line), "archived": None} for line in told.out.splitlines()] == [
        {**json.loads(line), "archived": None} for line in whole.out.splitlines()
    ]
    assert [each["type"] for each in left] == [
        *["EXECUTION_STARTED", "EXECUTION_CONTINUED"] * 2,
        *["EXECUTION_STARTED", "EXECUTION_SUSPENDED"],
    ]
    assert answered.status == 0
