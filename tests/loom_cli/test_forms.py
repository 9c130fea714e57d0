"""Questions from a JSON Schema: schema in, questions out, lines in, JSON out."""

from __future__ import annotations

import shlex
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from loom import values
from loom.core.missing import MISSING
from loom_cli.forms import Question, ask
from loom_cli.payloads import payload_given
from loom_cli.schemas import described, example


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    zip: str | None = None


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Answer(BaseModel):
    approved: bool = Field(description="Pay it back?")
    amount: Annotated[float, Field(ge=0, lt=100)] = 5
    reason: str | None = None


def filled(annotation: Any, *lines: str, **more: Any) -> tuple[Any, list[Question]]:
    """Return what *lines* make of a form for *annotation*, and the questions asked."""
    asking, given_lines, asked = ask(values.schema(annotation), **more), iter(lines), []
    try:
        question = next(asking)
        while True:
            asked.append(question)
            question = asking.send(next(given_lines))
    except StopIteration as ended:
        assert list(given_lines) == [], "every line was an answer to something"
        return ended.value, asked


@pytest.mark.parametrize(
    ("annotation", "line", "answer"),
    [
        (bool, "yes", True),
        (bool, "N", False),
        (int, " 42 ", 42),
        (float, "1e3", 1000.0),
        (str, "two words", "two words"),
        (str, '""', ""),
        (date, "2026-01-31", "2026-01-31"),
        (Colour, "2", "blue"),
        (Literal["a", "b"], "a", "a"),
        (Any, '{"a": [1]}', {"a": [1]}),
        (Any, "just text", "just text"),
        (Decimal, "12.50", 12.5),
        (Decimal, "0.10000000000000000001", "0.10000000000000000001"),
        (Decimal | None, "twelve", "twelve"),
    ],
)
def test_a_scalar_is_one_question(annotation: Any, line: str, answer: Any) -> None:
    assert filled(annotation, line)[0] == answer


@pytest.mark.parametrize(
    ("annotation", "wrong", "problem"),
    [
        (bool, "maybe", "answer yes or no"),
        (int, "1.5", "'1.5' is not a whole number"),
        (int, "", "give a whole number"),
        (float, "nan", "'nan' is not a number"),
        (Annotated[int, Field(ge=3)], "2", "2 is not at least 3"),
        (Annotated[int, Field(lt=3)], "3", "3 is not less than 3"),
        (Annotated[str, Field(min_length=3)], "ab", "at least 3 characters"),
        (Annotated[str, Field(pattern="^[A-Z]$")], "a", "does not match ^[A-Z]$"),
        (Colour, "3", "choose 1 to 2"),
    ],
)
def test_a_wrong_line_is_asked_again_and_says_why(annotation: Any, wrong: str, problem: str) -> None:
    asking = ask(values.schema(annotation))
    next(asking)

    again = asking.send(wrong)

    assert again.problem == problem


def test_an_object_is_asked_field_by_field_and_an_empty_line_takes_the_default() -> None:
    answer, asked = filled(Answer, "yes", "", "")

    assert answer == {"approved": True}
    assert [(q.label, q.words, q.default) for q in asked] == [
        ("approved", "yes or no", ""),
        ("amount", "a number, at least 0, less than 100", "5"),
        ("reason", "text", "leave out"),
    ]
    assert asked[0].title == "Pay it back?"


def test_a_required_field_that_may_be_null_is_null_when_left_empty() -> None:
    class Needed(BaseModel):
        note: str | None

    assert filled(Needed, "")[0] == {"note": None}


def test_nested_objects_are_asked_by_their_path_and_optional_ones_are_offered() -> None:
    class Order(BaseModel):
        ship_to: Address
        bill_to: Address | None = None

    answer, asked = filled(Order, "Main St", "", "yes", "Side St", "8000")

    assert answer == {"ship_to": {"street": "Main St"}, "bill_to": {"street": "Side St", "zip": "8000"}}
    assert [q.label for q in asked] == ["ship_to.street", "ship_to.zip", "bill_to", "bill_to.street", "bill_to.zip"]


def test_a_list_is_asked_until_an_empty_line() -> None:
    answer, asked = filled(list[int], "1", "x", "2", "")

    assert answer == [1, 2]
    assert [(q.label, q.default) for q in asked][-1] == ("[2]", "no more")


def test_a_list_has_at_least_and_at_most_its_bounds() -> None:
    pair = Annotated[list[str], Field(min_length=1, max_length=2)]

    assert filled(pair, "a", "b")[0] == ["a", "b"]


def test_lists_of_objects_tuples_and_free_names() -> None:
    assert filled(list[Address], "y", "Main St", "", "")[0] == [{"street": "Main St"}]
    assert filled(tuple[int, str], "1", "a")[0] == [1, "a"]
    assert filled(dict[str, int], "a", "1", "b", "2", "")[0] == {"a": 1, "b": 2}


def test_a_union_of_kinds_is_chosen_first() -> None:
    answer, asked = filled(Cat | Dog, "2", "Rex")

    assert answer["name"] == "Rex"
    assert asked[0].choices == ("Cat", "Dog")


def test_a_secret_is_not_shown_while_it_is_typed() -> None:
    assert filled(SecretStr, "hunter2")[1][0].secret


def test_only_the_fields_with_a_problem_are_asked_again() -> None:
    known = {"approved": True, "amount": 99.0, "reason": "x"}

    answer, asked = filled(Answer, "7", known=known, problems={"amount": "is above the limit"})

    assert answer == {"approved": True, "amount": 7.0, "reason": "x"}
    assert [(q.label, q.problem, q.default) for q in asked] == [("amount", "is above the limit", "99.0")]


def test_a_problem_with_the_whole_asks_all_again_with_what_was_answered() -> None:
    answer, asked = filled(Answer, "", "", "", known={"approved": True, "amount": 9.0}, problems={"": "no"})

    assert answer == {"approved": True, "amount": 9.0}
    assert [q.default for q in asked] == ["yes", "9.0", "leave out"]


def test_a_gate_without_a_type_takes_json_or_text() -> None:
    assert filled(MISSING, "[1, 2]")[0] == [1, 2]


@given(st.lists(st.text(max_size=8), max_size=30))
def test_any_lines_end_in_an_answer_or_another_question(lines: list[str]) -> None:
    asking = ask(values.schema(list[Answer | Address]))
    try:
        next(asking)
        for line in lines:
            assert isinstance(asking.send(line), Question)
    except StopIteration as ended:
        values.parse(ended.value, list[Answer | Address])


def test_what_is_expected_is_described_in_words() -> None:
    assert described(values.schema(Answer)) == [
        ("approved", "yes or no", "Pay it back?"),
        ("amount", "a number, at least 0, less than 100", "default 5"),
        ("reason", "text", "optional"),
    ]
    assert described(values.schema(list[Colour])) == [("", "a list, each red | blue", "")]


@pytest.mark.parametrize(
    "annotation", [bool, int, str, Colour, Answer, Address, list[int], tuple[int, date], Cat | Dog]
)
def test_the_example_of_an_answer_is_one_once_its_capitals_are_replaced(annotation: Any) -> None:
    shown = example(values.schema(annotation))
    for placeholder, value in {"NUMBER": "1", "DATE": "2026-01-31", "red|blue": "red"}.items():
        shown = shown.replace(placeholder, value)
    words = shlex.split(shown)
    given_flags = list(zip(words[::2], words[1::2], strict=True))
    answers = [value for flag, value in given_flags if flag == "--answer"]
    sets = [value for flag, value in given_flags if flag == "--set"]

    answer = payload_given(answers[0] if answers else None, sets, flag="--answer", folder=Path())
    values.parse(answer, annotation)


class Node(BaseModel):
    name: str
    below: Node | None


class Whole(BaseModel):
    text: str
    count: int
    at: datetime
    price: Decimal
    colour: Colour
    sure: bool
    left_out: int = 5


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        (str, "--answer '\"TEXT\"'"),
        (int, "--answer NUMBER"),
        (bool, "--answer true"),
        (Colour, "--answer '\"red|blue\"'"),
        (tuple[int, date], "--answer '[NUMBER, \"DATE\"]'"),
        (list[int], "--answer '[]'"),
        (
            Whole,
            "--set text=TEXT --set count=NUMBER --set at=DATE-TIME --set price=NUMBER --set 'colour=red|blue' --set sure=true",
        ),
        (Node, "--set name=TEXT --set 'below="),
    ],
)
def test_an_example_invents_no_value_and_leaves_out_what_is_optional(annotation: Any, shown: str) -> None:
    assert example(values.schema(annotation)).startswith(shown)
    assert "left_out" not in shown


@pytest.mark.parametrize(
    ("annotation", "line", "told"),
    [
        (int, "9" * 5000, "is not a whole number"),
        (float, "1e999", "is not a number"),
        (float, "nan", "is not a number"),
        (Literal["a", "b"], "9" * 5000, "choose 1 to 2"),
        (Any, "9" * 5000, "it holds a number of more than 4300 digits"),
        (Any, "[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_number_without_end_is_asked_again(annotation: Any, line: str, told: str) -> None:
    _, asked = filled(annotation, line, "1")

    assert told in asked[1].problem


def test_a_whole_number_may_be_larger_than_any_float() -> None:
    assert filled(int, "9" * 400)[0] == int("9" * 400)
