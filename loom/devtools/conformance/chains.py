"""What every store must do with chains of links, and with requests that one run sends to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import (
    CLAIM,
    INDEX,
    NOBODY,
    REFUND,
    after,
    appended,
    first,
    insert,
    ok,
    payloads,
    row_of,
)
from loom.spi.event_store import NOBODY as GIVEN_UP
from loom.spi.event_store import (
    Append,
    Appended,
    Conflict,
    ExecutionQuery,
    Lane,
    LaneClosed,
    LaneNotEmpty,
    LeaseChange,
    RequestTaken,
    Send,
    Storage,
)

SECOND: Final = ExecutionId("refund-42~2")
MINE: Final = LeaseChange("mine", 15_000)
CONTINUED: Final = replace(INDEX, status="continued", ended=True)
LINK: Final = replace(INDEX, chain=REFUND, link=2)


class ChainConformance:
    """A run that goes on as another."""

    async def test_the_next_link_begins_with_the_end_of_the_one_before(self, store: Storage) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))

        ended = await appended(store, _goes_on(begun))

        assert ended == Appended(begun.incarnation, 2)
        assert await payloads(store, REFUND) == [b"{}", b"goes on"]
        assert await payloads(store, SECOND) == [b"second"]
        rows = [await row_of(store, name) for name in (REFUND, SECOND)]
        assert [(row.driver, row.index.chain, row.index.link, row.index.ended) for row in rows] == [
            ("", REFUND, 1, True),
            ("mine", REFUND, 2, False),
        ]
        assert rows[0].incarnation != rows[1].incarnation

    async def test_an_item_that_is_refused_writes_no_next_link(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun)

        [conflict] = await store.append([replace(_goes_on(begun), expected=7)])
        [asked] = await store.append([replace(_goes_on(begun), lane_above=0)])

        assert (conflict, asked) == (Conflict(1, begun.incarnation), LaneNotEmpty(1))
        assert await store.head(SECOND) is None

    async def test_a_next_link_that_is_there_already_keeps_the_item_out(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        there = await appended(store, first(SECOND, b"another"))

        results = await store.append([_goes_on(begun), after(there, SECOND, b"on"), after(begun, REFUND, b"on")])

        assert results == [
            Conflict(1, there.incarnation),
            Conflict(1, there.incarnation),
            Conflict(1, begun.incarnation),
        ]
        assert await payloads(store, REFUND) == [b"{}"]
        assert await payloads(store, SECOND) == [b"another"]

    async def test_a_repeated_item_begins_the_next_link_once(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        item = _goes_on(begun)
        result = await appended(store, item)

        assert await appended(store, item) == result
        assert await payloads(store, SECOND) == [b"second"]

    async def test_the_next_link_grows_like_any_log(self, store: Storage) -> None:
        _, second = await _chain(store)

        results = await store.append([after(second, SECOND, b"on", index=LINK), first(CLAIM)])

        assert [ok(result).length for result in results] == [2, 1]
        assert await payloads(store, SECOND) == [b"second", b"on"]

    async def test_all_links_share_the_lane_of_the_first(self, store: Storage) -> None:
        begun, second = await _chain(store)
        numbers = [await insert(store, begun) for _ in range(3)]
        lane = Lane(REFUND, begun.incarnation)

        [kept_out] = await store.append([after(second, SECOND, b"no", index=LINK, lane=lane, lane_above=1)])
        item = after(second, SECOND, b"took 1 and 3", index=LINK, lane=lane, lane_above=2, consumes=[1, 3])
        await appended(store, item)

        assert (numbers, kept_out) == ([1, 2, 3], LaneNotEmpty(2))
        assert [request.number for request in await store.pending(REFUND, begun.incarnation)] == [2]
        assert list(await store.pending(SECOND, second.incarnation)) == []

    async def test_a_lane_that_is_not_there_is_empty(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun)
        lane = Lane(REFUND, Incarnation(begun.incarnation + 9))
        claim = await appended(store, first(CLAIM))

        result = await appended(store, after(claim, CLAIM, b"on", lane=lane, lane_above=0, consumes=[1]))

        assert result.length == 2
        assert len(await store.pending(REFUND, begun.incarnation)) == 1

    async def test_what_the_driver_has_seen_keeps_nothing_out(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        for _ in range(3):
            await insert(store, begun)

        [kept_out] = await store.append([after(begun, REFUND, b"no", lane_above=1)])
        result = await appended(store, after(begun, REFUND, b"parked", lane_above=3))

        assert (kept_out, result.length) == (LaneNotEmpty(2), 2)

    async def test_only_requests_of_the_kinds_that_are_named_count(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND))
        kinds: Sequence[Any] = ("message", "cancel", "answer")
        for kind in kinds:
            await store.insert(REFUND, begun.incarnation, kind=kind, key="", at=9, body=b"{}")

        items = [("cancel", 0, []), ("cancel", 2, []), ("cancel", 0, [2]), ("verdict", 0, [])]
        results = []
        head = begun
        for kind, above, consumes in items:
            named: Any = (kind,)
            item = after(head, REFUND, b"on", lane_above=above, lane_kinds=named, consumes=consumes)
            [result] = await store.append([item])
            results.append(result)
            head = result if isinstance(result, Appended) else head

        assert results == [LaneNotEmpty(1), *(Appended(begun.incarnation, length) for length in (2, 3, 4))]

    async def test_the_driver_of_the_last_link_is_called(self, store: Storage) -> None:
        begun, second = await _chain(store, lease=GIVEN_UP)

        await insert(store, begun)

        [claim] = await store.claim("mine", lease_ms=1, limit=9)
        assert (claim.row.execution_id, claim.calls) == (SECOND, 1)
        assert second.incarnation == claim.row.incarnation

    async def test_only_a_first_link_has_a_lane(self, store: Storage) -> None:
        _, second = await _chain(store)

        assert await insert(store, second, execution_id=SECOND) is None

    async def test_nothing_is_inserted_once_the_last_link_has_ended(self, store: Storage) -> None:
        begun, second = await _chain(store)
        ask: Any = {"kind": "message", "key": "k", "at": 9, "body": b"{}", "while_open": True}
        taken = await store.insert(REFUND, begun.incarnation, **ask)

        await appended(store, after(second, SECOND, b"end", index=replace(LINK, status="completed", ended=True)))

        assert taken == 1
        assert await store.insert(REFUND, begun.incarnation, **{**ask, "key": "other"}) == LaneClosed("completed")
        assert await store.insert(REFUND, begun.incarnation, **ask) == RequestTaken(1, pending=True)
        assert await store.insert(REFUND, begun.incarnation, **{**ask, "key": "", "while_open": False}) == 2

    async def test_the_links_and_the_last_link_of_a_chain_can_be_listed(self, store: Storage) -> None:
        _, second = await _chain(store)
        third = replace(first(ExecutionId("refund-42~3"), b"third"), index=replace(LINK, link=3))
        await appended(
            store, after(second, SECOND, b"on", index=replace(CONTINUED, chain=REFUND, link=2), follows=third)
        )
        await appended(store, first(CLAIM))

        assert await _found(store, chain=REFUND) == ["refund-42~3", SECOND, REFUND]
        assert await _found(store, chain=REFUND, tips=True) == ["refund-42~3"]
        assert await _found(store, tips=True) == ["refund-42~3", CLAIM]
        assert await _found(store, chain=SECOND) == []

    async def test_children_and_what_is_open_can_be_listed(self, store: Storage) -> None:
        ended = replace(INDEX, status="completed", ended=True)
        rows = {"a": (REFUND, INDEX), "b": (REFUND, ended), "c": (CLAIM, INDEX), "d": ("", ended)}
        items = [first(ExecutionId(name), index=replace(row, parent=parent)) for name, (parent, row) in rows.items()]
        await store.append(items)

        assert await _found(store, parent=REFUND) == ["b", "a"]
        assert await _found(store, ended=True) == ["d", "b"]
        assert await _found(store, ended=False) == ["c", "a"]
        assert await _found(store, parent=REFUND, ended=False) == ["a"]
        assert (await row_of(store, ExecutionId("a"))).index.parent == REFUND


class SendConformance:
    """Requests that travel with an item."""

    async def test_a_request_arrives_with_the_item_that_sends_it(self, store: Storage) -> None:
        parent, child = await appended(store, first(REFUND)), await appended(store, first(CLAIM))

        await appended(store, after(child, CLAIM, b"end", sends=[_send("child:1"), _send("", body=b"2")]))

        requests = await store.pending(REFUND, parent.incarnation)
        assert [(each.number, each.kind, each.key, each.body) for each in requests] == [
            (1, "message", "child:1", b"{}"),
            (2, "message", "", b"2"),
        ]
        assert [claim.calls for claim in await store.claim("mine", lease_ms=1, limit=9)] == [2]

    async def test_an_item_that_is_refused_sends_nothing(self, store: Storage) -> None:
        parent, child = await appended(store, first(REFUND)), await appended(store, first(CLAIM))

        await store.append([replace(after(child, CLAIM, b"end", sends=[_send("child:1")]), expected=7)])

        assert list(await store.pending(REFUND, parent.incarnation)) == []

    async def test_a_repeated_item_sends_once(self, store: Storage) -> None:
        parent, child = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
        item = after(child, CLAIM, b"end", sends=[_send("")])

        results = [await appended(store, item) for _ in range(2)]

        assert results[0] == results[1]
        assert len(await store.pending(REFUND, parent.incarnation)) == 1

    async def test_a_key_that_is_taken_is_passed_over(self, store: Storage) -> None:
        parent, child = await appended(store, first(REFUND)), await appended(store, first(CLAIM))
        await insert(store, parent, key="child:1")

        await appended(store, after(child, CLAIM, b"end", sends=[_send("child:1"), _send("child:2")]))

        requests = await store.pending(REFUND, parent.incarnation)
        assert [(each.kind, each.key) for each in requests] == [("answer", "child:1"), ("message", "child:2")]

    async def test_a_chain_that_has_ended_or_is_not_there_gets_nothing(self, store: Storage) -> None:
        ended = await appended(store, first(REFUND, index=replace(INDEX, status="failed", ended=True)))
        child = await appended(store, first(CLAIM))

        result = await appended(store, after(child, CLAIM, b"end", sends=[_send(""), _send("", chain=NOBODY)]))

        assert result.length == 2
        assert list(await store.pending(REFUND, ended.incarnation)) == []

    async def test_a_chain_gets_it_through_its_first_link(self, store: Storage) -> None:
        begun, second = await _chain(store)
        child = await appended(store, first(CLAIM))

        await appended(store, after(child, CLAIM, b"end", sends=[_send("", chain=SECOND), _send("")]))

        assert len(await store.pending(REFUND, begun.incarnation)) == 1
        assert list(await store.pending(SECOND, second.incarnation)) == []

    async def test_a_lane_that_begins_in_the_same_batch_can_be_sent_to(self, store: Storage) -> None:
        child = await appended(store, first(CLAIM))

        results = await store.append([first(REFUND), after(child, CLAIM, b"end", sends=[_send("")])])

        assert len(await store.pending(REFUND, ok(results[0]).incarnation)) == 1

    async def test_what_is_sent_keeps_the_receiver_from_parking(self, store: Storage) -> None:
        parent, child = await appended(store, first(REFUND)), await appended(store, first(CLAIM))

        results = await store.append(
            [after(child, CLAIM, b"end", sends=[_send("")]), after(parent, REFUND, b"parked", lane_above=0)]
        )

        assert results[1] == LaneNotEmpty(1)


def _goes_on(head: Appended, lease: LeaseChange = MINE) -> Append:
    """Return the item that ends the first link and begins the second."""
    second = replace(first(SECOND, b"second", index=LINK), lease=lease)
    return after(head, REFUND, b"goes on", index=CONTINUED, lease=GIVEN_UP, follows=second)


async def _chain(store: Storage, lease: LeaseChange = MINE) -> tuple[Appended, Appended]:
    """Make a chain of two links and return their heads."""
    begun = await appended(store, first(REFUND))
    await appended(store, _goes_on(begun, lease))
    head = await store.head(SECOND)
    assert head is not None
    return begun, Appended(head.incarnation, head.length)


def _send(key: str, *, chain: ExecutionId = REFUND, body: bytes = b"{}") -> Send:
    return Send(chain, "message", key, 9, body)


async def _found(store: Storage, **query: Any) -> list[str]:
    return [row.execution_id for row in await store.find(ExecutionQuery(**query))]
