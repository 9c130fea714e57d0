"""What every `EventTrim` and `EndedIndex` must do. The store is a `Storage` too; time is that of *clock*, which the test moves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final, Protocol

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
    payloads,
)
from loom.devtools.conformance.logs import row_of as row
from loom.devtools.conformance.trimming import LaneTrimmingConformance, TrimmingConformance
from loom.spi.clock import VirtualClock
from loom.spi.event_store import (
    Appended,
    Conflict,
    ExecutionQuery,
    Head,
    IndexRow,
    LeaseChange,
    Storage,
)
from loom.spi.event_trim import Deleted, EndedIndex, EventTrim, Kept

SECOND: Final = ExecutionId("refund-42~2")
THIRD: Final = ExecutionId("refund-42~3")
CHILD: Final = ExecutionId("refund-42:payout")
GRANDCHILD: Final = ExecutionId("refund-42:payout:mail")
MINE: Final = LeaseChange("mine", 15_000)
DONE: Final = replace(INDEX, status="completed", ended=True)
CONTINUED: Final = replace(INDEX, status="continued", ended=True)


class TrimmedStorage(Storage, EndedIndex, EventTrim, Protocol):
    """A store of logs that can be deleted."""


async def ended(store: Storage, execution_id: ExecutionId = REFUND, index: IndexRow = DONE) -> Head:
    """Write a log of two events that ends with them, and return where it stands."""
    begun = await appended(store, first(execution_id, b"begun", index=replace(index, ended=False)))
    return await on(store, execution_id, begun, index=index)


async def on(store: Storage, execution_id: ExecutionId, head: Appended, **fields: Any) -> Head:
    """Append an event and return where the log stands then."""
    return Head(execution_id, *await appended(store, after(head, execution_id, b"on", **fields)))


async def chain(store: Storage, *names: ExecutionId, parent: str = "") -> list[Head]:
    """Write a chain whose last link has ended."""
    heads = []
    for link, name in enumerate(names, 1):
        index = DONE if name == names[-1] else CONTINUED
        heads.append(await ended(store, name, replace(index, chain=names[0], link=link, parent=parent)))
    return heads


def child_of(parent: ExecutionId, index: IndexRow = DONE, **fields: Any) -> IndexRow:
    """Return *index* as that of a run which *parent* has spawned."""
    return replace(index, parent=parent, **fields)


class DeletingConformance:
    """A family goes whole, or stays whole."""

    async def test_it_is_an_event_trim(self, store: TrimmedStorage) -> None:
        assert isinstance(store, EventTrim)

    async def test_what_is_deleted_is_nowhere(self, store: TrimmedStorage) -> None:
        begun = await appended(store, replace(first(REFUND, b"1", index=replace(INDEX, gates="[1]")), lease=MINE))
        await insert(store, begun, key="gate:0")
        head = await on(store, REFUND, begun, index=DONE, lease=LeaseChange(""))
        there = await ended(store, CLAIM)

        assert await store.delete([[head]]) == [Deleted(logs=1, events=2)]

        assert (await store.head(REFUND), await store.row(REFUND)) == (None, None)
        assert await payloads(store, REFUND) == []
        assert list(await store.pending(REFUND, begun.incarnation)) == []
        assert list(await store.ids()) == [CLAIM]
        assert [each.execution_id for each in await store.find(ExecutionQuery())] == [CLAIM]
        assert list(await store.drivers()) == []
        assert await store.head(CLAIM) == there

    async def test_a_log_that_is_not_as_it_was_seen_stays(self, store: TrimmedStorage) -> None:
        head = await ended(store)
        moved = await on(store, REFUND, Appended(*head[1:]), index=DONE)
        another = head._replace(length=3, incarnation=Incarnation(head.incarnation + 9))

        results = await store.delete([[head], [another], [Head(NOBODY, head.incarnation, 2)]])

        assert results == [Kept("changed", REFUND), Kept("changed", REFUND), Kept("gone", NOBODY)]
        assert await store.head(REFUND) == moved
        assert len(await payloads(store, REFUND)) == 3

    async def test_a_run_that_has_not_ended_stays(self, store: TrimmedStorage) -> None:
        begun = await appended(store, first(REFUND))

        assert await store.delete([[Head(REFUND, *begun)]]) == [Kept("open", REFUND)]
        assert await payloads(store, REFUND) == [b"{}"]

    async def test_a_run_that_somebody_holds_stays_though_the_lease_has_lapsed(
        self, store: TrimmedStorage, clock: VirtualClock
    ) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        head = await on(store, REFUND, begun, index=DONE)
        clock.advance(60_000)

        assert await store.delete([[head]]) == [Kept("held", REFUND)]
        assert await store.head(REFUND) == head

    async def test_a_run_of_which_something_was_asked_since_it_ended_stays(self, store: TrimmedStorage) -> None:
        head = await ended(store)
        await insert(store, Appended(*head[1:]))

        assert await store.delete([[head]]) == [Kept("asked", REFUND)]
        assert len(await store.pending(REFUND, head.incarnation)) == 1

    async def test_a_message_that_was_never_read_goes_with_the_run(self, store: TrimmedStorage) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        await insert(store, begun, key="message:1")
        head = await on(store, REFUND, begun, index=DONE, lease=LeaseChange(""))

        assert await store.delete([[head]]) == [Deleted(1, 2)]
        assert list(await store.pending(REFUND, begun.incarnation)) == []

    async def test_a_chain_goes_whole(self, store: TrimmedStorage) -> None:
        heads = await chain(store, REFUND, SECOND, THIRD)

        assert await store.delete([heads]) == [Deleted(logs=3, events=6)]
        assert list(await store.ids()) == []
        assert list(await store.find(ExecutionQuery(chain=REFUND))) == []

    async def test_a_chain_of_which_a_link_was_left_out_stays_whole(self, store: TrimmedStorage) -> None:
        heads = await chain(store, REFUND, SECOND, THIRD)

        results = await store.delete([heads[:2], heads[1:], [heads[0], heads[2]]])

        assert [(type(result), result[0]) for result in results] == [(Kept, "kin")] * 3
        assert len(await store.ids()) == 3

    async def test_a_chain_that_is_still_driven_stays_whole(self, store: TrimmedStorage) -> None:
        head = await ended(store, REFUND, CONTINUED)
        begun = await appended(store, first(SECOND, index=replace(INDEX, chain=REFUND, link=2)))

        assert await store.delete([[head, Head(SECOND, *begun)]]) == [Kept("open", SECOND)]
        assert list(await store.ids()) == [REFUND, SECOND]

    async def test_a_run_goes_with_all_that_it_spawned(self, store: TrimmedStorage) -> None:
        head = await ended(store)
        child = await ended(store, CHILD, child_of(REFUND))
        grandchild = await ended(store, GRANDCHILD, child_of(CHILD))

        assert await store.delete([[grandchild, head, child]]) == [Deleted(logs=3, events=6)]
        assert list(await store.ids()) == []

    async def test_neither_a_run_nor_a_child_goes_alone(self, store: TrimmedStorage) -> None:
        head = await ended(store)
        child = await ended(store, CHILD, child_of(REFUND))

        assert await store.delete([[head], [child]]) == [Kept("kin", CHILD), Kept("kin", REFUND)]
        assert list(await store.ids()) == [REFUND, CHILD]

    async def test_a_child_whose_parent_is_gone_goes_alone(self, store: TrimmedStorage) -> None:
        child = await ended(store, CHILD, child_of(REFUND))

        assert await store.delete([[child]]) == [Deleted(logs=1, events=2)]

    async def test_each_family_goes_or_stays_on_its_own(self, store: TrimmedStorage) -> None:
        names = [ExecutionId(f"run-{number}") for number in range(6)]
        heads = [await ended(store, name, DONE if number % 3 else INDEX) for number, name in enumerate(names)]

        results = await store.delete([[head] for head in heads])

        assert results == [Deleted(1, 2) if number % 3 else Kept("open", name) for number, name in enumerate(names)]
        assert list(await store.ids()) == names[::3]

    async def test_a_dry_run_deletes_nothing_and_tells_what_would_become_of_each(self, store: TrimmedStorage) -> None:
        head = await ended(store)
        child = await ended(store, CHILD, child_of(REFUND))
        begun = await appended(store, first(CLAIM))
        families = [[head, child], [head], [Head(CLAIM, *begun)]]

        would = await store.delete(families, dry_run=True)

        assert list(await store.ids()) == [CLAIM, REFUND, CHILD]
        assert would == [Deleted(2, 4), Kept("kin", CHILD), Kept("open", CLAIM)]
        assert list(await store.delete(families[:1])) == would[:1]

    async def test_nothing_is_deleted_for_nobody(self, store: TrimmedStorage) -> None:
        await ended(store)

        assert list(await store.delete([])) == []
        assert list(await store.ids()) == [REFUND]

    async def test_of_two_that_delete_one_does(self, store: TrimmedStorage) -> None:
        heads = [[await ended(store, ExecutionId(f"run-{number}"))] for number in range(20)]

        results = await asyncio.gather(store.delete(heads), store.delete(heads))

        assert [{type(one), type(other)} for one, other in zip(*results, strict=True)] == [{Deleted, Kept}] * 20
        assert list(await store.ids()) == []


class ReuseConformance:
    """Nothing of a past life serves a new one, or disturbs it (kernel rule 2.1)."""

    async def test_an_id_that_is_used_again_has_another_life(self, store: TrimmedStorage) -> None:
        past = await ended(store)
        await store.delete([[past]])

        again = await appended(store, first(REFUND, b"new"))

        assert again.length == 1
        assert again.incarnation > past.incarnation
        assert await payloads(store, REFUND) == [b"new"]

    async def test_the_last_life_there_was_is_not_given_again(self, store: TrimmedStorage) -> None:
        lives = []
        for _ in range(3):
            head = await ended(store)
            lives.append(head.incarnation)
            await store.delete([[head]])

        assert len(set(lives)) == 3

    async def test_a_stale_writer_is_refused_before_and_after_the_id_is_used_again(self, store: TrimmedStorage) -> None:
        past = await ended(store)
        stale = after(Appended(*past[1:]), REFUND, b"stale")
        await store.delete([[past]])

        [before] = await store.append([stale])
        again = await appended(store, first(REFUND, b"new", b"er"))
        [then] = await store.append([replace(stale, append_id="anew")])

        assert before == Conflict(0, None)
        assert then == Conflict(2, again.incarnation)
        assert await payloads(store, REFUND) == [b"new", b"er"]

    async def test_a_write_of_the_past_life_is_not_taken_for_one_of_the_new(self, store: TrimmedStorage) -> None:
        begun = await appended(store, first(REFUND))
        last = after(begun, REFUND, b"last", index=DONE)
        past = Head(REFUND, *await appended(store, last))
        await store.delete([[past]])
        again = await appended(store, first(REFUND, b"new"))

        [repeated] = await store.append([last])

        assert repeated == Conflict(1, again.incarnation)

    async def test_a_request_of_the_past_life_is_not_taken(self, store: TrimmedStorage) -> None:
        begun = await appended(store, first(REFUND))
        await insert(store, begun, key="gate:0")
        past = await on(store, REFUND, begun, index=DONE, lease=LeaseChange(""))
        await store.delete([[past]])

        gone = await insert(store, begun, key="gate:1")
        again = await appended(store, first(REFUND))
        late = await insert(store, begun, key="gate:2")
        anew = await insert(store, again, key="gate:0")

        assert (gone, late, anew) == (None, None, 1)
        assert [request.key for request in await store.pending(REFUND, again.incarnation)] == ["gate:0"]
        assert not (await row(store, REFUND)).cancel_asked

    async def test_a_lease_of_the_past_life_holds_nothing(self, store: TrimmedStorage) -> None:
        begun = await appended(store, replace(first(REFUND), lease=MINE))
        past = await on(store, REFUND, begun, index=DONE, lease=LeaseChange(""))
        await store.delete([[past]])
        await appended(store, first(REFUND, index=replace(INDEX, status="suspended", wake_at=0)))

        assert list(await store.renew("mine", [REFUND], lease_ms=1_000)) == [REFUND]
        await store.release("mine", [REFUND])
        await store.leave("mine", {REFUND: 9})

        [claim] = await store.claim("another", lease_ms=1_000, limit=9)
        assert (claim.row.execution_id, claim.found, claim.calls) == (REFUND, "due", 0)

    async def test_what_was_due_in_the_past_life_is_not_claimed(
        self, store: TrimmedStorage, clock: VirtualClock
    ) -> None:
        begun = await appended(store, first(REFUND, index=replace(INDEX, status="suspended", wake_at=5)))
        past = await on(store, REFUND, begun, index=DONE)
        await store.delete([[past]])
        clock.advance(1_000)

        assert list(await store.claim("anybody", lease_ms=1, limit=9)) == []

        await appended(store, first(REFUND, index=replace(INDEX, status="suspended")))
        assert list(await store.claim("anybody", lease_ms=1, limit=9)) == []

    async def test_the_links_of_a_past_chain_are_not_those_of_the_new_run(self, store: TrimmedStorage) -> None:
        await store.delete([await chain(store, REFUND, SECOND)])

        again = await appended(store, first(REFUND))

        assert await insert(store, again) == 1
        assert [each.execution_id for each in await store.find(ExecutionQuery(chain=REFUND, tips=True))] == [REFUND]

    async def test_what_was_seen_of_the_past_life_does_not_delete_the_new_one(self, store: TrimmedStorage) -> None:
        past = await ended(store)
        await store.delete([[past]])
        again = await ended(store)

        assert again.length == past.length
        assert await store.delete([[past]]) == [Kept("changed", REFUND)]
        assert await store.head(REFUND) == again


class EndedIndexConformance:
    """Which families have ended."""

    async def test_it_is_an_ended_index(self, store: TrimmedStorage) -> None:
        assert isinstance(store, EndedIndex)

    async def test_those_that_ended_before_are_found_the_longest_begun_first(self, store: TrimmedStorage) -> None:
        await ended(store, ExecutionId("b"), replace(DONE, started_at=30, updated_at=40))
        await ended(store, ExecutionId("c"), replace(DONE, started_at=10, updated_at=50))
        await ended(store, ExecutionId("a"), replace(DONE, started_at=30, updated_at=40, status="failed"))
        await ended(store, ExecutionId("late"), replace(DONE, started_at=20, updated_at=100))
        await ended(store, ExecutionId("open"), replace(INDEX, started_at=1, updated_at=2))

        found = await store.ended(before=100)

        assert [each.execution_id for each in found] == ["c", "a", "b"]
        assert found[0] == await row(store, ExecutionId("c"))
        assert [each.execution_id for each in await store.ended(before=101)] == ["c", "late", "a", "b"]

    async def test_they_are_paged(self, store: TrimmedStorage) -> None:
        names = [f"run-{number:02}" for number in range(25)]
        for number, name in enumerate(names):
            await ended(store, ExecutionId(name), replace(DONE, started_at=number // 3, updated_at=50))

        found, cursor = list[str](), (0, "")
        while page := await store.ended(before=100, after=cursor, limit=4):
            found += [each.execution_id for each in page]
            cursor = (page[-1].index.started_at, page[-1].execution_id)
            assert len(page) <= 4

        assert found == names

    async def test_a_chain_is_found_by_its_first_link_once_its_last_has_ended(self, store: TrimmedStorage) -> None:
        await ended(store, REFUND, replace(CONTINUED, started_at=5, updated_at=10))
        link = replace(DONE, chain=REFUND, link=2, started_at=10)
        begun = await appended(store, first(SECOND, index=replace(link, ended=False, updated_at=10)))
        while_open = await store.ended(before=100)
        await on(store, SECOND, begun, index=replace(link, updated_at=60))

        assert list(while_open) == []
        assert [each.execution_id for each in await store.ended(before=61)] == [REFUND]
        assert list(await store.ended(before=60)) == []

    async def test_a_child_is_found_once_its_parent_is_gone(self, store: TrimmedStorage) -> None:
        await ended(store, CHILD, child_of(REFUND, updated_at=10, started_at=5))
        orphaned = await store.ended(before=100)
        begun = await appended(store, first(REFUND))

        assert [each.execution_id for each in orphaned] == [CHILD]
        assert list(await store.ended(before=100)) == []
        await on(store, REFUND, begun, index=replace(DONE, started_at=1, updated_at=10))
        assert [each.execution_id for each in await store.ended(before=100)] == [REFUND]

    async def test_what_is_below_runs_is_found_by_its_last_links(self, store: TrimmedStorage) -> None:
        await ended(store)
        await ended(store, CLAIM)
        await chain(store, CHILD, ExecutionId(f"{CHILD}~2"), parent=REFUND)
        await ended(store, ExecutionId("claim-7:check"), child_of(CLAIM, INDEX))
        await ended(store, GRANDCHILD, child_of(CHILD))

        found = {row.execution_id: (of, row) for of, row in await store.below([REFUND, CLAIM, NOBODY])}

        assert {name: of for name, (of, _) in found.items()} == {f"{CHILD}~2": REFUND, "claim-7:check": CLAIM}
        _, last = found[ExecutionId(f"{CHILD}~2")]
        assert (last.index.chain, last.index.parent, last.index.ended) == (CHILD, REFUND, True)
        assert list(await store.below([])) == []

    async def test_all_links_of_chains_are_found(self, store: TrimmedStorage) -> None:
        heads = await chain(store, REFUND, SECOND, THIRD)
        alone = await ended(store, CLAIM)
        await ended(store, CHILD, child_of(REFUND))

        found = await store.links([REFUND, CLAIM, NOBODY])

        assert sorted(found) == sorted([*((REFUND, head) for head in heads), (CLAIM, alone)])


class EventTrimConformance(
    DeletingConformance, ReuseConformance, EndedIndexConformance, TrimmingConformance, LaneTrimmingConformance
):
    """All of it."""
