"""A verb for many runs: what is asked first, what is done, what is told, and what an interruption leaves."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import io
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from loom_cli.bulk import AT_ONCE
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.main import main
from loom_cli.screen import Screen
from tests.loom_cli.desk import Running, effects, state
from tests.loom_cli.projects import Ended, loom


def failed_runs(desk: Path, count: int) -> list[str]:
    """Start *count* runs that fail, each with its number as an attribute."""
    names = [f"f{number}" for number in range(count)]

    async def start() -> None:
        app = importlib.import_module("app").app
        async with app:
            for number, name in enumerate(names):
                await app.runtime.start("failing", id=name, attributes={"number": number, "odd": number % 2 == 1})

    sys.path.insert(0, str(desk))
    asyncio.run(start())
    sys.modules.pop("app")
    return names


def lines(done: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def mend(desk: Path) -> None:
    (desk / "mended").touch()


@pytest.mark.proves("BEY-14")
@pytest.mark.parametrize("count", [50, pytest.param(1_000, marks=pytest.mark.slow)])
def test_many_failed_runs_are_retried_with_one_command(desk: Path, count: int) -> None:
    names = failed_runs(desk, count)
    mend(desk)

    done = loom("retry", "--where", "status=failed", "--yes", "--json", folder=desk)

    assert done.status == ExitCode.DONE, done.err
    results = lines(done)
    assert sorted(each["id"] for each in results) == sorted(names)
    assert {(each["was"], each["status"], each["error"]) for each in results} == {("failed", "completed", None)}
    assert effects(desk).count("assess") == count  # what had succeeded ran no second time
    assert f"retried {count:,} of {count:,} runs: {count:,} completed" in done.err


@pytest.mark.proves("BEY-14")
def test_a_dry_run_lists_them_and_does_nothing(desk: Path) -> None:
    names = failed_runs(desk, 3)
    loom("run", "hello", "--id", "h1", folder=desk)

    done = loom("retry", "--where", "flow=failing", "--dry-run", folder=desk)
    told = loom("retry", "--where", "status in (failed, completed)", "--dry-run", "--json", folder=desk)

    assert (done.status, told.status) == (0, 0)
    assert [line.split()[0] for line in done.out.splitlines()] == ["ID", *reversed(names)]
    assert "retry would be for 3 runs; nothing was done" in done.err
    assert {each["id"]: each["refused"] for each in lines(told)} == {
        "h1": "is completed, not failed",
        **dict.fromkeys(names),
    }
    assert {state(desk, name).status for name in names} == {"failed"}


def test_runs_are_chosen_by_their_attributes_and_the_others_are_left(desk: Path) -> None:
    failed_runs(desk, 4)
    mend(desk)

    done = loom("retry", "--where", "attr.odd=true", "--where", "attr.number > 2", "--yes", folder=desk)

    assert done.status == ExitCode.DONE
    assert [state(desk, f"f{number}").status for number in range(4)] == ["failed", "failed", "failed", "completed"]


@pytest.mark.proves("BEY-14")
def test_a_run_that_fails_again_is_told_and_the_others_go_on(desk: Path) -> None:
    failed_runs(desk, 2)

    done = loom("retry", "--where", "status=failed", "--yes", folder=desk)

    assert done.status == ExitCode.FAILED
    assert "f1  loom.StepFailed: fail failed: ValueError: no such customer" in done.err
    assert "retried 2 of 2 runs: 2 failed" in done.err


def test_what_is_refused_is_told_with_the_reason_and_is_no_failure(desk: Path) -> None:
    loom("run", "nap", "--input", "3600", "--wait", "0", "--id", "n1", folder=desk)

    done = loom("resume", "--where", "flow=nap", "--yes", "--json", folder=desk)

    assert done.status == ExitCode.DONE
    assert [(each["id"], each["refused"], each["status"]) for each in lines(done)] == [("n1", "sleeps", None)]


def test_no_run_like_that_is_no_error(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)

    done = loom("retry", "--where", "flow=nobody", "--yes", folder=desk)

    assert (done.status, done.out) == (ExitCode.DONE, "")
    assert "no run like that to retry" in done.err


def test_nobody_is_there_to_ask_so_yes_has_to_be_said(desk: Path) -> None:
    failed_runs(desk, 1)

    done = loom("retry", "--where", "status=failed", folder=desk)

    assert done.status == ExitCode.USAGE
    assert "retry 1 run: nobody is there to ask" in done.err
    assert "--yes" in done.err
    assert state(desk, "f0").status == "failed"


@pytest.mark.parametrize(("answer", "status"), [("yes", "completed"), ("", "failed"), ("no", "failed")])
def test_a_person_is_asked_first(desk: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: str) -> None:
    failed_runs(desk, 1)
    mend(desk)
    monkeypatch.setattr(builtins, "input", lambda prompt: answer)
    out, err = io.StringIO(), io.StringIO()

    ended = main(
        ("retry", "--where", "status=failed"), cli=Cli(Screen(out, err, interactive=True, terminal=True), folder=desk)
    )

    assert ended == ExitCode.DONE
    assert "retry 1 run: 1 of failing" in err.getvalue()
    assert state(desk, "f0").status == status


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("retry",), "which run?"),
        (("retry", "f0", "--where", "status=failed"), "say the same in two ways"),
        (("retry", "f0", "--dry-run"), "go with --where"),
        (("resume", "--where", "status=suspended", "--answer", "true"), "an answer, or a simulation, is for one run"),
        (("retry", "--where", "colour=red"), "runs have no field 'colour'"),
    ],
)
def test_what_does_not_go_together_is_refused(desk: Path, arguments: tuple[str, ...], told: str) -> None:
    done = loom(*arguments, folder=desk)

    assert done.status == ExitCode.USAGE
    assert told in done.err


SLOW = """
import asyncio
import pathlib

import loom


@loom.step
async def call(n: int) -> int:
    with pathlib.Path("calls.txt").open("a") as calls:
        calls.write("call\\n")
    if not pathlib.Path("mended").exists():
        raise ValueError("down")
    await asyncio.sleep(3600)
    return n


@loom.flow
async def failing(ctx: loom.Context) -> int:
    return await ctx.run(call, 1)


app = loom.define_config(flows=[failing], storage=loom.sqlite_storage(), grace_s=0.1)
"""


@pytest.mark.proves("BEY-14")
def test_an_interruption_leaves_the_rest_untouched_and_says_how_many(desk: Path) -> None:
    (desk / "app.py").write_text(SLOW, encoding="utf-8")
    names = failed_runs(desk, 12)
    mend(desk)

    running = Running(desk, "retry", "--where", "status=failed", "--yes")
    running.wait_until(lambda: (desk / "calls.txt").read_text(encoding="utf-8").count("call") == len(names) + AT_ONCE)
    running.send(signal.SIGINT)
    done = running.ended()

    assert done.status == ExitCode.INTERRUPTED
    assert "retried 8 of 12 runs: 8 interrupted, 4 untouched" in done.err
    statuses = [state(desk, name).status for name in names]
    assert (statuses.count("running"), statuses.count("failed")) == (8, 4)
