"""`ps --where`, saved queries, and what is said of those that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.queries import Saved, saved_queries, since_text, where_of
from tests.loom_cli.projects import loom
from tests.loom_cli.test_bulk import failed_runs

PYPROJECT = """
[tool.loom.queries]
odd = "attr.odd=true"
broken = "attr.odd="
"""


@pytest.mark.proves("BEY-03")
def test_ps_lists_the_runs_that_are_so(desk: Path) -> None:
    failed_runs(desk, 4)
    loom("run", "hello", "--id", "h1", folder=desk)

    listed = loom("ps", "--where", 'status=failed and attr.number > 0 and not flow="hello"', folder=desk)
    told = loom("ps", "--where", "attr.odd=false", "--where", "id > f0", "--json", folder=desk)
    more = loom("ps", "--where", "status=failed", "--limit", "3", folder=desk)

    assert [line.split()[0] for line in listed.out.splitlines()] == ["ID", "f3", "f2", "f1"]
    assert listed.err == "3 runs are like that\n"
    assert ([row["id"] for row in told.json], told.err) == (["f2"], "")
    assert all(row["ended_at"] >= row["started_at"] for row in told.json)
    assert "there are more: --before" in more.err


def test_what_nothing_is_like_names_the_store_and_what_is_near(desk: Path) -> None:
    failed_runs(desk, 1)

    none = loom("ps", "--where", "attr.nunber=1 and status=failed", folder=desk)

    store = (desk / ".loom" / "loom.db").resolve()
    assert none.err == f"no executions like that in sqlite:{store}\ndid you mean attr.number?\n"
    assert none.status == ExitCode.DONE
    assert loom("ps", "--where", "attr.number=7", "--json", folder=desk).out == "[]\n"


def test_a_condition_that_cannot_be_read_is_refused_with_its_place(desk: Path) -> None:
    refused = loom("ps", "--where", "status=failed or stauts=paused", folder=desk)

    assert refused.status == ExitCode.USAGE
    assert refused.err.startswith(
        "error[where-invalid]: runs have no field 'stauts', at character 18 of 'status=failed or stauts=paused'\n"
        "try: Did you mean status?"
    )


@pytest.mark.proves("BEY-03")
def test_a_saved_query_chooses_the_runs_of_every_command(desk: Path) -> None:
    failed_runs(desk, 4)
    (desk / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")

    listed = loom("ps", "--query", "odd", "--where", "id > f1", "--json", folder=desk)
    planned = loom("retry", "--query", "odd", "--dry-run", folder=desk)

    assert [row["id"] for row in listed.json] == ["f3"]
    assert "retry would be for 2 runs" in planned.err


def test_saved_queries_are_listed_with_what_is_wrong_with_them(desk: Path) -> None:
    assert "no queries are saved" in loom("ps", "--queries", folder=desk).err
    (desk / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")

    listed = loom("ps", "--queries", folder=desk)
    told = loom("ps", "--queries", "--json", folder=desk)
    used = loom("ps", "--query", "broken", folder=desk)
    unknown = loom("ps", "--query", "even", folder=desk)
    doctor = loom("doctor", "--json", folder=desk)

    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "odd", "broken"]
    assert [(each["name"], each["where"], each["fault"]) for each in told.json] == [
        ("odd", "attr.odd=true", None),
        ("broken", "attr.odd=", "expected a value, found nothing, at character 10 of 'attr.odd='"),
    ]
    assert (listed.status, told.status, used.status, unknown.status) == (1, 1, 2, 2)
    assert "the query 'broken' cannot be used: expected a value" in used.err
    assert "no query is saved as 'even'\ntry: there are odd, broken\n" in unknown.err
    assert doctor.json["queries"]["saved"] == ["odd", "broken"]
    assert "'broken': expected a value" in doctor.json["queries"]["fault"]
    assert doctor.status == ExitCode.FAILED


def test_what_is_no_query_has_a_fault() -> None:
    table = {"queries": {"Bad Name": "status=failed", "number": 5, "good-1": "status=failed and started > -1d"}}

    found = {each.name: each.fault for each in saved_queries(table, now_ms=0)}

    assert found == {"Bad Name": "this is no name for a query", "number": "the query is no text", "good-1": ""}
    assert saved_queries({}, now_ms=0) == []
    assert "no table" in saved_queries({"queries": 5}, now_ms=0)[0].fault


def test_a_query_that_is_not_there_is_told_with_what_is_near() -> None:
    saved = [Saved("stuck", "status=running")]

    for name, known, hint in (
        ("stuk", saved, "did you mean stuck"),
        ("x", saved, "there are stuck"),
        ("x", [], "save one"),
    ):
        with pytest.raises(Usage, match=name) as caught:
            where_of([], [name], known, now_ms=0)
        assert hint in caught.value.hint
    assert where_of([], [], saved, now_ms=0) is None


def test_runs_since_a_time_began_after_it() -> None:
    assert since_text("30d") == 'started >= "-30d"'
    assert since_text("2026-11-30 09:00") == 'started >= "2026-11-30 09:00"'
    for text in ("soon", '1" or id > "', ""):
        with pytest.raises(Usage, match="is no time"):
            since_text(text)
