"""What the command shows of runs that start runs, and how it drives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.forked import Forks
from tests.loom_cli.desk import Running
from tests.loom_cli.terminal import process

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
def family(tmp_path: Path, forks: Forks) -> Path:
    """A folder with a parent that waits for a child, which waits for a person."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    assert process("run", "parent", "--id", "top", folder=tmp_path, forks=forks).status == ExitCode.WAITING
    return tmp_path


def test_a_parent_says_that_it_waits_for_a_child_and_where_to_look(family: Path, forks: Forks) -> None:
    told = process("resume", "top", folder=family, forks=forks).err
    shown = process("show", "top", folder=family, forks=forks).out
    listed = process("ps", folder=family, forks=forks).out

    assert "top waits for a child\n" in told
    assert "    look: loom show top:asking\n" in told
    assert "○ top:asking  it waits for this child for " in shown
    assert "  try   loom show top:asking\n" in shown
    assert "loom send" not in told + shown
    assert re.search(r"^top +parent +suspended +\S+ +the child top:asking$", listed, re.MULTILINE)


@pytest.mark.proves("CMP-12")
def test_the_parent_and_the_children_of_a_run_are_named_with_their_states(family: Path, forks: Forks) -> None:
    top = process("show", "top", folder=family, forks=forks).out
    child = process("show", "top:asking", folder=family, forks=forks).out

    assert re.search(r"^  top:asking  suspended  waits at answer: loom resume top:asking$", top, re.MULTILINE)
    assert "child of top, started by spawn.asking\n" in child


def test_json_names_them_as_well(family: Path, forks: Forks) -> None:
    top = json.loads(process("show", "top", "--json", folder=family, forks=forks).out)
    child = json.loads(process("show", "top:asking", "--json", folder=family, forks=forks).out)

    assert (top["parent"], top["step"]) == (None, None)
    assert top["children"] == [{"id": "top:asking", "flow": "asking", "status": "suspended", "gates": ["answer"]}]
    assert (child["parent"], child["step"], child["children"]) == ("top", "spawn.asking", [])


def test_ps_lists_the_children_of_one_run(family: Path, forks: Forks) -> None:
    rows = json.loads(process("ps", "--parent", "top", "--json", folder=family, forks=forks).out)

    assert [(row["id"], row["parent"]) for row in rows] == [("top:asking", "top")]
    assert process("ps", "--parent", "nobody", folder=family, forks=forks).status == ExitCode.NOT_FOUND


@pytest.mark.proves("CMP-13")
def test_whoever_answers_the_child_drives_its_parent_to_its_end(family: Path, forks: Forks) -> None:
    answered = process("resume", "top:asking", "--answer", "3", folder=family, forks=forks)

    assert (answered.status, answered.out) == (ExitCode.DONE, "how many: 3\n")
    assert "driving top as well\n" in answered.err
    assert process("watch", "top", folder=family, forks=forks).out.endswith("HOW MANY: 3\n")


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
def test_a_worker_drives_a_family_of_three_generations_and_each_step_once(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "app.py").write_text(WORKED, encoding="utf-8")
    assert process("run", "tree", "--id", "top", "--detach", folder=tmp_path, forks=forks).status == ExitCode.DONE

    workers = [Running(tmp_path, "worker", "--until-idle", "--poll", "0.05") for _ in range(2)]
    ends = [worker.ended().status for worker in workers]

    assert ends == [ExitCode.DONE, ExitCode.DONE]
    top = json.loads(process("show", "top", "--json", folder=tmp_path, forks=forks).out)
    assert (top["status"], top["result"]) == ("completed", [["a0", "a1"], ["b0", "b1"]])
    assert sorted((tmp_path / "effects.txt").read_text(encoding="utf-8").split()) == ["a0", "a1", "b0", "b1"]
    rows = json.loads(process("ps", "--json", folder=tmp_path, forks=forks).out)
    assert {row["status"] for row in rows} == {"completed"}
    assert len(rows) == 7
