"""Misspelt fields are refused where a type names all of its fields, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict

from loom import values
from loom_cli.unknown_fields import UnknownField, refuse_unknown_fields


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    lines: list[Line]
    by_name: dict[str, Line] = {}
    first: Line | None = None
    pair: tuple[Line, int] | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    sku: str


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Typed(TypedDict):
    sku: str


@dataclass
class Plain:
    sku: str


@pytest.mark.parametrize(
    ("annotation", "given", "path"),
    [
        (Line, {"sku": "a", "cuont": 2}, "cuont"),
        (Order, {"lines": [{"sku": "a"}, {"sku": "b", "typo": 1}]}, "lines[1].typo"),
        (Order, {"lines": [], "by_name": {"x": {"sku": "a", "typo": 1}}}, "by_name.x.typo"),
        (Order, {"lines": [], "first": {"sku": "a", "typo": 1}}, "first.typo"),
        (Order, {"lines": [], "pair": [{"sku": "a", "typo": 1}, 2]}, "pair[0].typo"),
        (list[Line], [{"typo": 1}], "[0].typo"),
        (Cat | Dog, {"kind": "cat", "lives": 9, "typo": 1}, "typo"),
        (Typed, {"sku": "a", "typo": 1}, "typo"),
        (Plain, {"sku": "a", "typo": 1}, "typo"),
    ],
)
def test_a_field_that_a_type_has_not_is_refused_with_its_path(annotation: Any, given: Any, path: str) -> None:
    with pytest.raises(UnknownField) as refused:
        refuse_unknown_fields(given, values.schema(annotation))

    assert refused.value.path == path
    assert str(refused.value) == f"there is no field {path}"


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (Line, {"sku": "a", "count": 2}),
        (Line, "no object at all"),
        (Open, {"sku": "a", "more": 1}),
        (dict[str, int], {"anything": 1}),
        (Any, {"anything": {"at": "all"}}),
        (Cat | Dog, {"kind": "dog", "name": "rex"}),
        (Order, {"lines": [], "by_name": {"typo": {"sku": "a"}}, "first": None}),
    ],
)
def test_what_a_type_takes_is_not_refused(annotation: Any, given: Any) -> None:
    refuse_unknown_fields(given, values.schema(annotation))


def test_a_name_that_is_spelt_like_it_is_told_else_those_there_are() -> None:
    schema = values.schema(Line)

    for name, hint in (("cuont", "Did you mean count?"), ("typo", "It has sku, count.")):
        with pytest.raises(UnknownField) as refused:
            refuse_unknown_fields({name: 1}, schema)
        assert refused.value.hint == hint


def test_without_a_schema_nothing_is_refused() -> None:
    refuse_unknown_fields({"a": 1}, None)
