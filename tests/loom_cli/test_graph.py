"""`loom graph` and `loom gen --graph`: pictures from the source, with a run's visits from its log."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

from tests.loom_cli.desk import Running
from tests.loom_cli.projects import loom
from tests.loom_cli.terminal import loom as terminal_loom

WITHOUT: Final = """
import asyncio, sys
sys.modules.update(dict.fromkeys(["loom.devtools", "loom.devtools.graphing", "loom.devtools.checking"]))
import app
print(asyncio.run(app.app.runtime.start("hello")).status)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert loom("new", "demo", "--in", str(tmp_path), folder=tmp_path).status == 0
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


@pytest.mark.proves("BEY-18")
def test_a_flow_is_drawn_without_its_app(project: Path) -> None:
    (project / "app.py").write_text("raise SystemExit('broken')")

    done = loom("graph", "hello", folder=project)

    assert done.status == 0
    assert done.out.splitlines()[:3] == [
        "flow hello(str) -> str  flows/hello.py:17",
        "  step compose",
        "  gate approval  answer: Approval",
    ]


def test_svg_and_mermaid_go_to_stdout_whole(project: Path) -> None:
    picture = loom("graph", "hello", "--format", "svg", folder=project).out
    flowchart = loom("graph", "hello", "--format", "mermaid", folder=project).out

    assert ET.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert flowchart.startswith("flowchart TD\n")


def test_what_a_run_visited_is_marked(project: Path) -> None:
    process = [sys.executable, "-m", "loom_cli", "run", "hello", "--id", "h-1", "--quiet"]
    subprocess.run(process, cwd=project, check=False, capture_output=True)

    drawn = loom("graph", "hello", "h-1", "--json", folder=project).json

    visits = {node["text"]: node["visit"] for node in drawn["nodes"]}
    assert drawn["execution"] == {"id": "h-1", "status": "suspended", "elsewhere": []}
    assert (visits["compose"]["status"], visits["approval"]["status"]) == ("done", "waiting")
    assert visits["deliver"] is None


def test_a_run_of_another_flow_is_refused(project: Path) -> None:
    loom("gen", "flow", "other", folder=project)
    process = [sys.executable, "-m", "loom_cli", "run", "hello", "--id", "h-1", "--quiet"]
    subprocess.run(process, cwd=project, check=False, capture_output=True)

    done = loom("graph", "other", "h-1", folder=project)

    assert done.status == 2
    assert "h-1 is a run of hello" in done.err


def test_a_flow_that_is_not_declared_is_not_found(project: Path) -> None:
    done = loom("graph", "nope", folder=project)

    assert (done.status, "Declared here: hello" in done.err) == (4, True)


@pytest.mark.proves("GOV-04")
def test_a_build_prints_manifest_graph_and_where_a_flow_parks(project: Path) -> None:
    built = loom("gen", "--graph", folder=project).json

    [flow] = built["flows"]
    assert {row["id"] for row in built["manifest"]} == {"hello", "compose", "deliver"}
    assert [(park["name"], park["waits_for"]) for park in flow["parks"]] == [("approval", "an answer")]
    assert [segment["files"] for segment in flow["segments"]] == [["flows/hello.py"], ["flows/hello.py"]]


@pytest.mark.proves("GOV-04")
def test_the_runtime_works_without_all_of_it(project: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=project, capture_output=True, text=True, check=False)

    assert done.stdout == "suspended\n", done.stderr


def test_a_run_drawn_on_a_terminal_tells_of_each_visit_what_there_is_room_for(project: Path) -> None:
    assert Running(project, "run", "hello", "--id", "h1").ended().status == 3

    def gate(width: int) -> str:
        drawn = terminal_loom("graph", "hello", "h1", folder=project, width=width, terminal=True).out
        return next(line for line in drawn.splitlines() if "gate approval" in line)

    assert re.search(r"  #3 GATE_OPENED \d{4}-\d\d-\d\d \S+$", gate(120))
    assert gate(60).endswith("  #3 GATE_OPENED")
    assert gate(50).endswith("  #3")
