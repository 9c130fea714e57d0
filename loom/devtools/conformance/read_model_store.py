"""What every `ReadModelStore` must do: inherit the class and give the fixture *store*, a `Storage` and `EventTrim` too, empty and open."""

from __future__ import annotations

import asyncio
from typing import Protocol

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.event_trim import TrimmedStorage, ended
from loom.devtools.conformance.logs import CLAIM, NOBODY, REFUND, after, appended, first
from loom.spi.event_store import Appended, Head, Storage
from loom.spi.event_trim import Deleted
from loom.spi.read_model_store import Behind, ModelErasure, ModelRow, ReadModelStore

COSTS, V1, V2 = "costs", "1:a", "1:b"


class ModelledStorage(ReadModelStore, ModelErasure, TrimmedStorage, Protocol):
    """A store of logs that keeps rows of read models as well, and can delete both."""


def row(log: Appended | Head, sequence: int, body: bytes = b'{"total":1}', run: ExecutionId = REFUND) -> ModelRow:
    """Return a row of a life after the event at *sequence*."""
    return ModelRow(run, log.incarnation, sequence, body)


async def log_of(store: Storage, length: int, run: ExecutionId = REFUND) -> Appended:
    """Return a log of *length* events that was just begun."""
    return await appended(store, first(run, *([b"{}"] * length)))


async def put(store: ReadModelStore, *rows: ModelRow, version: str = V1, model: str = COSTS) -> list[bool]:
    return list(await store.put_model_rows(model, version, rows))


async def kept(store: ReadModelStore, version: str = V1, model: str = COSTS) -> list[tuple[str, int, bytes]]:
    """Return the rows that there are, without their lives."""
    return [(each.execution_id, each.sequence, each.body) for each in await store.model_rows(model, version)]


async def lagging(store: ReadModelStore, version: str = V1) -> list[str]:
    return [each.head.execution_id for each in await store.behind(COSTS, version)]


class ReadModelStoreConformance:
    """Rows of read models beside their logs."""

    async def test_it_is_a_read_model_store(self, store: ModelledStorage) -> None:
        assert isinstance(store, ReadModelStore)
        assert isinstance(store, ModelErasure)

    async def test_where_nothing_was_put_nothing_is(self, store: ModelledStorage) -> None:
        await log_of(store, 1)

        assert await kept(store) == []
        assert list(await store.models()) == []
        assert await store.drop_model(COSTS) == 0

    async def test_a_row_comes_back_as_it_was_put(self, store: ModelledStorage) -> None:
        log = await log_of(store, 3)
        wanted = row(log, 2, bytes(range(256)) * 300)

        assert await put(store, wanted) == [True]

        [found] = await store.model_rows(COSTS, V1)
        assert found == wanted
        assert type(found.body) is bytes

    async def test_a_row_goes_forward_only(self, store: ModelledStorage) -> None:
        log = await log_of(store, 5)

        assert await put(store, row(log, 2, b"2")) == [True]
        assert await put(store, row(log, 1, b"1"), row(log, 2, b"other")) == [False, False]
        assert await kept(store) == [(REFUND, 2, b"2")]
        assert await put(store, row(log, 4, b"4"), row(log, 3, b"3")) == [True, False]
        assert await kept(store) == [(REFUND, 4, b"4")]

    async def test_whoever_comes_first_the_rows_converge(self, store: ModelledStorage) -> None:
        log = await log_of(store, 20)
        rows = [row(log, at, b"%d" % at) for at in range(20)]

        nodes = [rows[::2], rows[::-1], rows[1::3]]
        results = await asyncio.gather(*(put(store, each) for node in nodes for each in node))

        assert await kept(store) == [(REFUND, 19, b"19")]
        assert sum(result == [True] for result in results) <= 20

    async def test_no_row_is_ahead_of_its_log(self, store: ModelledStorage) -> None:
        log = await log_of(store, 2)

        assert await put(store, row(log, 2), row(log, -1)) == [False, False]
        await appended(store, after(log, REFUND, b"{}"))
        assert await put(store, row(log, 2)) == [True]

    async def test_a_row_of_another_life_or_of_no_run_is_not_kept(self, store: ModelledStorage) -> None:
        log = await log_of(store, 2)
        other = log._replace(incarnation=Incarnation(log.incarnation + 1))

        assert await put(store, row(other, 0), row(log, 0, run=CLAIM), row(log, 0, run=NOBODY)) == [False] * 3
        assert await kept(store) == []

    async def test_models_and_versions_never_mix(self, store: ModelledStorage) -> None:
        log = await log_of(store, 3)
        await put(store, row(log, 2, b"1"))
        await put(store, row(log, 0, b"2"), version=V2)
        await put(store, row(log, 1, b"3"), model="other")

        assert await kept(store) == [(REFUND, 2, b"1")]
        assert await kept(store, V2) == [(REFUND, 0, b"2")]
        assert await kept(store, model="other") == [(REFUND, 1, b"3")]
        assert sorted((each.model, each.version, each.rows) for each in await store.models()) == [
            (COSTS, V1, 1),
            (COSTS, V2, 1),
            ("other", V1, 1),
        ]

    async def test_rows_are_read_page_by_page_by_id(self, store: ModelledStorage) -> None:
        ids = [ExecutionId(name) for name in ("b-1", "a-1", "a-2", "a\U0001f600", "B")]
        for name in ids:
            await put(store, row(await log_of(store, 1, name), 0, run=name))

        assert [each[0] for each in await kept(store)] == ["B", "a-1", "a-2", "a\U0001f600", "b-1"]
        page = await store.model_rows(COSTS, V1, after="a-1", limit=2)
        assert [each.execution_id for each in page] == ["a-2", "a\U0001f600"]
        begun = await store.model_rows(COSTS, V1, prefix="a-", after="a-1")
        assert [each.execution_id for each in begun] == ["a-2"]
        some = await store.model_rows(COSTS, V1, ids=[ids[0], NOBODY, ids[1]])
        assert [each.execution_id for each in some] == ["a-1", "b-1"]
        assert list(await store.model_rows(COSTS, V1, ids=[])) == []

    async def test_what_lags_is_found_whoever_missed_what(self, store: ModelledStorage) -> None:
        begun, other = await log_of(store, 2), await log_of(store, 1, CLAIM)

        assert list(await store.behind(COSTS, V1)) == [
            Behind(Head(CLAIM, other.incarnation, 1), None),
            Behind(Head(REFUND, begun.incarnation, 2), None),
        ]
        await put(store, row(begun, 0, b"0"), row(other, 0, run=CLAIM))
        assert list(await store.behind(COSTS, V1)) == [Behind(Head(REFUND, begun.incarnation, 2), row(begun, 0, b"0"))]
        await put(store, row(begun, 1))
        assert await lagging(store) == []
        assert await lagging(store, V2) == [CLAIM, REFUND]
        await appended(store, after(other, CLAIM, b"{}"))
        assert await lagging(store) == [CLAIM]

    async def test_what_lags_is_given_page_by_page_or_of_some_runs(self, store: ModelledStorage) -> None:
        ids = [ExecutionId(f"r-{number}") for number in range(5)]
        for name in ids:
            await log_of(store, 1, name)

        page = await store.behind(COSTS, V1, after="r-0", limit=2)
        some = await store.behind(COSTS, V1, ids=[ids[4], ids[0], NOBODY])

        assert [each.head.execution_id for each in page] == ["r-1", "r-2"]
        assert [each.head.execution_id for each in some] == ["r-0", "r-4"]

    async def test_a_row_without_a_body_is_not_listed_and_lags_no_more(self, store: ModelledStorage) -> None:
        log = await log_of(store, 2)
        await put(store, row(log, 0, b"{}"))

        assert await put(store, row(log, 1, b"")) == [True]

        assert await kept(store) == []
        assert await lagging(store) == []
        assert [each.rows for each in await store.models()] == [0]
        log = await appended(store, after(log, REFUND, b"{}"))
        [behind] = await store.behind(COSTS, V1)
        assert behind.row == row(log, 1, b"")
        await put(store, row(log, 2, b"2"))
        assert await kept(store) == [(REFUND, 2, b"2")]

    async def test_what_is_dropped_can_be_made_again(self, store: ModelledStorage) -> None:
        log = await log_of(store, 1)
        await put(store, row(log, 0, b"1"))
        await put(store, row(log, 0, b"2"), version=V2)
        await put(store, row(log, 0, b"3"), model="other")

        assert await store.drop_model(COSTS, V1) == 1
        assert await kept(store, V2) == [(REFUND, 0, b"2")]
        assert await store.drop_model(COSTS) == 1
        assert [each.model for each in await store.models()] == ["other"]
        assert await lagging(store) == [REFUND]
        assert await put(store, row(log, 0, b"1")) == [True]

    async def test_what_is_erased_of_a_run_takes_no_other_row_and_does_not_come_back(
        self, store: ModelledStorage
    ) -> None:
        log, other = await log_of(store, 2), await log_of(store, 1, CLAIM)
        await put(store, row(log, 0), row(other, 0, run=CLAIM))
        await put(store, row(log, 0), version=V2)

        assert await store.erase_model_rows([REFUND, NOBODY], dry_run=True) == 2
        assert len(await kept(store)) == 2
        assert await store.erase_model_rows([REFUND, NOBODY]) == 2

        assert [each[0] for each in await kept(store)] == [CLAIM]
        assert await kept(store, V2) == []
        assert await lagging(store) == []
        assert await put(store, row(log, 1)) == [False]
        assert await put(store, row(log, 1), version="1:c") == [False]
        assert await store.erase_model_rows([REFUND]) == 0

    async def test_the_rows_of_a_run_go_with_it_and_never_come_back(self, store: ModelledStorage) -> None:
        head = await ended(store)
        other = await log_of(store, 1, CLAIM)
        late = row(head, 1)
        await put(store, row(head, 0), row(other, 0, run=CLAIM))

        [deleted] = await store.delete([[head]])

        assert isinstance(deleted, Deleted)
        assert await put(store, late) == [False]
        assert [each[0] for each in await kept(store)] == [CLAIM]

    async def test_a_reused_id_has_none_of_the_rows_of_its_earlier_life(self, store: ModelledStorage) -> None:
        head = await ended(store)
        await put(store, row(head, 1, b"old"))
        await store.erase_model_rows([REFUND])
        await store.delete([[head]])

        again = await log_of(store, 1)

        assert await kept(store) == []
        assert await lagging(store) == [REFUND]
        assert await put(store, row(head, 0, b"old"), row(again, 0, b"new")) == [False, True]
        assert await kept(store) == [(REFUND, 0, b"new")]

    async def test_a_row_that_is_put_while_its_run_is_deleted_does_not_stay(self, store: ModelledStorage) -> None:
        heads = [await ended(store, ExecutionId(f"r-{number}")) for number in range(8)]
        rows = [row(head, 1, run=head.execution_id) for head in heads]

        await asyncio.gather(put(store, *rows), store.delete([[head] for head in heads]), put(store, *rows[::-1]))

        assert await kept(store) == []
        assert list(await store.models()) == []
