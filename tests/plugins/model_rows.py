"""Random rows of a read model, and random conditions on them. What fits is said here, plainly, without the stores and what they stand on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import eq, ge, gt, le, lt
from typing import Any, Final

import orjson
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, first
from loom.spi.event_store import Appended, ExecutionQuery
from loom.spi.read_model_store import ModelRow
from loom.spi.where import Among, Compared, Every, Field, Known, Not, Some, Where

MODEL: Final = ("totals", "1")
NAMES: Final = ("a", "a b", 'q"q', "b\\s", "it's", "x.y", "t\tab", "ü")
texts = st.sampled_from(["", "c7", "c70", "ü", "😀", "'\"\\", "5", "x" * 1000, "x" * 1001, "nul\0"])
numbers = st.sampled_from(
    [-1, 0, 5, 5.0, 5.5, 0.1, -0.0, 2**53 + 2, 2**63 - 1, -(2**63), 2**64 - 1, 1e300, -1e-7, 5e-324]
)
scalars = texts | numbers | st.booleans()
values = scalars | st.none() | st.just([1]) | st.just({"a": 1})
plain = st.dictionaries(st.sampled_from(NAMES), values, max_size=4).map(orjson.dumps)
odd_values = st.sampled_from(
    [
        "1",
        "1.0",
        " 5 ",
        "5e0",
        "1e400",
        "-1e400",
        "9" * 30,
        "-0",
        "true",
        "null",
        "[1]",
        '{"a":1}',
        '"c7"',
        '"\\u0063\\u0037"',
        '"\\u0000"',
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\\\u0000"',
    ]
)
odd_names = st.sampled_from(
    ['"a"', '"\\u0061"', '"a b"', '"q\\"q"', '"q\\u0022q"', '"b\\\\s"', '"\\u00fc"', '"n\\u0000"']
)
pairs = st.lists(st.tuples(odd_names, odd_values).map(":".join), max_size=4)
odd = pairs.map(lambda each: f"{{{','.join(each)}}}".encode())
broken = st.sampled_from(
    [b"", b"{", b"[1]", b'"a"', b"null", b"5", b"\xff", b'{"a":"\xff"}', b'{"a":1,"b":"\xc3"}', b"{'a':1}"]
)
bodies = st.lists(plain | odd | broken, min_size=1, max_size=8)
fields = st.builds(Field, st.just("row"), st.sampled_from([*NAMES, "none"]), st.just(MODEL[0]), st.just(MODEL[1]))
asked_texts = st.sampled_from(["", "c7", "c", "ü", "😀", "'\"\\", "5", "x", "\\u0000"])
asked = asked_texts | st.sampled_from([-1, 0, 5, 5.5, 0.1, 2**53 + 2, 1e300, -1e-7]) | st.booleans()
leaves: st.SearchStrategy[Where] = st.one_of(
    st.builds(Compared, fields, st.sampled_from(["=", "<", "<=", ">", ">="]), asked),
    st.builds(Compared, fields, st.just("~"), asked),
    st.builds(Among, fields, st.lists(asked, max_size=3).map(tuple)),
    st.builds(Known, fields),
)
conditions: st.SearchStrategy[Where] = st.recursive(
    leaves,
    lambda parts: (
        st.builds(Not, parts)
        | st.builds(Every, st.lists(parts, max_size=3).map(tuple))
        | st.builds(Some, st.lists(parts, max_size=3).map(tuple))
    ),
    max_leaves=4,
)


def said(body: bytes) -> Mapping[str, Any]:
    """Return what a row says that can be searched for, by name."""
    try:
        row = json.loads(body, parse_constant=_refused, parse_float=_finite)
        json.dumps(row, ensure_ascii=False).encode()  # half a character is none
    except ValueError:
        return {}
    if not isinstance(row, dict):
        return {}
    return {name: _searched(value) for name, value in row.items() if _is_searched(name, value)}


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _finite(number: str) -> float:
    if abs(float(number)) == float("inf"):
        raise ValueError(number)
    return float(number)


def _is_searched(name: str, value: object) -> bool:
    if "\0" in name or not isinstance(value, str | int | float):
        return False
    return not isinstance(value, str) or ("\0" not in value and len(value.encode()) <= 1000)


def _searched(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def is_so(row: Mapping[str, Any], where: Where) -> bool:
    """Whether a *row* is as *where* says."""
    match where:
        case Every():
            return all(is_so(row, part) for part in where.parts)
        case Some():
            return any(is_so(row, part) for part in where.parts)
        case Not():
            return not is_so(row, where.part)
        case Known():
            return where.field.attribute in row
        case Among():
            return any(is_so(row, Compared(where.field, "=", value)) for value in where.values)
        case Compared():
            return _is_like(row.get(where.field.attribute), where.sign, where.value)


def _is_like(value: Any, sign: str, wanted: Any) -> bool:
    kinds = [bool if isinstance(each, bool) else str if isinstance(each, str) else float for each in (value, wanted)]
    if value is None or kinds[0] is not kinds[1]:
        return False
    if sign == "~":
        return isinstance(value, str) and wanted in value
    return bool({"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}[sign](value, wanted))


async def found_as_said(store: Any, rows: Sequence[bytes], wheres: Sequence[Where]) -> None:
    """Put *rows* into *store*, which is empty: each condition finds those of which it is true."""
    ids = [ExecutionId(f"r{number}") for number in range(len(rows))]
    begun = await store.append([first(each, index=INDEX) for each in ids])
    assert all(isinstance(each, Appended) for each in begun)
    put = [ModelRow(run, life.incarnation, 0, body) for run, life, body in zip(ids, begun, rows, strict=True)]
    assert all(await store.put_model_rows(*MODEL, put))
    assert [row.body for row in await store.model_rows(*MODEL)] == [body for body in rows if body]
    for where in wheres:
        found = sorted(row.execution_id for row in await store.find(ExecutionQuery(where=where)))
        assert found == [run for run, body in zip(ids, rows, strict=True) if is_so(said(body), where)], where
