"""What every `RequestLane` must do."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loom.core.ids import Incarnation
from loom.devtools.conformance.logs import (
    CLAIM,
    NOBODY,
    REFUND,
    after,
    appended,
    first,
    insert,
    payloads,
)
from loom.spi.event_store import (
    Appended,
    LaneNotEmpty,
    LanePlace,
    Request,
    RequestTaken,
    Storage,
)


class RequestLaneConformance:
    """Durable wishes beside a log."""

    async def test_requests_are_numbered_from_one_in_their_order(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))

        numbers = [await insert(store, begun, body=body) for body in (b"a", b"b\x00\xff")]

        assert numbers == [1, 2]
        assert list(await store.pending(REFUND, begun.incarnation)) == [
            Request(1, "answer", "", 9, b"a"),
            Request(2, "answer", "", 9, b"b\x00\xff"),
        ]

    async def test_what_is_pending_can_be_read_from_a_number_on(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        for _ in range(4):
            await insert(store, begun)
        await appended(store, after(begun, REFUND, b"took 3", consumes=[3]))

        pages = [await store.pending(REFUND, begun.incarnation, above=above) for above in (0, 1, 2, 3, 4, 9)]

        assert [[each.number for each in page] for page in pages] == [[1, 2, 4], [2, 4], [4], [4], [], []]

    async def test_news_of_many_lanes_are_told_at_once(self, store: Storage) -> None:
        refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
        for _ in range(2):
            await insert(store, refund)
        await appended(store, after(refund, REFUND, b"took 2", consumes=[2]))
        lives = {REFUND: refund.incarnation, CLAIM: claim.incarnation, NOBODY: Incarnation(10**9)}
        places = [
            LanePlace(run, lives[life], above)
            for run, life, above in (
                (CLAIM, CLAIM, 0),
                (REFUND, REFUND, 0),
                (REFUND, REFUND, 1),
                (NOBODY, NOBODY, 0),
                (CLAIM, REFUND, 0),
            )
        ]

        assert list(await store.have_news(places)) == [False, True, False, False, False]
        assert list(await store.have_news([])) == []

    async def test_each_lane_counts_for_itself(self, store: Storage) -> None:
        refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))

        assert await insert(store, refund) == 1
        assert await insert(store, claim, execution_id=CLAIM) == 1

    async def test_a_key_is_taken_once(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun, key="gate:17")

        assert await insert(store, begun, key="gate:17", body=b"other") == RequestTaken(1, pending=True)
        assert await insert(store, begun, key="gate:18") == 2
        assert len(await store.pending(REFUND, begun.incarnation)) == 2

    async def test_a_key_stays_taken_once_its_request_is_consumed(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun, key="gate:17")
        await appended(store, after(begun, REFUND, b"answered", consumes=[1]))

        assert await insert(store, begun, key="gate:17") == RequestTaken(1, pending=False)

    async def test_a_key_is_taken_in_its_own_lane_only(self, store: Storage) -> None:
        refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
        await insert(store, refund, key="gate:17")

        assert await insert(store, claim, execution_id=CLAIM, key="gate:17") == 1

    async def test_the_empty_key_may_repeat(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))

        assert [await insert(store, begun, key="") for _ in range(3)] == [1, 2, 3]

    async def test_another_life_has_no_lane(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        stranger = Appended(Incarnation(begun.incarnation + 1), 1)

        assert await insert(store, stranger) is None
        assert await insert(store, begun, execution_id=NOBODY) is None
        assert list(await store.pending(REFUND, stranger.incarnation)) == []
        assert list(await store.pending(NOBODY, begun.incarnation)) == []

    async def test_an_append_consumes_what_it_journals(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        for _ in range(3):
            await insert(store, begun)

        await appended(store, after(begun, REFUND, b"took 1 and 3", consumes=[1, 3]))

        assert [request.number for request in await store.pending(REFUND, begun.incarnation)] == [2]

    async def test_a_number_is_never_given_again(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun)
        await appended(store, after(begun, REFUND, b"took 1", consumes=[1]))

        assert await insert(store, begun) == 2

    async def test_a_refused_append_consumes_nothing(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun)

        await store.append([replace(after(begun, REFUND, b"no", consumes=[1]), expected=9)])

        assert [request.number for request in await store.pending(REFUND, begun.incarnation)] == [1]

    async def test_parking_is_refused_while_a_request_is_pending(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        await insert(store, begun)
        await insert(store, begun)

        [result] = await store.append([after(begun, REFUND, b"parked", lane_above=0)])

        assert result == LaneNotEmpty(2)
        assert await payloads(store, REFUND) == [b"1"]

    async def test_parking_takes_the_requests_it_consumes(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        await insert(store, begun)
        await insert(store, begun)

        [refused] = await store.append([after(begun, REFUND, b"parked", lane_above=0, consumes=[1])])
        result = await appended(store, after(begun, REFUND, b"parked", lane_above=0, consumes=[1, 2]))

        assert (refused, result.length) == (LaneNotEmpty(1), 2)

    async def test_a_refused_parking_leaves_the_rest_of_the_batch_alone(self, store: Storage) -> None:
        refund, claim = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
        await insert(store, refund)

        results = await store.append(
            [after(refund, REFUND, b"parked", lane_above=0), after(claim, CLAIM, b"parked", lane_above=0)]
        )

        assert results == [LaneNotEmpty(1), Appended(claim.incarnation, 2)]

    async def test_many_inserts_at_once_leave_no_gap(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))

        numbers = await asyncio.gather(*(insert(store, begun) for _ in range(50)))

        assert sorted(int(str(number)) for number in numbers) == list(range(1, 51))

    async def test_of_many_with_one_key_one_gets_in(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))

        results = await asyncio.gather(*(insert(store, begun, key="gate:1") for _ in range(20)))

        assert results.count(1) == 1
        assert results.count(RequestTaken(1, pending=True)) == 19
