"""What a person or another program wrote is validated, and everything that is wrong with it is told."""

from __future__ import annotations

import copy
import datetime
import decimal
import json as stdlib_json
import pickle
import subprocess
import sys
import threading
import typing
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator

from loom.core.errors import InvalidDeclaration
from loom.values import MISSING, InvalidPayload, check, decode, encode, parse, schema
from tests.values.value_types import Aliased, Claim, Dog, Film, Item, Level, Login, Movie, Owner, Page, Range


class Account(BaseModel):
    user: Annotated[str, Field(min_length=3)]
    age: int
    pin: SecretStr = Field(min_length=8, alias="code")
    api_token: str = ""

    @field_validator("pin")
    @classmethod
    def told(cls, pin: SecretStr) -> SecretStr:
        if "x" in pin.get_secret_value():
            raise ValueError(f"{pin.get_secret_value()} has an x")
        return pin


def problems(json: Any, annotation: Any) -> dict[str, str]:
    with pytest.raises(InvalidPayload) as caught:
        parse(json, annotation)
    assert "hunter2" not in f"{caught.value} {caught.value.problems} {caught.value.__cause__}"
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("json", "annotation", "value"),
    [
        ({"amount": "12", "level": 2}, Claim, Claim(amount=12, level=Level.HIGH)),
        ({"name": "a", "tags": ["b"]}, Item, Item("a", tags=["b"])),
        ("2026-01-02T03:04:05Z", datetime.datetime, datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
        ("1.50", decimal.Decimal, decimal.Decimal("1.50")),
        ([1, {"name": "a"}], tuple[int, Item], (1, Item("a"))),
        (None, Claim | None, None),
        ({"second": 1, "first": 2}, Aliased, Aliased(second=1, first=2)),
        ({"pet": {"kind": "dog"}}, Owner, Owner(pet=Dog())),
        ({"entries": ["1"]}, Page[int], Page[int](entries=[1])),
        ([1, 2], Range, Range(1, 2)),
        (10**30, int, 10**30),
        ({"title": "a", "star": {"name": "b"}}, Movie, {"title": "a", "star": Item("b")}),
        (
            [{"title": "a", "star": {"name": "b"}, "year": "1"}],
            list[Movie],
            [{"title": "a", "star": Item("b"), "year": 1}],
        ),
        ({"title": "a"}, Film | None, {"title": "a"}),
        (None, Movie | None, None),
        ("a", Literal["a", "b"], "a"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_json_that_fits_becomes_a_value_of_the_annotation(json: Any, annotation: Any, value: Any) -> None:
    parsed = parse(json, annotation)

    assert parsed == value
    assert type(parsed) is type(value)


def test_every_failing_field_is_told_with_its_path_and_value() -> None:
    told = problems({"amount": "a lot", "items": [{"name": 1, "price": "x"}], "level": 9, "pair": [1]}, Claim)

    assert set(told) == {"amount", "items[0].name", "items[0].price", "level", "pair[1]"}
    assert (
        told["amount"] == "amount: input should be a valid integer, unable to parse string as an integer, not 'a lot'"
    )
    assert told["pair[1]"].endswith("field required")
    assert problems("a", int) == {
        "value": "value: input should be a valid integer, unable to parse string as an integer, not 'a'"
    }


def test_secrets_are_not_shown_even_where_the_authors_message_quotes_them() -> None:
    told = problems({"user": "a", "age": "b", "code": "hunter2", "api_token": ["hunter2"]}, Account)

    assert told["user"].endswith("not 'a'")
    assert told["code"].endswith("not (hidden)")
    assert told["api_token"].endswith("not (hidden)")
    assert problems({"user": "abc", "age": 1, "code": "hunter2 and x"}, Account) == {
        "code": "code: is not valid, not (hidden)"
    }
    assert problems({"password": "hunter2"}, Login) == {"user": "user: field required"}
    assert problems(["hunter2"], list[Annotated[SecretStr, Field(min_length=9)]])["[0]"].endswith("not (hidden)")
    assert "a dict" in problems([{"password": "hunter2"}], list[int])["[0]"]


def test_values_are_shown_shortened() -> None:
    [shown] = problems(["x" * 10_000], list[int]).values()

    assert len(shown) < 160


def test_half_a_surrogate_pair_is_a_problem_and_no_crash() -> None:
    assert problems({"amount": "\ud83d"}, Claim)


def test_without_an_annotation_json_stays_as_it_is_and_standard_tags_are_revived() -> None:
    own: Any = {
        "a": [1, None, {"b": 1.5}],
        "$ref": "#/x",
        "c": {"$ref": "#/y"},
        "d": {"$set": {"x": 1}},
        "e": {"$decimal": "x"},
    }

    assert parse(own, MISSING) == parse(own, Any) == own
    assert parse({"price": {"$decimal": "1.50"}}, Any) == {"price": decimal.Decimal("1.50")}
    assert parse(encode({"a": (1, {2}), "$b": {3: 4}}), MISSING) == {"a": (1, {2}), "$b": {3: 4}}


def test_nobody_outside_names_a_class_to_be_made() -> None:
    for json in (encode(Item("a")), encode(Level.HIGH), {"$tuple": [encode(Item("a"))]}):
        assert parse([json], MISSING) == [json]


def test_json_that_is_nested_too_deeply_is_a_problem_and_no_crash() -> None:
    with pytest.raises(InvalidPayload, match="nested deeper"):
        parse(stdlib_json.loads("[" * 240 + '{"$x": 1}' + "]" * 240), MISSING)


def test_an_instance_of_exactly_the_class_passes_as_it_is() -> None:
    claim, item = Claim(amount=1), Item("a")

    assert check(claim, Claim) is claim
    assert check(claim, Claim | None) is claim
    assert check(item, Item) is item
    assert check(threading, Any) is threading
    assert check("half \ud83d", str) == "half \ud83d"


def test_a_live_value_of_another_type_is_validated_like_json() -> None:
    assert check({"amount": "1"}, Claim) == Claim(amount=1)
    assert check([{"name": "a"}], list[Item]) == [Item("a")]
    with pytest.raises(InvalidPayload) as caught:
        check({"amount": "x", "items": 5}, Claim)
    assert [problem.path for problem in caught.value.problems] == ["amount", "items"]


def test_the_schema_is_jsons_and_the_callers_own_copy() -> None:
    first = schema(Claim)
    first["title"] = "changed"

    assert schema(Claim)["title"] == "Claim"
    assert schema(MISSING) == schema(Any) == {}
    assert schema(Movie)["required"] == ["title", "star"]
    assert schema(Annotated[int, Field(gt=0)]) == {"type": "integer", "exclusiveMinimum": 0}
    assert schema(type(None)) == {"type": "null"}


class WithTypedDict(typing.NamedTuple):
    movie: Movie


def test_what_pydantic_refuses_is_told_with_what_to_do() -> None:
    with pytest.raises(InvalidDeclaration, match=r"cannot be validated as Lock|cannot be validated as lock") as caught:
        parse({}, type(threading.Lock()))
    assert "Annotate with" in caught.value.hint
    with pytest.raises(InvalidDeclaration):
        schema(typing.Callable[[], int])
    with pytest.raises(InvalidDeclaration):
        parse({}, "NowhereToBeFound")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from 3.12 on")
def test_a_typed_dict_that_cannot_be_replaced_is_told_with_what_to_do() -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        parse({}, WithTypedDict)
    assert "typing_extensions" in caught.value.hint


def test_the_error_survives_copies_and_pickling() -> None:
    with pytest.raises(InvalidPayload) as caught:
        parse({"amount": "x"}, Claim)

    for again in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert again.problems == caught.value.problems
        assert str(again) == str(caught.value)
        assert isinstance(again, ValueError)


def test_pydantic_is_not_imported_before_it_is_needed() -> None:
    program = "import sys; from loom import values; values.decode(values.encode({'a': (1,)})); print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("text", ["2026-11-30T12:00:00Z", "2026-11-30T12:00:00+02:00", "2026-11-30T12:00:00-05:30"])
def test_a_time_that_was_parsed_can_be_encoded_and_comes_back_the_same(text: str) -> None:
    moment = parse(text, datetime.datetime)

    again = decode(encode(moment, datetime.datetime), datetime.datetime)

    assert again == moment == datetime.datetime.fromisoformat(text)
    assert again.utcoffset() == moment.utcoffset()
    assert decode(encode({"at": moment})) == {"at": moment}
