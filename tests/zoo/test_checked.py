"""`loom check` finds what the table says it finds, and nothing in what is right."""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

import pytest

from loom.devtools.checking.checker import Report
from loom.devtools.checking.findings import RULES
from loom.devtools.declarations import declarations_in
from loom.devtools.projects import new_project
from loom_cli.files import template_files
from tests.house import ROOT
from tests.zoo.checking import checked
from tests.zoo.table import BAD

HERE = Path(__file__).parent
BY_CHECK = {name: case.rule for name, case in BAD.items() if case.caught_by == "check"}


@functools.cache
def of_the_zoo() -> Report:
    return checked(sorted((HERE / "bad").glob("*.py")))


@functools.cache
def rules_by_flow() -> dict[str, set[str]]:
    """Return which rules each flow breaks: those found on the way from it, or in a step that stands before it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for each in of_the_zoo().findings:
        found[each.via[0].name if each.via else flow_below(each.path, each.line)].add(each.rule)
    return dict(found)


def flow_below(path: str, line: int) -> str:
    """Return the first flow below *line*: in the zoo a step stands before the flow that runs it."""
    declared = declarations_in(path, (ROOT / path).read_bytes(), {"flow"}).declared
    return next(each.name for each in declared if each.line > line)


@pytest.mark.proves("GOV-03")
@pytest.mark.parametrize("name", BY_CHECK)
def test_a_bad_flow_is_caught_by_its_rule(name: str) -> None:
    assert BY_CHECK[name] in rules_by_flow().get(name, set())


def test_check_alone_catches_most_of_the_zoo() -> None:
    assert len(BY_CHECK) >= 30
    assert set(rules_by_flow()) == set(BY_CHECK)


def test_the_zoo_has_a_breach_of_every_rule_on_flows() -> None:
    assert set(RULES) - {found.rule for found in of_the_zoo().findings} == {
        "allow",
        "syntax",
        "no-key",
        "not-a-step",
        "not-async",
        "foreign-await",
        "shared-state",
    }


@pytest.mark.proves("GOV-03")
def test_nothing_is_found_in_flows_that_only_look_wrong() -> None:
    assert checked([HERE / "clean" / "looks.py"]).findings == ()


@pytest.mark.parametrize("app", sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir()))
def test_nothing_is_found_in_the_examples(app: str) -> None:
    folder = ROOT / "examples" / app

    report = checked(sorted(folder.rglob("*.py")), folder)

    assert report.findings == ()
    assert report.flows


def test_nothing_is_found_in_a_new_project(tmp_path: Path) -> None:
    for path, text in new_project("demo", template_files("app"), loom_version="1.2.3").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")

    report = checked(sorted(tmp_path.rglob("*.py")), tmp_path)

    assert report.findings == ()
    assert report.flows == 1
