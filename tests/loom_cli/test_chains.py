"""A run that has continued as new is one story in `ps`, `show` and `logs`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import loom
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli.terminal import Ended
from tests.loom_cli.terminal import loom as command

Run = Callable[..., Ended]


@loom.step
async def lap(n: int) -> int:
    return n


@loom.flow
async def laps(ctx: loom.Context, n: int = 0) -> int:
    await ctx.decide("pace", lambda: n)
    await ctx.run(lap, n)
    return n if n == 2 else await ctx.continue_as_new(n + 1)


APP = """
from pathlib import Path
import loom
from tests.loom_cli.test_chains import laps

app = loom.define_config(flows=[laps], storage=loom.sqlite_storage(Path(__file__).parent / ".loom" / "loom.db"))
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    async def started() -> None:
        app = loom.define_config(flows=[laps], storage=SqliteStorage(tmp_path / ".loom" / "loom.db"))
        async with app:
            await app.runtime.start(laps, id="laps-1")

    asyncio.run(started())
    return lambda *arguments: command(*arguments, folder=tmp_path)


@pytest.mark.proves("SYS-11")
def test_ps_lists_the_run_once_by_its_last_log(run: Run) -> None:
    rows = json.loads(run("ps", "--json").out)
    links = json.loads(run("ps", "--links", "--json").out)

    assert [(row["id"], row["status"]) for row in rows] == [("laps-1~3", "completed")]
    assert {row["id"] for row in links} == {"laps-1", "laps-1~2", "laps-1~3"}


@pytest.mark.parametrize(
    ("asked", "id", "status", "next_"),
    [
        ("laps-1", "laps-1~3", "completed", None),
        ("laps-1~3", "laps-1~3", "completed", None),
        ("laps-1~2", "laps-1~2", "continued", "laps-1~3"),
        ("laps-1~1", "laps-1", "continued", "laps-1~2"),
        ("lap", "laps-1~3", "completed", None),
        ("lap~1", "laps-1", "continued", "laps-1~2"),
    ],
)
def test_show_of_the_run_shows_its_last_log_and_of_a_link_that_link(
    run: Run, asked: str, id: str, status: str, next_: str | None
) -> None:
    shown = json.loads(run("show", asked, "--json").out)

    assert (shown["id"], shown["status"], shown["first"], shown["next"]) == (id, status, "laps-1", next_)
    assert f"log {shown['link']} of laps-1, which continues as new" in run("show", asked).out


def test_the_beginning_of_the_ids_of_two_runs_means_none_though_one_is_a_chain(run: Run, tmp_path: Path) -> None:
    async def another() -> None:
        async with loom.define_config(flows=[laps], storage=SqliteStorage(tmp_path / ".loom" / "loom.db")) as app:
            await app.runtime.start(laps, 2, id="laps-1~x")

    asyncio.run(another())

    shown = run("show", "lap")

    assert shown.status == 2
    assert "laps-1~x" in shown.err


@pytest.fixture
def _in_an_app(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    sys.modules.pop("app", None)
    yield
    sys.modules.pop("app", None)


@pytest.mark.usefixtures("_in_an_app")
@pytest.mark.parametrize(
    ("asked", "id"), [("laps-1", "laps-1~3"), ("lap", "laps-1~3"), ("laps-1~2", "laps-1~2"), ("laps-1~1", "laps-1")]
)
def test_a_fork_is_of_the_last_log_or_of_the_one_that_is_named(run: Run, asked: str, id: str) -> None:
    forked = run("fork", asked, "--at", "1", "--json")

    assert (forked.status, json.loads(forked.out)["source"]) == (0, {"id": id, "sequence": 1})


@pytest.mark.usefixtures("_in_an_app")
@pytest.mark.parametrize(("asked", "id"), [("laps-1", "laps-1~3"), ("laps-1~2", "laps-1~2"), ("laps-1~1", "laps-1")])
def test_an_outcome_is_added_to_a_decision_of_the_link_that_is_named(run: Run, asked: str, id: str) -> None:
    added = run("outcome", "add", asked, "--decision", "pace", "--value", "1")
    strange = run("outcome", "add", asked, "--decision", "lane", "--value", "1")

    assert (added.status, strange.status) == (0, 4), added.err
    for link in ("laps-1~1", "laps-1~2", "laps-1~3"):
        types = [json.loads(line)["type"] for line in run("logs", link, "--json").out.splitlines()]
        assert types.count("OUTCOME_ATTACHED") == (chain_id(link) == id)
    assert ("laps-1~1 to laps-1~2" in strange.err) == (id == "laps-1~3")


def chain_id(link: str) -> str:
    return link.removesuffix("~1")


@pytest.mark.parametrize("how", [(), ("--follow",)])
def test_logs_of_the_run_prints_all_its_logs_in_order(run: Run, how: tuple[str, ...]) -> None:
    events = [json.loads(line) for line in run("logs", "laps-1", *how, "--json").out.splitlines()]

    assert [event["type"] for event in events if event["type"].startswith("EXECUTION_")] == [
        "EXECUTION_STARTED",
        "EXECUTION_CONTINUED",
        "EXECUTION_STARTED",
        "EXECUTION_CONTINUED",
        "EXECUTION_STARTED",
        "EXECUTION_COMPLETED",
    ]


def test_logs_of_a_later_link_prints_that_one(run: Run) -> None:
    lines = run("logs", "laps-1~2").out.splitlines()

    assert (len(lines), "EXECUTION_CONTINUED" in lines[-1], "laps-1~3" in lines[-1]) == (5, True, True)
