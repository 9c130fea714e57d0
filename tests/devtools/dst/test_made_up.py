"""Results, answers and inputs are made up from their types; where that cannot be, it is said in words."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest

from loom import values
from loom.devtools.dst.made_up import from_schema, made_up
from loom.devtools.dst.world import NoValue


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    article: str
    count: int
    note: str | None = None


class Order(pydantic.BaseModel):
    id: uuid.UUID
    at: datetime
    lines: list[Line]
    colour: Colour
    price: Decimal
    weight: Annotated[float, pydantic.Field(gt=2, le=9)]
    pieces: Annotated[int, pydantic.Field(ge=3, multiple_of=4)]
    kind: Literal["gift", "own"]
    first: Annotated[list[int], pydantic.Field(min_length=2)]
    pair: tuple[str, bool]
    by: dict[str, int]
    later: date
    rest: timedelta


class Tree(pydantic.BaseModel):
    children: list[Tree]


class Endless(pydantic.BaseModel):
    inner: Endless


@pytest.mark.parametrize("kind", [bool, int, float, str, bytes, Colour, Line, Order, Tree, list[Order], int | None])
def test_a_value_of_a_type_is_made_up_and_is_of_that_type(kind: Any) -> None:
    value = made_up(kind, what="it", hint="")

    assert values.check(value, kind) == value
    assert made_up(kind, what="it", hint="") == value


@pytest.mark.parametrize("kind", [None, Any])
def test_where_any_value_will_do_it_is_none(kind: Any) -> None:
    assert made_up(kind, what="it", hint="") is None


class Coded(pydantic.BaseModel):
    code: Annotated[str, pydantic.Field(pattern="^[A-Z]{3}[0-9]+$")]


@pytest.mark.parametrize("kind", [Endless, Coded])
def test_what_has_no_simple_value_is_refused_in_words(kind: Any) -> None:
    with pytest.raises(NoValue, match="no value can be made up for the step x") as refused:
        made_up(kind, what="the step x", hint="Give it a stand-in.")

    assert refused.value.hint == "Give it a stand-in."


def test_a_schema_of_a_gate_is_enough() -> None:
    schema = {
        "type": "object",
        "required": ["ok"],
        "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}},
    }

    assert from_schema(schema) == {"ok": True}
    assert from_schema({}) is None
