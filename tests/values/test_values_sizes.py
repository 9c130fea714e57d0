"""A value is refused exactly where it takes more than a log does, however little of it is looked at."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loom import values
from loom.values import sizes
from loom.values.sizes import ValueTooLarge, bounded

MAX = 2_000
TEXTS = st.text(st.sampled_from('a"\x01\\\u20ac\U0001f600'), max_size=12) | st.sampled_from(["x" * 1_900, "\x01" * 340])
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(TEXTS, inner, max_size=20),
    max_leaves=60,
)


@given(json=JSON, beside=st.sampled_from([0, 0, 400, 600, 1_990]))
@example(json={"\x01" * 7 + str(n): "\x01" * 7 for n in range(16)}, beside=500)
@example(json="\x01" * 332, beside=0)
def test_a_value_is_refused_exactly_where_it_takes_too_much(json: Any, beside: int) -> None:
    size = len(values.dumps(json)) + beside

    with mock.patch.object(sizes, "VALUE_BYTES_MAX", MAX):
        if size <= MAX:
            assert bounded(json, "show", "ask", beside=beside) is json
            return
        with pytest.raises(ValueTooLarge) as refused:
            bounded(json, "show", "ask", beside=beside)

    assert refused.value.size == size
    assert str(refused.value).startswith(f"show of ask: takes {size:,} bytes on the log, more than 2,000. Hand on")


def test_what_surely_is_small_is_not_written_for_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> bytes:
        raise AssertionError("it was written")

    monkeypatch.setattr(values, "dumps", never)

    small: list[Any] = [None, 7, 0.5, "x" * 100_000]
    for json in (*small, {"order": "A-17", "amount": 40, "rush": True, "note": "x" * 100_000}):
        assert bounded(json, "show", "ask") is json
