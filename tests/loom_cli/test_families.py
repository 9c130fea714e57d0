"""What the command shows of runs that start runs, and how it drives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.desk import Running

APP = """
import loom


@loom.flow
async def asking(ctx: loom.Context, what: str) -> str:
    return f"{what}: {await ctx.suspend('answer', expects=int)}"


@loom.flow
async def parent(ctx: loom.Context) -> str:
    return (await loom.await_child(ctx, await loom.spawn(ctx, asking, "how many"))).upper()


app = loom.define_config(flows=[asking, parent], storage=loom.sqlite_storage())
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A folder with a parent that waits for a child, which waits for a person."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    assert Running(tmp_path, "run", "parent", "--id", "top").ended().status == ExitCode.WAITING
    return tmp_path


def test_a_parent_says_that_it_waits_for_a_child_and_where_to_look(family: Path) -> None:
    told = Running(family, "resume", "top").ended().err
    shown = Running(family, "show", "top").ended().out
    listed = Running(family, "ps").ended().out

    assert "top waits for a child\n" in told
    assert "    look: loom show top:asking\n" in told
    assert "○ top:asking  it waits for this child for " in shown
    assert "  try   loom show top:asking\n" in shown
    assert "loom send" not in told + shown
    assert re.search(r"^top +parent +suspended +\S+ +a child or a message$", listed, re.MULTILINE)


@pytest.mark.proves("CMP-12")
def test_the_parent_and_the_children_of_a_run_are_named_with_their_states(family: Path) -> None:
    top = Running(family, "show", "top").ended().out
    child = Running(family, "show", "top:asking").ended().out

    assert re.search(r"^  top:asking  suspended$", top, re.MULTILINE)
    assert "child of top, started by spawn.asking\n" in child


def test_json_names_them_as_well(family: Path) -> None:
    top = json.loads(Running(family, "show", "top", "--json").ended().out)
    child = json.loads(Running(family, "show", "top:asking", "--json").ended().out)

    assert (top["parent"], top["step"]) == (None, None)
    assert top["children"] == [{"id": "top:asking", "flow": "asking", "status": "suspended"}]
    assert (child["parent"], child["step"], child["children"]) == ("top", "spawn.asking", [])


def test_ps_lists_the_children_of_one_run(family: Path) -> None:
    rows = json.loads(Running(family, "ps", "--parent", "top", "--json").ended().out)

    assert [(row["id"], row["parent"]) for row in rows] == [("top:asking", "top")]
    assert Running(family, "ps", "--parent", "nobody").ended().status == ExitCode.NOT_FOUND


@pytest.mark.proves("CMP-13")
def test_whoever_answers_the_child_drives_its_parent_to_its_end(family: Path) -> None:
    answered = Running(family, "resume", "top:asking", "--answer", "3").ended()

    assert (answered.status, answered.out) == (ExitCode.DONE, "how many: 3\n")
    assert "driving top as well\n" in answered.err
    assert Running(family, "watch", "top").ended().out.endswith("HOW MANY: 3\n")


WORKED = """
import loom


@loom.step
def work(name: str) -> str:
    with open("effects.txt", "a") as file:
        file.write(f"{name}\\n")
    return name


@loom.flow
async def leaf(ctx: loom.Context, name: str) -> str:
    return await ctx.run(work, name)


@loom.flow
async def branch(ctx: loom.Context, name: str) -> list[str]:
    leaves = [await loom.spawn(ctx, leaf, f"{name}{n}", key=n) for n in range(2)]
    return await loom.await_all(ctx, leaves)


@loom.flow
async def tree(ctx: loom.Context) -> list[list[str]]:
    return await loom.await_all(ctx, [await loom.spawn(ctx, branch, name, key=name) for name in "ab"])


app = loom.define_config(flows=[tree, branch, leaf], storage=loom.sqlite_storage())
"""


@pytest.mark.proves("CMP-12")
def test_a_worker_drives_a_family_of_three_generations_and_each_step_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(WORKED, encoding="utf-8")
    assert Running(tmp_path, "run", "tree", "--id", "top", "--detach").ended().status == ExitCode.DONE

    workers = [Running(tmp_path, "worker", "--until-idle", "--poll", "0.05") for _ in range(2)]
    ends = [worker.ended().status for worker in workers]

    assert ends == [ExitCode.DONE, ExitCode.DONE]
    top = json.loads(Running(tmp_path, "show", "top", "--json").ended().out)
    assert (top["status"], top["result"]) == ("completed", [["a0", "a1"], ["b0", "b1"]])
    assert sorted((tmp_path / "effects.txt").read_text(encoding="utf-8").split()) == ["a0", "a1", "b0", "b1"]
    rows = json.loads(Running(tmp_path, "ps", "--json").ended().out)
    assert {row["status"] for row in rows} == {"completed"}
    assert len(rows) == 7
