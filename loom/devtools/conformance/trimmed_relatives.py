"""What becomes of lines and of forks when runs are deleted, for a store that has them as well as `EventTrim`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Protocol

from loom.core.ids import ExecutionId
from loom.devtools.conformance.event_trim import (
    CHILD,
    DONE,
    GRANDCHILD,
    MINE,
    SECOND,
    TrimmedStorage,
    chain,
    child_of,
    ended,
    on,
)
from loom.devtools.conformance.logs import CLAIM, INDEX, REFUND, after, appended, first, in_chain, insert
from loom.devtools.conformance.logs import row_of as row
from loom.spi.admission_store import AdmissionStore, Quiet, Slots, Terms
from loom.spi.clock import VirtualClock
from loom.spi.event_fork import EventFork, Source
from loom.spi.event_store import Appended, Head, LeaseChange, Storage
from loom.spi.event_trim import Deleted, Kept

QUIET: Final = Terms(quiet=Quiet("draft-1", 5_000))
ONE: Final = Terms(slots=Slots("customer-1", 1))


class TrimmedLines(TrimmedStorage, AdmissionStore, Protocol):
    """The same, with lines."""


async def full_of(store: TrimmedLines) -> list[list[Head]]:
    """Write ended runs of which everything is kept that can be, and return their families."""
    for run in (REFUND, CLAIM):
        await store.join_lines(run, ONE, length=0)
    begun = await appended(store, replace(first(REFUND), lease=MINE))
    await insert(store, begun, key="gate:0")
    found_by = replace(DONE, attributes='{"customer":"c7"}')
    head = await on(store, REFUND, begun, index=found_by, lease=LeaseChange(""))
    child = await ended(store, CHILD, child_of(REFUND))
    return [[head, child], await chain(store, CLAIM, ExecutionId("claim-7~2"))]


class TrimmedLinesConformance:
    """What becomes of lines when runs are deleted, for a store that has both."""

    async def test_a_deleted_run_stands_in_no_line(self, store: TrimmedLines) -> None:
        await store.join_lines(REFUND, ONE, length=0)
        head = await ended(store)

        assert await store.delete([[head]]) == [Deleted(1, 2)]

        assert dict(await store.admissions([REFUND])) == {}
        assert (await _joined(store, CLAIM, ONE)).stage == "begun"

    async def test_an_id_that_is_used_again_joins_anew(self, store: TrimmedLines) -> None:
        await store.join_lines(REFUND, ONE, length=0)
        await store.delete([[await ended(store)]])
        await _joined(store, CLAIM, ONE)

        assert (await _joined(store, REFUND, ONE)).stage == "line"

    async def test_who_has_taken_the_place_of_a_run_stays_until_that_one_has_ended(
        self, store: TrimmedLines, clock: VirtualClock
    ) -> None:
        await _joined(store, CLAIM, QUIET)
        await _joined(store, REFUND, QUIET)
        clock.advance(5_000)
        assert (await store.admit(REFUND, QUIET)).stage == "begun"
        begun = await row(store, REFUND)
        head = await on(store, REFUND, Appended(begun.incarnation, begun.length), index=DONE)

        assert await store.delete([[head]]) == [Kept("place", REFUND)]
        assert (await store.admit(CLAIM, QUIET)).newer == REFUND

        older = await row(store, CLAIM)
        await on(store, CLAIM, Appended(older.incarnation, older.length), index=DONE)
        assert await store.delete([[head]]) == [Deleted(1, 2)]


class TrimmedForks(TrimmedStorage, EventFork, Protocol):
    """A store of logs that can be forked and deleted."""


BRANCH: Final = ExecutionId("refund-42-more")


async def forked(store: TrimmedForks, source: Head, name: ExecutionId = BRANCH, **fields: Any) -> Head:
    """Write a fork that shares the first event, and has ended; *fields* are of its index row."""
    index = replace(in_chain(name, DONE), **fields)
    item = replace(after(Appended(source.incarnation, 1), name, b"goes its own way", index=index), incarnation=None)
    result = await store.fork(Source(source.execution_id, source.incarnation, 0), item)
    assert isinstance(result, Appended), result
    return await on(store, name, result, index=index)


class TrimmedForksConformance:
    """What becomes of forks when runs are deleted, for a store that has both: they go with the run that they left."""

    async def test_a_run_goes_with_its_forks_and_theirs(self, store: TrimmedForks) -> None:
        head = await ended(store)
        branch = await forked(store, head)
        another = await forked(store, branch, ExecutionId("refund-42-most"))

        assert await store.delete([[head, branch, another]]) == [Deleted(logs=3, events=8)]
        assert list(await store.ids()) == []

    async def test_neither_a_run_nor_a_fork_goes_alone(self, store: TrimmedForks) -> None:
        head = await ended(store)
        branch = await forked(store, head)

        assert await store.delete([[head], [branch]]) == [Kept("kin", BRANCH), Kept("kin", REFUND)]

    async def test_a_run_stays_while_a_fork_has_not_ended(self, store: TrimmedForks) -> None:
        head = await ended(store)
        branch = await forked(store, head, ended=False, status="suspended")

        assert await store.delete([[head, branch]]) == [Kept("open", BRANCH)]
        assert list(await store.ids()) == [REFUND, BRANCH]

    async def test_forks_are_below_the_chain_of_the_link_that_they_left(self, store: TrimmedForks) -> None:
        heads = await chain(store, REFUND, SECOND)
        await forked(store, heads[1])
        await ended(store, CHILD, child_of(REFUND))
        await forked(store, await _head(store, CHILD), GRANDCHILD, parent=BRANCH)

        below = [(of, row.execution_id) for of, row in await store.below([REFUND])]
        further = [(of, row.execution_id) for of, row in await store.below([BRANCH, CHILD])]

        assert sorted(below) == [(REFUND, BRANCH), (REFUND, CHILD)]
        assert sorted(further) == [(BRANCH, GRANDCHILD), (CHILD, GRANDCHILD)]

    async def test_a_fork_is_not_found_among_what_ended_but_with_what_it_left(self, store: TrimmedForks) -> None:
        old = replace(DONE, started_at=5, updated_at=10)
        head = await ended(store, REFUND, old)
        await forked(store, head, started_at=5, updated_at=10)

        assert [each.execution_id for each in await store.ended(before=100)] == [REFUND]


async def _head(store: Storage, name: ExecutionId) -> Head:
    head = await store.head(name)
    assert head is not None
    return head


async def _joined(store: TrimmedLines, run: ExecutionId, terms: Terms) -> Any:
    admission = await store.join_lines(run, terms, length=0)
    await appended(store, first(run, index=replace(INDEX, status="suspended")))
    return admission
