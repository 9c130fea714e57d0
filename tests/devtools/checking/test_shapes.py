"""The report as JSON and as SARIF 2.1.0."""

from __future__ import annotations

from typing import Any

import pytest

from loom.devtools.checking.findings import RULES
from loom.devtools.checking.shapes import diff_lines, finding_json, report_json, sarif
from tests.devtools.checking.checking import report

TEXT = "import time\n@loom.flow\nasync def f(ctx):\n    print(1)\n    return time.time()\n"


def test_json_has_all_fields() -> None:
    shape = report_json(report(TEXT))

    assert {key: shape[key] for key in ("errors", "warnings", "files", "flows")} == {
        "errors": 1,
        "warnings": 1,
        "files": 1,
        "flows": 1,
    }
    assert shape["findings"][1] == {
        "rule": "clock",
        "severity": "error",
        "path": "flows.py",
        "line": 6,
        "column": 12,
        "end_line": 6,
        "end_column": 23,
        "message": "`time.time()` reads a clock, which says something else at every replay",
        "fix": RULES["clock"].instead,
        "via": [{"name": "f", "path": "flows.py", "line": 4}],
        "change": {"line": 6, "before": "    return time.time()", "after": "    return ctx.now().timestamp()"},
    }


def test_a_finding_without_a_change_says_so() -> None:
    [found] = report("def broken(:\n").findings

    assert finding_json(found)["change"] is None
    assert finding_json(found)["via"] == []


@pytest.mark.proves("GOV-03")
def test_sarif_has_what_its_schema_requires() -> None:
    log = sarif(report(TEXT), version="1.2.3")

    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("loom check", "1.2.3")
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    assert all(rule["defaultConfiguration"]["level"] in {"error", "warning"} for rule in driver["rules"])
    assert [result["ruleId"] for result in run["results"]] == ["log", "clock"]
    for result in run["results"]:
        assert_result(result, driver["rules"])


def assert_result(result: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] in {"none", "note", "warning", "error"}
    assert result["message"]["text"]
    [location] = result["locations"]
    place = location["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "flows.py"
    assert all(place["region"][key] >= 1 for key in ("startLine", "startColumn", "endLine", "endColumn"))
    for fix in result["fixes"]:  # what its schema requires of a fix
        [change] = fix["artifactChanges"]
        [replaced] = change["replacements"]
        assert change["artifactLocation"]["uri"] == "flows.py"
        assert replaced["deletedRegion"]["startLine"] == place["region"]["startLine"]
        assert "ctx." in replaced["insertedContent"]["text"]


def test_a_change_is_two_lines_of_a_diff() -> None:
    [_, clock] = report(TEXT).findings

    assert clock.change is not None
    assert diff_lines(clock.change) == ("- return time.time()", "+ return ctx.now().timestamp()")
