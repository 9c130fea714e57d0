"""The marks of the tests and the requirements agree."""

from __future__ import annotations

import json

import pytest

from tests import rows

SAMPLE = """
## KER — Kernel

| ID | K | Feature | Must do | Source | Check |
|---|---|---|---|---|---|
| KER-01 | D | core | something | §5 | look |
| KER-20 | N | Blank id | `a` or `b` | 0107 | look |
"""


def test_every_mark_names_a_row_that_exists() -> None:
    known = rows.parse_rows(rows.REQUIREMENTS.read_text(encoding="utf-8"))

    assert rows.unknown(rows.claims_below(rows.ROOT), known) == []


def test_the_requirements_are_read_whole() -> None:
    text = rows.REQUIREMENTS.read_text(encoding="utf-8")

    known = rows.parse_rows(text)

    assert len(known) == sum(
        line.startswith("| ") and line[2:5].isupper() and "-" in line[4:7] for line in text.splitlines()
    )
    assert all(row.group for row in known.values())


def test_rows_are_read_with_group_and_kind() -> None:
    known = rows.parse_rows(SAMPLE)

    assert list(known) == ["KER-01", "KER-20"]
    assert known["KER-20"] == rows.Row("KER-20", "KER — Kernel", "N", "Blank id")


def test_marks_are_found_on_tests_classes_parameters_and_modules() -> None:
    source = (
        "pytestmark = pytest.mark.proves('A-1')\n"
        "@pytest.mark.proves('A-2', 'A-3')\n"
        "class TestIt:\n"
        "    @pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.proves('A-4'))])\n"
        "    def test_it(self, n): ...\n"
    )

    claims = list(rows.claims_in(source, "t.py"))

    assert sorted((claim.row, claim.place) for claim in claims) == [
        ("A-1", "t.py:1"),
        ("A-2", "t.py:2"),
        ("A-3", "t.py:2"),
        ("A-4", "t.py:4"),
    ]


def test_a_mark_for_no_row_is_found_out() -> None:
    claims = rows.claims_in("@pytest.mark.proves('KER-99')\ndef test_it(): ...", "t.py")

    assert rows.unknown(claims, rows.parse_rows(SAMPLE)) == [rows.Claim("KER-99", "t.py:1")]


def test_a_mark_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(rows.MarkUnreadable, match=r"t\.py:1"):
        list(rows.claims_in("x = pytest.mark.proves(ROW)", "t.py"))


def test_the_command_prints_what_is_open_and_what_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows.main(["--json"]) == 0
    still_open = json.loads(capsys.readouterr().out)
    assert rows.main(["--json", "--proved"]) == 0
    proved = json.loads(capsys.readouterr().out)

    assert all(row["tests"] for row in proved)
    assert not any(row["tests"] for row in still_open)
    assert len(proved) + len(still_open) == len(rows.parse_rows(rows.REQUIREMENTS.read_text(encoding="utf-8")))


def test_the_command_counts_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows.main(["--proved"]) == 0

    assert "rows have a test" in capsys.readouterr().out
