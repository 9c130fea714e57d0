"""Forks that were tried and stopped: `ps`, `show` and the branches say that they did, why, and what can be done."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from loom.plugins.sqlite import SqliteStorage
from loom_cli.branches import leads
from loom_cli.web.inspector import Inspector, Wanted
from tests.loom_cli.projects import loom

WAYS = """
import loom


@loom.step
async def weigh() -> int:
    return 3


@loom.step
async def post(grams: int) -> str:
    return "posted"


@loom.step
async def truck(grams: int) -> str:
    return "fetched"


@loom.flow
async def parcel(ctx: loom.Context) -> str:
    grams = await ctx.run(weigh)
    return await ctx.run(truck if grams > 10 else post, grams)


app = loom.define_config(flows=[parcel], storage=loom.sqlite_storage())
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which `p2` is served from `p1`, and asked for what that never did."""
    (tmp_path / "ways.py").write_text(WAYS, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "ways", ModuleType("ways"))  # so that it is forgotten afterwards
    del sys.modules["ways"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LOOM_PRINCIPAL", "ada")
    assert loom("run", "parcel", "--id", "p1", "--app", "ways:app", folder=tmp_path).status == 0
    edit = ("--output", "weigh", "--value", "30", "--reuse")
    forked = loom("fork", "p1", *edit, "--id", "p2", "--app", "ways:app", folder=tmp_path)
    assert "all else stops it (with --live it is done, for real)" in forked.out
    stopped = loom("resume", "p2", "--app", "ways:app", folder=tmp_path)
    assert not [line for line in stopped.err.splitlines() if "weigh done in" in line]
    assert (stopped.status, "p2 asks for truck, which p1 never asked" in stopped.err) == (3, True)
    return tmp_path


def test_a_fork_that_asked_for_what_was_not_recorded_is_listed_as_stopped(served: Path) -> None:
    [row] = [line for line in loom("ps", folder=served).out.splitlines() if line.startswith("p2")]
    shown = loom("show", "p2", folder=served).out
    branches = loom("branch", "list", "p1", folder=served).out
    compared = loom("branch", "compare", "p1", "p2", folder=served).out

    stopped = {each["id"]: each["stopped"] for each in loom("ps", "--json", folder=served).json}
    assert stopped == {"p1": False, "p2": True}
    assert [loom("show", name, "--json", folder=served).json["stopped"] for name in ("p1", "p2")] == [False, True]
    assert row.split()[:3] == ["p2", "parcel", "stopped"]
    assert row.endswith("what the trial lacks: loom show p2")
    assert shown.startswith("p2  stopped\nparcel, forked ")
    assert "It is served from p1, and stopped: it was interrupted, or asks for what has no outcome there.\n" in shown
    [again] = [line.removeprefix("  try   ") for line in shown.splitlines() if line.startswith("  try   ")]
    assert again.startswith("loom fork p1 --")
    assert again.endswith(" --reuse --live")
    assert loom(*shlex.split(again)[1:], "--id", "p3", "--app", "ways:app", folder=served).status == 0
    assert loom("show", "p3", "--json", folder=served).json["status"] == "forked"
    resumed = loom("resume", "p2", "--app", "ways:app", folder=served)
    assert again in resumed.err
    assert "taken up again where it had stopped" in resumed.err
    assert branches.splitlines()[2].split()[:3] == ["\u2514\u2500", "p2", "stopped"]
    assert compared.splitlines()[1].split()[:2] == ["p2", "stopped"]


async def test_the_page_tells_so_too_in_its_list_and_at_the_head_of_the_run(served: Path) -> None:
    storage = SqliteStorage(served / ".loom" / "loom.db", readonly=True)
    inspector = Inspector(storage, now_ms=storage.clock.now_ms)

    listed = await inspector.runs(Wanted())
    heads = [await inspector.run(name) for name in ("p1", "p2")]
    await storage.close()

    assert {each["id"]: each["stopped"] for each in listed["runs"]} == {"p1": False, "p2": True}
    assert [each["stopped"] for each in heads] == [False, True]


def test_a_fork_that_asked_for_a_step_without_a_simulator_says_how_one_is_declared(served: Path) -> None:
    loom("fork", "p1", "--at", "0", "--id", "p3", "--app", "ways:app", folder=served)
    loom("resume", "p3", "--simulate", "--app", "ways:app", folder=served)

    shown = loom("show", "p3", folder=served).out

    assert shown.startswith("p3  stopped\n")
    assert "It is simulated, and stopped: it was interrupted, or asks for a step that has no simulator.\n" in shown
    assert "define_config(simulators={...})" in shown


def test_an_edited_call_took_no_time_and_a_fork_that_of_its_own_way(served: Path) -> None:
    shown = loom("show", "p2", folder=served).out
    [first, *_] = loom("diff", "p1", "p2", "--json", folder=served).json["differences"]
    [source, fork] = loom("diff", "p1", "p2", "--json", folder=served).json["runs"]
    call = loom("show", "p2", "weigh", folder=served).out

    assert "\u2713 weigh    edited by ada\n" in shown
    assert (first["id"], first["sides"][1]["took_ms"]) == ("weigh", None)
    assert first["sides"][0]["took_ms"] is not None
    log = [loom("logs", name, "--json", folder=served).out for name in ("p1", "p2")]
    assert 0 <= fork["took_ms"] <= last_at(log[1]) - forked_at(log[1])
    assert source["took_ms"] >= 0
    assert ", took " not in call
    assert ", edited by ada" in call


def last_at(log: str) -> int:
    return max(int(json.loads(line)["at"]) for line in log.splitlines())


def forked_at(log: str) -> int:
    [at] = [each["at"] for each in map(json.loads, log.splitlines()) if each["type"] == "EXECUTION_FORKED"]
    return int(at)


def test_a_tree_is_drawn_with_ways_to_what_comes_below() -> None:
    assert leads([0]) == [[]]
    assert leads([0, 1, 1]) == [[], ["branch"], ["last"]]
    assert leads([0, 1, 2, 3, 2, 1, 2]) == [
        [],
        ["branch"],
        ["through", "branch"],
        ["through", "through", "last"],
        ["through", "last"],
        ["last"],
        ["", "last"],
    ]
