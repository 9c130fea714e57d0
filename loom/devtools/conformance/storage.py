"""All that a `Storage` must do: inherit this one class and give the fixtures it asks for.

These are *clock*, a `VirtualClock`, and *store*, which reads it, empty and open to each test.
"""

from __future__ import annotations

import asyncio

from loom.core.ids import ExecutionId
from loom.devtools.conformance.batches import BatchConformance
from loom.devtools.conformance.chains import ChainConformance, SendConformance
from loom.devtools.conformance.event_feed import EventFeedConformance
from loom.devtools.conformance.event_store import AppendIdConformance, EventStoreConformance, ReadConformance
from loom.devtools.conformance.execution_index import ExecutionIndexConformance
from loom.devtools.conformance.leases import ClaimConformance, LeaseConformance, TakeOverConformance
from loom.devtools.conformance.logs import (
    REFUND,
    after,
    appended,
    first,
    payloads,
)
from loom.devtools.conformance.request_lane import RequestLaneConformance
from loom.devtools.conformance.searching import SearchConformance
from loom.spi.event_store import (
    Appended,
    Conflict,
    Storage,
)


class StorageConformance(
    EventStoreConformance,
    AppendIdConformance,
    BatchConformance,
    ReadConformance,
    RequestLaneConformance,
    ExecutionIndexConformance,
    SearchConformance,
    ChainConformance,
    SendConformance,
    LeaseConformance,
    TakeOverConformance,
    ClaimConformance,
    EventFeedConformance,
):
    """All of it, and the life of the store itself."""

    async def test_it_is_a_storage_with_a_name(self, store: Storage) -> None:
        assert isinstance(store, Storage)
        assert store.url

    async def test_opening_twice_is_opening_once(self, store: Storage) -> None:
        await store.open()
        await store.open()

        assert await store.head(REFUND) is None

    async def test_a_closed_store_can_be_opened_again(self, store: Storage) -> None:
        await appended(store, first(REFUND, b"1"))

        await store.close()
        await store.close()
        await store.open()

        assert await payloads(store, REFUND) == [b"1"]

    async def test_a_hundred_appenders_of_one_log_leave_no_gap(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"begun"))

        await asyncio.gather(*(_append_whenever_it_fits(store, begun, b"%d" % number) for number in range(100)))

        written = await payloads(store, REFUND)
        assert sorted(written[1:]) == sorted(b"%d" % number for number in range(100))

    async def test_a_hundred_logs_grow_at_once(self, store: Storage) -> None:
        async def grow(name: ExecutionId) -> list[bytes]:
            head = await appended(store, first(name, b"0"))
            for number in range(1, 5):
                head = await appended(store, after(head, name, b"%d" % number))
            return await payloads(store, name)

        logs = await asyncio.gather(*(grow(ExecutionId(f"run-{number}")) for number in range(100)))

        assert logs == [[b"0", b"1", b"2", b"3", b"4"]] * 100


async def _append_whenever_it_fits(store: Storage, head: Appended, payload: bytes) -> None:
    while True:
        [result] = await store.append([after(head, REFUND, payload)])
        if isinstance(result, Appended):
            return
        assert isinstance(result, Conflict)
        head = Appended(head.incarnation, result.length)
