"""Forms: the fields that a schema has, and the answer that what was entered makes."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, TypeAdapter

from loom.core.missing import MISSING
from loom_cli.web.form_fields import entered, form_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    street: str
    number: int | None = None


class Deep(BaseModel):
    place: Place
    more: dict[str, int] = {}


class Form(BaseModel):
    approved: bool
    count: int
    amount: Decimal
    due: date
    at: time | None = None
    colour: Colour = Colour.BLUE
    level: Literal["low", "high"] | None = None
    code: Annotated[str, Field(pattern="^[A-Z]+$", max_length=3)] = "A"
    note: str | None = Field(default=None, description="for the customer")
    tags: list[str] = []
    numbers: list[int] = []
    place: Place
    other: Place | None = None
    deep: Deep | None = None
    secret: SecretStr | None = None
    either: int | str | None = None


SCHEMA = Form.model_json_schema()
LEAST: dict[str, Any] = {"approved": True, "count": "3", "amount": "1.5", "due": "2026-12-01", "place.street": "Am Kai"}
MADE = {"approved": True, "count": 3, "amount": 1.5, "due": "2026-12-01", "place": {"street": "Am Kai"}}


def kinds(form: Any) -> dict[str, str]:
    return {each["path"]: each["kind"] for each in form["fields"]}


def test_each_field_has_the_input_that_fits_it() -> None:
    assert kinds(form_json(SCHEMA)) == {
        "approved": "boolean",
        "count": "number",
        "amount": "number",
        "due": "date",
        "at": "time",
        "colour": "choice",
        "level": "choice",
        "code": "text",
        "note": "area",
        "tags": "list",
        "numbers": "list",
        "place": "object",
        "other": "object",
        "deep": "object",
        "secret": "secret",
        "either": "json",
    }


def test_an_object_in_an_object_is_json_when_it_is_deeper_than_one_level() -> None:
    deep = next(field for field in form_json(SCHEMA)["fields"] if field["path"] == "deep")

    assert kinds(deep) == {"deep.place": "json", "deep.more": "json"}


def test_a_field_tells_what_it_needs() -> None:
    fields = {field["path"]: field for field in form_json(SCHEMA)["fields"]}

    assert [path for path, field in fields.items() if field["required"]] == [
        "approved",
        "count",
        "amount",
        "due",
        "place",
    ]
    assert fields["colour"]["choices"] == ["red", "blue"]
    assert fields["colour"]["default"] == "1"
    assert fields["note"]["title"] == "for the customer"
    assert fields["code"]["maxLength"] == 3


def test_what_has_to_be_entered_makes_an_answer_and_the_rest_is_left_out() -> None:
    assert entered(SCHEMA, LEAST) == (MADE, {})


@pytest.mark.parametrize(
    ("values", "made"),
    [
        ({"colour": "0"}, {"colour": "red"}),
        ({"level": "1"}, {"level": "high"}),
        ({"tags": ["a", " b "], "numbers": ["1", "2"]}, {"tags": ["a", " b "], "numbers": [1, 2]}),
        ({"tags": []}, {}),
        ({"other": True, "other.street": "x", "other.number": "7"}, {"other": {"street": "x", "number": 7}}),
        ({"other": False, "other.street": "not sent"}, {}),
        ({"deep": True, "deep.place": '{"street": "y"}'}, {"deep": {"place": {"street": "y"}}}),
        ({"either": "7"}, {"either": 7}),
        ({"either": '"7"'}, {"either": "7"}),
        ({"note": '""'}, {"note": ""}),
        ({"note": "two\nlines"}, {"note": "two\nlines"}),
        ({"amount": "123456789012345678901234567890"}, {"amount": "123456789012345678901234567890"}),
    ],
)
def test_what_is_entered_besides(values: dict[str, Any], made: dict[str, Any]) -> None:
    assert entered(SCHEMA, LEAST | values) == (MADE | made, {})


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ({"approved": None}, {"approved": "give yes or no"}),
        ({"approved": "yes, yes"}, {"approved": "answer yes or no"}),
        ({"count": ""}, {"count": "give a whole number"}),
        ({"count": "a", "amount": ""}, {"count": "'a' is not a whole number", "amount": "give a number or text"}),
        ({"count": 3}, {"count": "enter a text"}),
        ({"colour": "9"}, {"colour": "choose one"}),
        ({"colour": {"a": 1}}, {"colour": "choose one"}),
        ({"code": "abc"}, {"code": "does not match ^[A-Z]+$"}),
        ({"numbers": ["1", "x"]}, {"numbers[1]": "'x' is not a whole number"}),
        ({"place.street": ""}, {"place.street": "give text"}),
        ({"other": True}, {"other.street": "give text"}),
    ],
)
def test_what_does_not_fit_is_told_at_its_field(values: dict[str, Any], problems: dict[str, str]) -> None:
    made = entered(SCHEMA, LEAST | values)

    assert made == (MISSING, problems)


def test_json_that_is_none_is_told_at_its_field() -> None:
    made = entered(SCHEMA, LEAST | {"deep": True, "deep.place": "{"})

    assert list(made.problems) == ["deep.place"]
    assert "is not JSON" in made.problems["deep.place"]


@pytest.mark.parametrize(
    ("type_", "values", "made"),
    [
        (bool, {"": False}, False),
        (str, {"": "words"}, "words"),
        (int, {"": "7"}, 7),
        (list[int], {"": ["7", "8"]}, [7, 8]),
        (Literal["a", "b"], {"": "1"}, "b"),
        (bool | None, {}, None),
        (dict[str, int], {"": '{"a": 1}'}, {"a": 1}),
    ],
)
def test_an_answer_may_be_a_single_value(type_: Any, values: dict[str, Any], made: Any) -> None:
    assert entered(TypeAdapter(type_).json_schema(), values) == (made, {})


def test_where_nothing_is_expected_anything_may_be_entered() -> None:
    assert form_json({})["kind"] == "json"
    assert entered({}, {"": '{"a": 1}'}).answer == {"a": 1}
    assert entered({}, {"": "plain words"}).answer == "plain words"


def test_every_answer_that_a_form_makes_fits_the_type() -> None:
    made = entered(SCHEMA, LEAST | {"colour": "0", "place.number": "4", "either": "x", "at": "10:30:00"})

    assert Form.model_validate(made.answer).place == Place(street="Am Kai", number=4)
