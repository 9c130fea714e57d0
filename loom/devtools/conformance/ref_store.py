"""What every `RefStore` must do that is a store of logs, too: inherit the class and give the fixture *store*."""

from __future__ import annotations

import asyncio
from typing import Protocol

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import CLAIM, REFUND, appended, first
from loom.spi.event_store import Storage
from loom.spi.ref_store import Family, RefMove, RefStore


class NamingStorage(Storage, RefStore, Protocol):
    """A store that keeps names beside logs."""


def move(number: int, to: str = "fork", **said: str) -> RefMove:
    """Return the move of a name to the execution *to*."""
    return RefMove(number, ExecutionId(to), 1_000 + number, **said)


async def family(store: Storage, execution_id: ExecutionId = REFUND) -> Family:
    """Return the family of a run that is begun."""
    return Family(execution_id, (await appended(store, first(execution_id, b"0"))).incarnation)


class RefStoreConformance:
    """Names for branches, with all that they stood for."""

    async def test_it_is_a_ref_store(self, store: NamingStorage) -> None:
        assert isinstance(store, RefStore)

    async def test_a_family_has_no_names_at_first(self, store: NamingStorage) -> None:
        mine = await family(store)

        assert dict(await store.refs(mine)) == {}
        assert list(await store.ref_moves(mine, "main")) == []

    async def test_a_name_stands_for_what_it_was_moved_to_last_and_keeps_the_rest(self, store: NamingStorage) -> None:
        mine = await family(store)
        moves = [move(1, "a", principal="ann", reason="better"), move(2, "b"), move(3, "a")]

        assert [await store.move_ref(mine, "main", each) for each in moves] == [True] * 3

        assert dict(await store.refs(mine)) == {"main": moves[2]}
        assert list(await store.ref_moves(mine, "main")) == moves

    async def test_names_are_apart_and_so_are_families(self, store: NamingStorage) -> None:
        mine, theirs = await family(store), await family(store, CLAIM)

        await store.move_ref(mine, "main", move(1, "a"))
        await store.move_ref(mine, "trial \x00\u00e9", move(1, "b"))
        await store.move_ref(theirs, "main", move(1, "c"))

        assert {name: each.execution_id for name, each in (await store.refs(mine)).items()} == {
            "main": "a",
            "trial \x00\u00e9": "b",
        }
        assert [each.execution_id for each in await store.ref_moves(theirs, "main")] == ["c"]

    async def test_a_move_that_is_not_the_next_one_is_refused(self, store: NamingStorage) -> None:
        mine = await family(store)
        await store.move_ref(mine, "main", move(1, "a"))

        refused = [await store.move_ref(mine, "main", move(number, "b")) for number in (0, 1, 3)]

        assert refused == [False] * 3
        assert (await store.refs(mine))["main"].execution_id == "a"

    async def test_of_many_who_move_a_name_at_once_one_does(self, store: NamingStorage) -> None:
        mine = await family(store)

        done = await asyncio.gather(*(store.move_ref(mine, "main", move(1, f"run-{n}")) for n in range(8)))

        assert sorted(done) == [False] * 7 + [True]
        assert len(await store.ref_moves(mine, "main")) == 1

    async def test_a_family_that_is_not_there_takes_no_name(self, store: NamingStorage) -> None:
        mine = await family(store)
        another = Family(REFUND, type(mine.incarnation)(mine.incarnation + 1))

        assert not await store.move_ref(another, "main", move(1))
        assert dict(await store.refs(another)) == {}
