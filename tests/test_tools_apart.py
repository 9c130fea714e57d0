"""The tools (command, generators, kits) are leaves: what runs in production neither imports nor needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from loom.devtools.codegen import generate, scan
from loom.devtools.projects import new_project
from loom_cli.files import template_files
from tests import house
from tests.house import ROOT, Source, sources

TOOLS: Final = frozenset({"loom.devtools", "loom_cli", "tests", "hypothesis", "pytest"})

PROSE: Final = frozenset({"loom.devtools.appgen", "loom.agents", "anthropic", "openai"})
"""What reads natural language. Nothing between a flow and its log does."""

NOTATIONS: Final = frozenset(
    {"configparser", "lark", "networkx", "plistlib", "ply", "pyparsing", "ruamel", "toml", "tomllib", "xml", "yaml"}
)
"""What reads a notation that a flow could be written in."""

APART: Final = """
import sys
for tool in ("loom.devtools", "loom_cli"):
    sys.modules[tool] = None
"""
"""Python as it is where the tools are not installed."""


def runtime_sources() -> list[Source]:
    return [source for source in sources("loom") if not source.path.startswith("loom/devtools/")]


def used(banned: frozenset[str], over: list[Source]) -> list[str]:
    return [line for source in over for line in house.uses(source, banned)]


def apart(code: str, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", APART + code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.proves("COM-11")
def test_nothing_that_runs_imports_a_tool() -> None:
    assert used(TOOLS, runtime_sources()) == []


@pytest.mark.proves("COM-11")
@pytest.mark.parametrize(
    "text",
    [
        "import loom.devtools.codegen",
        "from loom.devtools import conformance",
        "def f():\n    from loom_cli import main",
    ],
)
def test_an_import_of_a_tool_is_seen(text: str) -> None:
    assert used(TOOLS, [Source("loom/app/config.py", text)])


@pytest.mark.proves("COM-11")
def test_the_tests_of_the_runtime_are_green_without_the_tools() -> None:
    code = "import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))"

    done = apart(code, "tests/kernel/test_syscalls.py", "tests/app")

    assert done.returncode == 0, done.stdout + done.stderr


def test_without_the_tools_is_what_it_says() -> None:
    assert "ModuleNotFoundError" in apart("import loom.devtools.codegen").stderr


# Natural language and notations


@pytest.mark.proves("PRN-13")
def test_nothing_that_runs_reads_prose() -> None:
    assert used(PROSE, runtime_sources()) == []
    assert not [source.path for source in runtime_sources() if "appgen" in source.text]


@pytest.mark.proves("PRN-13")
def test_generated_code_is_ordinary_python_that_runs_without_what_generated_it(tmp_path: Path) -> None:
    files = new_project("demo", template_files("app"), loom_version="0.1.0")
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    modules = {path: text.encode() for path, text in files.items() if path.startswith("flows/")}
    generated = generate(scan(modules).declared)
    code = (
        "import asyncio, loom, loom_gen\n"
        "app = loom.define_config(flows=loom_gen.FLOWS, manifest=loom_gen.MANIFEST)\n"
        "print(asyncio.run(app.runtime.start('hello', 'ada')).status)"
    )

    (tmp_path / "loom_gen.py").write_text(generated, encoding="utf-8")
    done = apart(code, folder=tmp_path)

    assert done.stdout == "suspended\n", done.stderr


@pytest.mark.proves("NOT-02")
def test_nothing_that_runs_parses_a_notation() -> None:
    inside = [source for source in runtime_sources() if not source.path.startswith("loom/plugins/")]

    assert used(NOTATIONS, inside) == []


@pytest.mark.proves("NOT-02")
@pytest.mark.parametrize("text", ["import yaml", "from xml.etree import ElementTree", "def f():\n    import tomllib"])
def test_a_parser_of_a_notation_is_seen(text: str) -> None:
    assert used(NOTATIONS, [Source("loom/core/flow.py", text)])
