"""What every `ExecutionIndex` must find by a condition; what conditions mean is told in `loom.spi.where`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import CLAIM, INDEX, REFUND, after, appended, first, row_of
from loom.spi.event_store import Appended, ExecutionQuery, IndexRow, Storage
from loom.spi.read_model_store import ModelRow, ReadModelStore
from loom.spi.where import TEXT_BYTES_MAX
from loom.spi.where_text import Columns, parse_where

NOW = 100_000


class SearchConformance:
    """Listings of what is so."""

    async def test_a_field_is_compared(self, store: Storage) -> None:
        await _rows(
            store,
            a={"started_at": 10_000, "status": "failed", "ended": True, "updated_at": 12_000},
            b={"started_at": 50_000, "wake_at": 90_000, "gates": '[{"gate":"x"},{"gate":"y"}]'},
            c={"started_at": 99_000, "flow": "claim", "parent": "a"},
        )

        assert await _found(store, "status = failed") == ["a"]
        assert await _found(store, "status != failed") == ["c", "b"]
        assert await _found(store, "id >= b") == ["c", "b"]
        assert await _found(store, "flow ~ lai") == ["c"]
        assert await _found(store, "flow !~ lai") == ["b", "a"]
        assert await _found(store, "started > -60s") == ["c", "b"]
        assert await _found(store, "updated <= -88s") == ["c", "b", "a"]
        assert await _found(store, "wake < now") == ["b"]
        assert await _found(store, "gates = 2") == ["b"]
        assert await _found(store, "gates = 0 and length < 2") == ["c", "a"]
        assert await _found(store, "chain = c or parent != null") == ["c"]

    async def test_what_a_run_has_not_is_only_like_what_it_is_not(self, store: Storage) -> None:
        await _rows(store, a={"wake_at": 5_000, "parent": "p", "attributes": '{"n":1}'}, b={})

        for field in ("parent = p", "parent ~ p", "wake < now", "attr.n > 0", "attr.n = 1", "attr.n in (1, 2)"):
            assert await _found(store, field) == ["a"], field
            assert await _found(store, f"not {field}") == ["b"], field
        assert await _found(store, "parent != q") == ["b", "a"]
        assert await _found(store, "attr.n != null") == ["a"]
        assert await _found(store, "parent = null and wake = null and attr.n = null and ended = null") == ["b"]

    async def test_an_attribute_is_found_by_a_value_of_its_kind(self, store: Storage) -> None:
        kinds = {
            "a": '{"v":5}',
            "b": '{"v":"5"}',
            "c": '{"v":true}',
            "d": '{"v":5.5}',
            "e": '{"v":null}',
            "f": '{"v":{}}',
        }
        await _rows(store, **{name: {"attributes": attributes} for name, attributes in kinds.items()})

        assert await _found(store, "attr.v = 5") == ["b", "a"]
        assert await _found(store, 'attr.v = "5"') == ["b"]
        assert await _found(store, "attr.v = 5.0") == ["a"]
        assert await _found(store, "attr.v > 5") == ["d"]
        assert await _found(store, "attr.v >= 5") == ["d", "a"]
        assert await _found(store, 'attr.v < "6"') == ["b"]
        assert await _found(store, "attr.v = true") == ["c"]
        assert await _found(store, "attr.v ~ 5") == ["b"]
        assert await _found(store, "attr.v in (true, 5.5)") == ["d", "c"]
        assert await _found(store, "attr.v = null") == ["f", "e"]

    async def test_attributes_of_many_names_and_signs_are_found(self, store: Storage) -> None:
        attributes = r'{"a b":"it\u0027s","ü":"ü\\%_","x.y":-0.25,"n":9007199254740991,"e":1e300}'
        await _rows(store, a={"attributes": attributes}, b={"attributes": r'{"ü":"u"}'})

        for where in (
            'attr."a b" = "it\'s"',
            r"""attr.ü = "ü\\%_" """,
            "attr.ü ~ %_",
            "attr.x.y = -0.25",
            "attr.n = 9007199254740991",
            "attr.n > 9007199254740990",
            "attr.e > 1e299",
        ):
            assert await _found(store, where) == ["a"], where
        assert await _found(store, "attr.ü > z") == ["a"]

    async def test_the_attributes_are_those_of_the_last_append(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, index=replace(INDEX, attributes='{"a":"1","b":"1"}')))
        await appended(store, first(CLAIM, index=replace(INDEX, attributes='{"a":"1"}')))

        begun = await appended(store, after(begun, REFUND, b"2", index=replace(INDEX, attributes='{"a":"2","c":1}')))

        found = [
            await _found(store, where) for where in ("attr.a = '1'", "attr.a = '2'", "attr.b != null", "attr.c = 1")
        ]
        assert found == [[CLAIM], [REFUND], [], [REFUND]]
        await appended(store, after(begun, REFUND, b"3"))
        assert await _found(store, "attr.a != null") == [CLAIM]

    async def test_many_begin_and_change_in_one_batch(self, store: Storage) -> None:
        names = [ExecutionId(f"r{number}") for number in range(30)]
        rows = [replace(INDEX, attributes=f'{{"n":{number}}}') for number in range(30)]
        results = await store.append([first(name, index=row) for name, row in zip(names, rows, strict=True)])
        heads: Any = dict(zip(names, results, strict=True))

        await store.append([after(heads[name], name, b"2", index=rows[0]) for name in names[::2]])

        assert await _found(store, "attr.n < 4") == sorted(
            {*names[:4:2], *names[::2], names[1], names[3]}, reverse=True
        )

    async def test_what_is_too_long_is_not_searched_for(self, store: Storage) -> None:
        long = "x" * 1001
        await _rows(store, a={"attributes": f'{{"v":"{long}"}}'}, b={"attributes": f'{{"v":"{long[1:]}"}}'})

        assert await _found(store, "attr.v ~ x") == ["b"]

    async def test_a_damaged_row_has_no_attributes_and_no_gates(self, store: Storage) -> None:
        await _rows(store, a={"attributes": '{"v":', "gates": "["}, b={"attributes": "[1]", "gates": '{"a":1}'})

        assert await _found(store, "attr.v = null and gates = 0") == ["b", "a"]

    async def test_what_a_row_of_a_read_model_has_is_found_by_a_value_of_its_kind(self, store: Storage) -> None:
        if not isinstance(store, ReadModelStore):
            return
        bodies = {
            "a": b'{"cost":5}',
            "b": b'{"cost":"5"}',
            "c": b'{"cost":true}',
            "d": b'{"cost":5.5,"who":"Ada"}',
            "e": b'{"cost":null}',
            "f": b'{"cost":{}}',
            "g": b'{"cost":"\\u0000"}',
            "h": b'{"cost":"' + b"x" * (TEXT_BYTES_MAX + 1) + b'"}',
            "i": b'{"cost":-1e3,"who":"\xc3\x84da"}',
            "j": b"",
        }
        lives = await _rows(store, **{name: {} for name in (*bodies, "k")})
        for version, put in (("2", bodies), ("1", {"k": b'{"cost":5}'})):
            rows = [ModelRow(ExecutionId(name), lives[name], 0, body) for name, body in put.items()]
            await store.put_model_rows("totals", version, rows)
        await store.put_model_rows("other", "2", [ModelRow(ExecutionId("k"), lives["k"], 0, b'{"cost":5}')])

        async def found(where: str) -> Sequence[str]:
            return await _found(store, where, Columns("totals", "2", frozenset({"cost", "who"})))

        assert await found("cost = 5") == ["b", "a"]
        assert await found('cost = "5"') == ["b"]
        assert await found("totals.cost > 5") == ["d"]
        assert await found("cost >= 5") == ["d", "a"]
        assert await found("cost < 0 and status != failed") == ["i"]
        assert await found('cost < "6"') == ["b"]
        assert await found("cost = true or cost > false") == ["c"]
        assert await found("cost ~ 5") == ["b"]
        assert await found("cost in (true, 5.5)") == ["d", "c"]
        assert await found("who >= B") == ["i"]
        assert await found("cost != null") == ["i", "d", "c", "b", "a"]
        assert await found("cost = null") == ["k", "j", "h", "g", "f", "e"]
        assert await found("not cost > 5") == ["k", "j", "i", "h", "g", "f", "e", "c", "b", "a"]

    async def test_what_a_row_says_is_the_same_to_every_store(self, store: Storage) -> None:
        if not isinstance(store, ReadModelStore):
            return
        bodies = {
            "a": b'{"cost":1,"cost":5}',
            "b": b'{"cost":5,"who":"\xff"}',
            "c": b'{"c\\u006fst":5}',
            "d": b'{"cost":5,"who":"\\ud800"}',
            "e": b'{"who \\"is\\" it":"Ada","cost": 5}',
            "f": b"[5]",
        }
        lives = await _rows(store, **{name: {} for name in bodies})
        rows = [ModelRow(ExecutionId(name), lives[name], 0, body) for name, body in bodies.items()]
        assert await store.put_model_rows("totals", "1", rows) == [True] * len(rows)

        names = Columns("totals", "1", frozenset({"cost", "who", 'who "is" it'}))
        assert await _found(store, "cost = 5", names) == ["e", "c", "a"]
        assert await _found(store, "cost = 1", names) == []
        assert await _found(store, "cost = null", names) == ["f", "d", "b"]
        assert await _found(store, r'totals."who \"is\" it" = Ada', names) == ["e"]
        assert await _found(store, "'who \"is\" it' ~ da and not who = x", names) == ["e"]

    async def test_rows_that_go_forward_are_found_by_what_they_say_now(self, store: Storage) -> None:
        if not isinstance(store, ReadModelStore):
            return
        lives = await _rows(store, a={})
        columns = Columns("totals", "1", frozenset({"cost"}))
        await store.put_model_rows("totals", "1", [ModelRow(ExecutionId("a"), lives["a"], 0, b'{"cost":1}')])
        begun = Appended(lives["a"], 1)
        await appended(store, after(begun, ExecutionId("a"), b"1"))

        before = [await _found(store, f"cost = {cost}", columns) for cost in (1, 2)]
        await store.put_model_rows("totals", "1", [ModelRow(ExecutionId("a"), lives["a"], 1, b'{"cost":2}')])

        assert before == [["a"], []]
        assert [await _found(store, f"cost = {cost}", columns) for cost in (1, 2)] == [[], ["a"]]

    async def test_the_end_is_when_it_ended(self, store: Storage) -> None:
        ended = replace(INDEX, status="failed", ended=True)
        begun = await appended(store, first(REFUND, index=replace(INDEX, started_at=1_000)))
        assert (await row_of(store, REFUND)).ended_at is None

        begun = await appended(store, after(begun, REFUND, b"end", index=replace(ended, updated_at=5_000)))
        begun = await appended(store, after(begun, REFUND, b"note", index=replace(ended, updated_at=9_000)))

        assert (await row_of(store, REFUND)).ended_at == 5_000
        assert await _found(store, "duration >= 4s and duration < 5s and ended <= -95s") == [REFUND]
        await appended(store, after(begun, REFUND, b"again", index=replace(INDEX, updated_at=9_500)))
        assert (await row_of(store, REFUND)).ended_at is None
        assert await _found(store, "duration > 98s and ended = null") == [REFUND]

    async def test_a_run_that_ends_and_is_noted_in_one_batch_ended_first(self, store: Storage) -> None:
        ended = replace(INDEX, ended=True, chain=REFUND)
        item = first(REFUND, index=replace(ended, updated_at=5_000))
        begun = await appended(store, item)
        again = after(begun, REFUND, b"again", index=INDEX)
        over = replace(again, append_id="over", expected=2, events=(), index=replace(ended, updated_at=7_000))
        note = replace(over, append_id="note", index=replace(ended, updated_at=8_000))

        await store.append([again, over, note])

        assert (await row_of(store, REFUND)).ended_at == 7_000

    async def test_conditions_narrow_together_with_all_else(self, store: Storage) -> None:
        rows = {name: {"started_at": at, "attributes": '{"v":1}'} for at, name in enumerate("abcdef")}
        await _rows(store, **rows, g={"started_at": 9, "status": "failed"})
        where = parse_where("attr.v = 1 and not (id = b or id = e)", now_ms=NOW)

        first_page = await store.find(ExecutionQuery(where=where, limit=2, statuses=["running"], tips=True))
        last = first_page[-1]
        rest = await store.find(ExecutionQuery(where=where, before=(last.index.started_at, last.execution_id)))

        assert [[row.execution_id for row in page] for page in (first_page, rest)] == [["f", "d"], ["c", "a"]]


async def _rows(store: Storage, **rows: dict[str, Any]) -> Mapping[str, Incarnation]:
    """Begin runs with such rows, and return the life of each."""
    indexes: dict[str, IndexRow] = {name: replace(INDEX, **fields) for name, fields in rows.items()}
    begun = await store.append([first(ExecutionId(name), b"0", index=index) for name, index in indexes.items()])
    return {name: each.incarnation for name, each in zip(rows, begun, strict=True) if isinstance(each, Appended)}


async def _found(store: Storage, where: str, *columns: Columns) -> Sequence[str]:
    query = ExecutionQuery(where=parse_where(where, now_ms=NOW, columns=columns))
    return [row.execution_id for row in await store.find(query)]
