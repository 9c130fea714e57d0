"""JSON from arguments, files, standard input and `--set`."""

from __future__ import annotations

import io
from collections import Counter, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from loom import values
from loom.core.missing import MISSING
from loom_cli.errors import Usage
from loom_cli.payloads import NotJson, payload_given
from loom_cli.readable import readable


def given(text: str | None, *assignments: str, folder: Path = Path()) -> object:
    return payload_given(text, assignments, flag="--input", folder=folder)


def test_nothing_given_is_missing_and_null_is_not() -> None:
    assert given(None) is MISSING
    assert given("null") is None


def test_assignments_build_an_object_of_json_or_text() -> None:
    assert given(None, "approved=true", "amount=12.5", "note=a = b", "list=[1]", "empty=") == {
        "approved": True,
        "amount": 12.5,
        "note": "a = b",
        "list": [1],
        "empty": "",
    }


def test_assignments_set_fields_of_fields_and_of_what_is_given() -> None:
    assert given('{"a": 1, "b": {"c": 2}}', "b.d=3") == {"a": 1, "b": {"c": 2, "d": 3}}


def test_a_file_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claim.json").write_text('{"n": 1}', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("[2]"))

    assert given("@claim.json", folder=tmp_path) == {"n": 1}
    assert given("-") == [2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{1: 2}",
            "--input is not JSON: line 1, column 2: expecting property name enclosed in double quotes at '1: 2}'",
        ),
        ('{\n "a": nope}', "line 2, column 7: expecting value at 'nope}'"),
        ('{"a": ', "line 1, column 7: expecting value at the end"),
        ("", "line 1, column 1: expecting value at the end"),
        ("@missing.json", "--input @missing.json: No such file or directory"),
        ("[" * 100_000, "--input is nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises((NotJson, Usage)) as refused:
        given(text)

    assert told in str(refused.value)


@pytest.mark.parametrize("number", ["1" * 5000, "-" + "9" * 4400, '{"n": [' + "7" * 4301 + "]}"])
def test_a_number_that_python_does_not_read_is_refused_and_never_becomes_text(number: str) -> None:
    with pytest.raises(Usage, match="--input holds a number of more than 4300 digits"):
        given(number)
    with pytest.raises(Usage, match="--set holds a number of more than 4300 digits"):
        given(None, f"x={number}")
    with pytest.raises(Usage, match="--set is nested too deeply"):
        given(None, "x=" + "[" * 100_000)


def test_fields_of_fields_end_somewhere() -> None:
    with pytest.raises(Usage, match="nested too deeply"):
        given(None, ".".join("a" * 5000) + "=1")


def test_a_mark_of_the_byte_order_is_no_part_of_the_json(tmp_path: Path) -> None:
    (tmp_path / "claim.json").write_bytes(b"\xef\xbb\xbf[1]")

    assert given("@claim.json", folder=tmp_path) == [1]


def test_standard_input_is_utf_8_whatever_the_locale_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for written, encoding in ((b'"\xc3\xa9"', "latin-1"), (b'"\xff"', "utf-8")):
        stdin = io.TextIOWrapper(io.BytesIO(written), encoding=encoding, errors="surrogateescape")
        monkeypatch.setattr("sys.stdin", stdin)
        if written == b'"\xff"':
            with pytest.raises(Usage, match="--input -: no UTF-8 at byte 1"):
                given("-")
        else:
            assert given("-") == "\u00e9"


def test_standard_input_that_was_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(Usage, match="--input -: there is no standard input"):
        given("-")


def test_a_name_that_no_file_can_have_is_told() -> None:
    with pytest.raises(Usage, match="null"):
        given("@a\0b")


def test_a_text_that_was_not_quoted_for_json_is_shown_quoted() -> None:
    with pytest.raises(NotJson) as refused:
        given("Bob's")

    assert refused.value.hint == """A text is quoted twice, once for the shell: --input '"Bob'"'"'s"'"""


def test_an_assignment_needs_a_name_and_an_object() -> None:
    with pytest.raises(Usage, match="'x' is no assignment"):
        given(None, "x")
    with pytest.raises(Usage, match="needs an object"):
        given("[1]", "x=1")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a\0b", "a\0b"),
        ("\ud800", "\ud800"),
        (2**60, 2**60),
        (float("nan"), "nan"),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00"),
        (datetime(2026, 1, 31, 12, tzinfo=ZoneInfo("Europe/Berlin")), "2026-01-31T12:00:00+01:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (timedelta(days=2, hours=3), "2 days, 3:00:00"),
        (b"ab\xff", "b'ab\\xff'"),
        (PurePosixPath("/a"), "/a"),
        ((1, ("b",)), [1, ["b"]]),
        (deque([1], 3), [1]),
        (Counter("aab"), {"a": 2, "b": 1}),
        ({date(2026, 1, 31): "x"}, {"2026-01-31": "x"}),
        ({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]]),
        ({"$date": "mine"}, {"$date": "mine"}),
    ],
)
def test_a_value_is_shown_as_it_reads(value: Any, told: Any) -> None:
    assert readable(values.encode(value)) == told


class Agreement(BaseModel):
    approved: bool
    instead: str = ""
    model_config = {"extra": "allow"}


def test_what_the_log_notes_beside_fields_is_not_shown() -> None:
    agreement = Agreement.model_validate({"approved": True, "more": 1})

    for encoded in (values.encode(agreement), values.encode(agreement, Agreement)):
        assert "$unset" in str(encoded)
        assert readable(encoded) == {"approved": True, "instead": "", "more": 1}
    assert readable(values.encode({"$unset": ["mine"], "a": 1})) == {"$unset": ["mine"], "a": 1}


@pytest.mark.parametrize("encoded", [{"$date": 7}, {"$int": "q"}, {"$map": 3}, {"$deque": []}, {"$str": None}])
def test_what_no_writer_wrote_is_shown_as_it_stands(encoded: dict[str, Any]) -> None:
    [payload] = encoded.values()

    assert readable(encoded) == payload


def test_encoded_values_are_read_without_their_tags() -> None:
    encoded = {
        "claim": {"$type": "app:Claim", "value": {"n": 1, "$unset": ["t"], "price": {"$decimal": "1.50"}}},
        "how": {"$enum": ["app:How", "bank"]},
        "pair": {"$tuple": [1, {"$set": [2]}]},
        "raw": {"$dict": {"$type": "not one"}},
        "one": {"plain": 1},
        "none": {},
    }

    assert readable(encoded) == {
        "claim": {"n": 1, "price": "1.50"},
        "how": "bank",
        "pair": [1, [2]],
        "raw": {"$type": "not one"},
        "one": {"plain": 1},
        "none": {},
    }
