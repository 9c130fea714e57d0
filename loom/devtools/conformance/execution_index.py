"""What every `ExecutionIndex` must do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import (
    CLAIM,
    INDEX,
    REFUND,
    after,
    appended,
    first,
    row_of,
)
from loom.spi.event_store import (
    ExecutionQuery,
    ExecutionRow,
    IndexRow,
    Storage,
    cancel_key,
)


class ExecutionIndexConformance:
    """Listings."""

    async def test_the_row_is_that_of_the_last_append(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        index = IndexRow(
            flow="refund",
            status="parked",
            started_at=1,
            updated_at=7,
            wake_at=99,
            gates='["ü"]',
            attributes='{"a":1}',
            chain=REFUND,
        )

        await appended(store, after(begun, REFUND, b"parked", index=index))

        assert await store.row(REFUND) == ExecutionRow(REFUND, begun.incarnation, 2, index)
        assert list(await store.find(ExecutionQuery())) == [ExecutionRow(REFUND, begun.incarnation, 2, index)]

    async def test_a_row_says_whether_its_link_was_asked_to_end(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await appended(store, first(CLAIM))

        asked = [(await row_of(store, REFUND)).cancel_asked]
        await store.insert(REFUND, begun.incarnation, kind="message", key="2:cancel", at=1, body=b"{}")
        asked.append((await row_of(store, REFUND)).cancel_asked)
        await store.insert(REFUND, begun.incarnation, kind="cancel", key=cancel_key(1), at=1, body=b"{}")
        asked.append((await row_of(store, REFUND)).cancel_asked)
        await appended(store, after(begun, REFUND, b"asked", consumes=[2]))

        assert asked == [False, False, True]
        assert [(row.execution_id, row.cancel_asked) for row in await store.find(ExecutionQuery())] == [
            (REFUND, True),
            (CLAIM, False),
        ]

    async def test_rows_change_in_a_batch_of_many_logs(self, store: Storage) -> None:
        refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
        parked = replace(INDEX, status="parked", wake_at=5, gates='["g"]', updated_at=8)

        await store.append([after(refund, REFUND, b"2", index=parked), after(claim, CLAIM, b"2")])

        assert (await row_of(store, REFUND)).index == replace(parked, chain=REFUND)
        assert (await row_of(store, CLAIM)).index == replace(INDEX, chain=CLAIM)

    async def test_a_wake_up_can_be_taken_back(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, index=replace(INDEX, wake_at=5)))

        await appended(store, after(begun, REFUND, b"woken"))

        assert list(await store.find(ExecutionQuery(due_before=1_000))) == []

    async def test_the_newest_comes_first_and_ids_break_ties(self, store: Storage) -> None:
        await _started(store, a=3, b=1, c=3, d=2)

        assert await _found(store) == ["c", "a", "d", "b"]

    async def test_a_listing_goes_on_below_its_cursor(self, store: Storage) -> None:
        await _started(store, a=3, b=1, c=3, d=2)
        seen: list[str] = []
        before: tuple[int, str] | None = None

        while page := await store.find(ExecutionQuery(limit=1, before=before)):
            seen.append(page[0].execution_id)
            before = (page[0].index.started_at, page[0].execution_id)

        assert seen == ["c", "a", "d", "b"]

    async def test_filters_narrow_together(self, store: Storage) -> None:
        rows = [("a", "refund", "running"), ("b", "refund", "parked"), ("c", "claim", "parked"), ("d", "tax", "failed")]
        await store.append(
            [first(ExecutionId(name), index=replace(INDEX, flow=flow, status=status)) for name, flow, status in rows]
        )

        assert await _found(store, statuses=["parked"]) == ["c", "b"]
        assert await _found(store, statuses=["parked", "failed"]) == ["d", "c", "b"]
        assert await _found(store, flows=["refund"]) == ["b", "a"]
        assert await _found(store, flows=["claim", "tax"], statuses=["failed", "running"]) == ["d"]
        assert await _found(store, flows=["nothing"]) == []

    async def test_open_gates_can_be_asked_for(self, store: Storage) -> None:
        await store.append([first(REFUND, index=replace(INDEX, gates='[{"name":"approval"}]')), first(CLAIM)])

        assert await _found(store, with_gates=True) == [REFUND]

    async def test_what_is_due_is_what_wakes_earlier(self, store: Storage) -> None:
        wakes = {"a": 10, "b": 20, "c": 30, "d": None}
        await store.append([first(ExecutionId(name), index=replace(INDEX, wake_at=at)) for name, at in wakes.items()])

        assert await _found(store, due_before=30) == ["b", "a"]
        assert await _found(store, due_before=10) == []


async def _started(store: Storage, **times: int) -> None:
    await store.append([first(ExecutionId(name), index=replace(INDEX, started_at=at)) for name, at in times.items()])


async def _found(store: Storage, **query: Any) -> Sequence[str]:
    return [row.execution_id for row in await store.find(ExecutionQuery(**query))]
