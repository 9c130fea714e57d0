"""Canonical bytes are those of RFC 8785; digests are the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from loom.values import canonical, digest, dumps, encode, loads, significant
from loom.values.binding import binding_of_function
from tests.values.value_types import Claim

INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [1e-5, 9.99e-6, 2.0**53, 2.0**53 - 1, -0.0, 1e21]
)
TEXT = st.text() | st.sampled_from(["\U0001f600", "\uffff", "\ue000", "\x7f", "\u2028", "a,1.5", "[1.", ":2e", '"\\'])
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
)
ROOT = Path(__file__).parents[2]


@given(JSON)
def test_canonical_bytes_are_those_of_rfc_8785(json: Any) -> None:
    assert canonical(json) == rfc8785.dumps(json)


@given(JSON)
def test_stored_bytes_keep_the_value_and_the_order_of_its_keys(json: Any) -> None:
    assert repr(loads(dumps(json))) == repr(json)


def test_integers_of_foreign_json_keep_all_their_digits() -> None:
    assert (
        canonical({"b": 2**53 + 1, "a": [1.5, 2**64 - 1]}) == b'{"a":[1.5,18446744073709551615],"b":9007199254740993}'
    )
    assert canonical([1e-9, 2**53 + 1]) == b"[1e-9,9007199254740993]"


@pytest.mark.parametrize("odd", [(1, 2), {1: 2}, 2**64, "\ud800", {1}, b"a"])
def test_what_is_no_json_is_not_written_as_something_else(odd: Any) -> None:
    if odd == (1, 2):
        assert encode(odd) == {"$tuple": [1, 2]}
        return
    with pytest.raises(TypeError):
        dumps(odd)


def test_a_digest_is_22_characters_that_are_safe_in_a_url() -> None:
    assert digest({"a": 1}) == digest({"a": 1.0})
    assert len(digest({"a": 1})) == 22
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})


SETS = "[{'b', 'a', 'c', '\\ud83d', (1, 'x'), frozenset({'p', 'q'}), 5, None}, {'k': {'z', 'y'}}, __import__('collections').Counter('hello')]"
PROGRAM = f"from loom.values import *; v = {SETS}; j = encode(v); print(digest(j), decode(loads(dumps(j))) == v)"


@pytest.mark.proves("PRN-02")
def test_the_digest_of_sets_is_the_same_in_processes_with_other_hash_seeds() -> None:
    def printed(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    outputs = {printed(seed) for seed in ("0", "1", "4242")}

    assert len(outputs) == 1
    assert outputs.pop().endswith(" True\n")


def limited(id: int, limit: int = 1, flag: bool = True) -> None:
    """A function whose arguments are compared."""


def test_arguments_at_their_default_are_left_out_of_what_is_compared() -> None:
    binding = binding_of_function(limited)

    assert binding.encode((7,), {})[1] == binding.encode((7, 1, True), {})[1] == {"id": 7}
    assert binding.encode((7,), {"limit": 2})[1] == {"id": 7, "limit": 2}
    assert binding.encode((7,), {"flag": 1})[1] == {"id": 7, "flag": 1}, "1 is not True"


def test_a_new_field_with_a_default_strands_no_digest() -> None:
    before = digest({"claim": {"amount": 1}})

    assert digest({"claim": significant(Claim(amount=1), Claim)}) == before
    assert digest({"claim": significant(Claim(amount=1, reason="b"), Claim)}) != before
