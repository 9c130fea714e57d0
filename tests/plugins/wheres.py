"""Random runs and random conditions on them. What fits, the store in memory says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import first
from loom.spi.event_store import ExecutionQuery, ExecutionRow, IndexRow, Storage
from loom.spi.memory import MemoryStorage
from loom.spi.where import Among, Compared, Every, Field, Known, Not, Some, Where

NAMES: Final = ("a", "b", "ü\\")
texts = st.sampled_from(["", "c7", "c70", "C7", "ü", "😀", "z%_", "'\"\\", "5"])
numbers = st.sampled_from([-1, 0, 5, 5.0, 5.5, 0.1, -0.0, 2**53 - 1, 2**53 + 2, 1e300, -1e-7, 9.223372036854776e18])
scalars = texts | numbers | st.booleans()
values = scalars | st.none() | st.lists(st.integers(0, 1), max_size=1)
times = st.integers(0, 9)
attributes = st.dictionaries(st.sampled_from(NAMES), values, max_size=3).map(lambda each: orjson.dumps(each).decode())
indexes = st.builds(
    IndexRow,
    flow=texts,
    status=st.sampled_from(["running", "failed"]),
    started_at=times,
    updated_at=times,
    wake_at=st.none() | times,
    gates=st.sampled_from(["[]", '[{"gate":"go"}]', '[{"gate":"go"},{"gate":"on"}]', "["]),
    attributes=attributes | st.sampled_from(["{", "[]", ""]),
    chain=st.just(""),
    parent=texts,
    ended=st.booleans(),
)
runs = st.lists(indexes, min_size=1, max_size=12)
orders = st.sampled_from(["=", "<", "<=", ">", ">="])
texts_of = st.builds(Field, st.sampled_from(["id", "flow", "status", "parent", "chain"]))
numbers_of = st.builds(Field, st.sampled_from(["started", "updated", "ended", "took", "wake", "gates", "length"]))
attributes_of = st.builds(Field, st.just("attr"), st.sampled_from([*NAMES, "none"]))
fields = texts_of | numbers_of | attributes_of
ids = st.sampled_from(["r0", "r1", "r11"])
leaves: st.SearchStrategy[Where] = st.one_of(
    st.builds(Compared, texts_of, orders | st.just("~"), texts | ids),
    st.builds(Compared, numbers_of, orders, times),
    st.builds(Compared, attributes_of, orders | st.just("~"), scalars),
    st.builds(Compared, fields, st.just("="), scalars.filter(lambda each: not isinstance(each, float | int))),
    st.builds(Among, texts_of, st.lists(texts | ids, max_size=3).map(tuple)),
    st.builds(Among, numbers_of, st.lists(times, max_size=3).map(tuple)),
    st.builds(Among, attributes_of, st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Known, fields),
)
wheres: st.SearchStrategy[Where] = st.recursive(
    leaves,
    lambda parts: (
        st.builds(Not, parts)
        | st.builds(Every, st.lists(parts, max_size=3).map(tuple))
        | st.builds(Some, st.lists(parts, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


async def same_found(store: Storage, rows: Sequence[IndexRow], asked: Sequence[Where]) -> None:
    """Write *rows* to *store*, which is empty; what it finds for each condition is what the store in memory finds."""
    batch: list[Any] = [first(ExecutionId(f"r{number}"), index=row) for number, row in enumerate(rows)]
    model = MemoryStorage()
    assert await store.append(batch) == await model.append(batch)
    for where in asked:
        await _same_page(store, model, ExecutionQuery(where=where))
        paged = ExecutionQuery(where=where, limit=2, tips=True)
        if page := await _same_page(store, model, paged):
            await _same_page(store, model, replace(paged, before=(page[-1].index.started_at, page[-1].execution_id)))


async def _same_page(store: Storage, model: MemoryStorage, query: ExecutionQuery) -> Sequence[ExecutionRow]:
    page = list(await model.find(query))
    assert list(await store.find(query)) == page, query
    return page
