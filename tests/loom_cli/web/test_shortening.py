"""Large values are made small, and what was left out is told by its path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_cli.web.shortening import Cut, at_path, compact, short

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=8),
    max_leaves=60,
)


def nodes(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(nodes, inside))


@given(JSON)
def test_a_small_value_stays_whole(value: Any) -> None:
    assert short(value) == (value, ())


@given(JSON, st.integers(1, 6), st.integers(1, 6), st.integers(1, 30))
def test_what_is_left_is_small_and_each_cut_tells_how_much_there_is(
    value: Any, text: int, items: int, most: int
) -> None:
    left = short(value, text_max=text, items_max=items, nodes_max=most)

    assert nodes(left.value) <= most + 1
    for path, size in left.cuts:
        whole, part = at_path(value, path), at_path(left.value, path)
        assert len(whole) == size
        assert len(part) < size
        assert isinstance(whole, list) or list(whole)[: len(part)] == list(part)  # the first characters, or fields


@given(JSON, st.integers(1, 6), st.integers(1, 6), st.integers(1, 30))
def test_what_has_no_cut_above_or_at_it_is_as_it_was(value: Any, text: int, items: int, most: int) -> None:
    left = short(value, text_max=text, items_max=items, nodes_max=most)

    if not left.cuts:
        assert left.value == value


def test_five_megabytes_come_as_two_thousand_characters() -> None:
    left = short({"text": "x" * 5_000_000, "n": 1})

    assert left.value == {"text": "x" * 2_000, "n": 1}
    assert left.cuts == (Cut(("text",), 5_000_000),)
    assert left.as_json()["cuts"] == [[["text"], 5_000_000]]


def test_a_value_nested_without_end_is_cut() -> None:
    value: Any = "the bottom"
    for _ in range(5_000):
        value = [value]

    left = short(value)

    assert len(left.cuts) == 1
    assert "the bottom" not in compact(left.value)


@pytest.mark.parametrize("path", [["b"], ["a", 2], ["a", -1], ["a", "0"], ["a", 0, "x"], [0]])
def test_nothing_stands_at_a_path_that_is_not_there(path: list[Any]) -> None:
    with pytest.raises(LookupError):
        at_path({"a": [1, 2]}, path)


@given(st.text(st.characters(), max_size=20))
def test_json_for_the_page_is_ascii_and_the_same_value(text: str) -> None:
    written = compact({text: text})

    assert written.isascii()
    assert json.loads(written) == {text: text}
