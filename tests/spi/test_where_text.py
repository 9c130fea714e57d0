from __future__ import annotations

import json
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.spi.where import Among, Compared, Every, Field, Known, Not, Some, Where, both, fields_of, odd_row, searchable
from loom.spi.where_text import DEPTH_MAX, FIELDS, TESTS_MAX, Columns, WhereInvalid, parse_where

NOW = 1_800_000_000_000
HOUR = 3_600_000
FAILED = Compared(Field("status"), "=", "failed")
C7 = Compared(Field("attr", "customer"), "=", "c7")


def parsed(text: str) -> Where:
    return parse_where(text, now_ms=NOW, zone=UTC)


def refused(text: str) -> WhereInvalid:
    with pytest.raises(WhereInvalid) as caught:
        parsed(text)
    return caught.value


@pytest.mark.proves("BEY-03")
@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("status=failed", FAILED),
        ('status = failed and attr.customer="c7"', Every((FAILED, C7))),
        ("status=failed or not attributes.customer=c7", Some((FAILED, Not(C7)))),
        ("(status=failed)", FAILED),
        ("NOT status=failed AND status=failed", Every((Not(FAILED), FAILED))),
        ("not (status=failed or attr.customer='c7')", Not(Some((FAILED, C7)))),
        ("status != failed", Not(FAILED)),
        ("status in (failed, in-doubt)", Among(Field("status"), ("failed", "in_doubt"))),
        ("status not in (failed)", Not(Among(Field("status"), ("failed",)))),
        ("flow ~ ref", Compared(Field("flow"), "~", "ref")),
        ("id !~ ref", Not(Compared(Field("id"), "~", "ref"))),
        ("gates > 0", Compared(Field("gates"), ">", 0)),
        ("parent = null", Not(Known(Field("parent")))),
        ("wake != null", Not(Not(Known(Field("wake"))))),
        ("attr.a.b = null", Not(Known(Field("attr", "a.b")))),
        ('attr."a b" = "say \\"so\\""', Compared(Field("attr", "a b"), "=", 'say "so"')),
    ],
)
def test_a_condition_is_read(text: str, where: Where) -> None:
    assert parsed(text) == where


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cost = 5", "cost"),
        ("totals.cost = 5", "cost"),
        ('"cost" = 5', "cost"),
        ('totals."a b" = 5', "a b"),
        ("'a b' = 5", "a b"),
        ('totals."x.y" = 5', "x.y"),
        (r'"q\"q" = 5', 'q"q'),
        ('totals."status" = 5', "status"),
    ],
)
def test_a_name_of_a_row_is_quoted_where_it_is_no_plain_word(text: str, name: str) -> None:
    columns = [Columns("totals", "1", frozenset({"cost", "a b", "x.y", 'q"q', "status"}))]

    assert parse_where(text, now_ms=NOW, columns=columns) == Among(Field("row", name, "totals", "1"), (5, "5"))


def test_a_quoted_name_that_no_row_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(WhereInvalid, match="the rows of totals have no 'a  b', at character 1 ") as refused:
        parse_where('totals."a  b" = 5', now_ms=NOW, columns=[Columns("totals", "1", frozenset({"a b"}))])

    assert refused.value.hint == "They have a b."


def test_and_binds_before_or() -> None:
    a, b, c = (Compared(Field("id"), "=", name) for name in "abc")

    assert parsed("id=a or id=b and id=c") == Some((a, Every((b, c))))
    assert parsed("(id=a or id=b) and id=c") == Every((Some((a, b)), c))


@pytest.mark.parametrize(
    ("value", "means"),
    [
        ("5", (5, "5")),
        ("5.0", (5, "5.0")),
        ("-1.5e2", (-150, "-1.5e2")),
        ("true", (True, "true")),
        ('"5"', ("5",)),
        ("c5", ("c5",)),
        ("99999999999999999999", (1e20, "99999999999999999999")),
    ],
)
def test_a_plain_word_of_an_attribute_is_a_number_or_truth_or_the_text(value: str, means: tuple[object, ...]) -> None:
    where = parsed(f"attr.v = {value}")

    found = where.values if isinstance(where, Among) else (where.value,) if isinstance(where, Compared) else ()
    assert [(each, type(each)) for each in found] == [(each, type(each)) for each in means]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("-2h", NOW - 2 * HOUR),
        ("+1h30m", NOW + HOUR + HOUR // 2),
        ("now", NOW),
        ("2026-11-30T09:00", 1_796_029_200_000),
        ("2026-11-30T10:00+01:00", 1_796_029_200_000),
        ("2026-11-30", 1_796_029_200_000 - 9 * HOUR),
    ],
)
def test_a_time_is_seen_from_now_or_a_date(text: str, ms: int) -> None:
    assert parsed(f"started >= {text}") == Compared(Field("started"), ">=", ms)


def test_a_date_is_that_of_its_zone() -> None:
    east = timezone(timedelta(hours=2))

    [there, here] = [parse_where("ended < 2026-11-30", now_ms=NOW, zone=zone) for zone in (east, UTC)]

    assert isinstance(there, Compared)
    assert isinstance(here, Compared)
    assert int(here.value) - int(there.value) == 2 * HOUR


def test_a_run_that_has_not_ended_lasts_until_now() -> None:
    open_since = Every((Not(Known(Field("ended"))), Compared(Field("started"), "<", NOW - HOUR)))

    assert parsed("duration > 1h") == Some((Compared(Field("took"), ">", HOUR), open_since))


@pytest.mark.parametrize(
    ("text", "at", "told", "hint"),
    [
        ("", 0, "expected a field, found nothing", "status=failed"),
        ("status", 6, "expected =, != or in after status", "status=failed"),
        ("status=", 7, "expected a value, found nothing", "As in"),
        ("status=faild", 7, "'faild' is no status", "Did you mean failed?"),
        ("status > failed", 7, "status is not compared by >", "It takes =, !="),
        ("status == failed", 7, "'==' is no sign", "It takes =, !="),
        ("stauts=failed", 0, "runs have no field 'stauts'", "Did you mean status?"),
        ("customer=c7", 0, "runs have no field 'customer'", "attr.NAME"),
        ("status=failed and cost>1", 18, "runs have no field 'cost'", "does not know what a run costs"),
        ("after=2h", 0, "runs have no field 'after'", "started > -2h"),
        ("attr.=x", 0, "runs have no field 'attr.'", "attr.NAME"),
        ("(id=a", 5, "expected ), found nothing", ""),
        ("id=a id=b", 5, "expected and, or, or the end, found 'id'", ""),
        ("id=a)", 4, "expected and, or, or the end, found ')'", ""),
        ("id in a", 6, "expected (, found 'a'", "status in (failed"),
        ("id not = a", 7, "expected in, found '='", ""),
        ("id in (a, null)", 10, "null is none of several values", ""),
        ("wake in (now)", 8, "wake is compared by", ""),
        ('id="a', 3, "the quote is not closed", ""),
        ("id=null", 3, "id always has a value", "Only ended, wake"),
        ("started > 2h", 10, "'2h' is no time", "Write -2h"),
        ("started > soon", 10, "'soon' is no time", "started > -2h"),
        ("started > 9999-12-31T23:59-12:00", 10, "is no time", ""),
        ("duration > 5", 11, "'5' is no duration", "90s, 15m"),
        ("gates > many", 8, "gates is a whole number", "gates > 0"),
        ("attr.n > 1e999", 9, "1e999 is too large", ""),
        ("id = a\0", 5, "this text is none that a run can have", ""),
        ("id = \ud800", 5, "this text is none that a run can have", ""),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(text: str, at: int, told: str, hint: str) -> None:
    error = refused(text)

    assert (error.at, error.code) == (at, "where-invalid")
    assert told in str(error)
    assert f"at character {at + 1} of" in str(error)
    assert hint in error.hint


def test_a_condition_is_of_bounded_size() -> None:
    assert "nested too deeply" in str(refused("not " * (DEPTH_MAX + 1) + "id=a"))
    assert "nested too deeply" in str(refused("(" * 100_000))
    assert f"more than {TESTS_MAX} tests" in str(refused(" and ".join(["id=a"] * (TESTS_MAX + 1))))
    assert f"more than {TESTS_MAX} tests" in str(refused(f"id in ({', '.join('a' * (TESTS_MAX + 1))})"))
    assert len(str(refused("id=a " + "x" * 10_000))) < 400


pieces = st.sampled_from(
    [
        *FIELDS,
        "attr.x",
        'attr."',
        "=",
        "!=",
        "<",
        "~",
        "!~",
        "(",
        ")",
        ",",
        "and",
        "or",
        "not",
        "in",
        "null",
        "'",
        '"x"',
        "5",
        "-2h",
    ]
)


@given(st.lists(pieces | st.text(max_size=3), max_size=12).map(" ".join) | st.text())
def test_any_text_is_a_condition_or_refused_in_words(text: str) -> None:
    error: WhereInvalid | None = None
    try:
        parsed(text)
    except WhereInvalid as caught:
        error = caught
    assert error is None or 0 <= error.at <= len(text)


def test_conditions_join_and_tell_what_they_look_at() -> None:
    where = both(FAILED, None, Not(Some((C7, Known(Field("wake"))))))

    assert where is not None
    assert [field.name for field in fields_of(where)] == ["status", "attr", "wake"]
    assert (both(FAILED), both(None), both()) == (FAILED, None, None)


def test_what_can_be_searched_for_is_what_every_database_holds() -> None:
    plain = {"t": "x", "n": 5.0, "f": 0.5, "b": True}
    other = {"none": None, "list": [1], "nul": "\0", "n\0": 1, "big": "x" * 1001, "n" * 201: 1}

    found = searchable(json.dumps({**plain, **other}))

    assert dict(found) == {"t": "x", "n": 5, "f": 0.5, "b": True}
    assert type(found["n"]) is int
    assert [dict(searchable(text)) for text in ("{}", "[]", "{", "")] == [{}, {}, {}, {}]


def test_a_row_that_a_database_might_read_another_way_is_odd() -> None:
    for plain in (b"", b"{}", b'{"a":1,"b":"\xc3\xbc","c":[1.5,null,true]}', b'{"q\\"q":-9223372036854775808}'):
        assert odd_row(plain) is None, plain
    odd = {
        b'{"a":1,"a":2}': '{"a":2}',
        b'{"a": 1}': '{"a":1}',
        b'{"\\u0061":1,"b":"\\ud800"}': "{}",
        b'{"a":"\xff"}': "{}",
        b'{"a":"\\u0000","b":1}': '{"b":1}',
        b'{"a":18446744073709551615,"b":[1]}': '{"a":1.8446744073709552e19}',
        b"[1]": "{}",
        b"no": "{}",
    }
    assert {body: json.loads(odd_row(body) or "null") for body in odd} == {body: json.loads(odd[body]) for body in odd}
