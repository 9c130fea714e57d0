"""Families that are forked after parts of their logs were compacted, in the stores that need no server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings

from loom.core.ids import ExecutionId
from loom.driving.errors import CompactedForkPoint
from loom.plugins.sqlite import SqliteStorage
from loom.services.snapshot_taking import take_snapshot
from loom.spi.memory import MemoryStorage
from tests.driving.forked_families import (
    FORK,
    KID,
    RUN,
    WALKER,
    Cut,
    Family,
    as_if_nothing_had_been,
    cuts,
    moves,
    parts,
)
from tests.services.compacted import compacted, row_of

pytestmark = pytest.mark.timeout(400)
numbers = itertools.count()
EXAMPLES: Final = settings.default.max_examples // 4 if settings.default is not None else 8
STEPS: Final = [(RUN, 1), (KID, 1), (RUN, 1), (WALKER, 2), (WALKER, 1), (RUN, 1), (KID, 1)]
ALL: Final = {KID: Cut([30, 40, 50, 60, 70], 100), WALKER: Cut([], 100), RUN: Cut([40, 60, 80], 90)}


@pytest.mark.proves("LIF-06")
@settings(max_examples=EXAMPLES)
@given(moves=moves, cuts=cuts, part=parts)
@example(moves=STEPS, cuts=ALL, part=60)
async def test_a_family_is_forked_as_if_nothing_had_been_compacted_or_not_at_all(
    moves: Sequence[tuple[ExecutionId, int]], cuts: Mapping[ExecutionId, Cut], part: int
) -> None:
    await as_if_nothing_had_been(MemoryStorage(), moves, cuts, part)


async def test_a_child_that_was_compacted_beyond_that_time_says_from_where_on_its_parent_can_be_forked() -> None:
    family, archive = Family(MemoryStorage()), MemoryStorage()
    await family.lived([(RUN, 1), (KID, 1), (RUN, 1)])
    await compacted(family.store, archive, KID)
    said = [event.sequence for event in await family.over.events(RUN) if event.type == "GATE_ANSWERED"]

    with pytest.raises(CompactedForkPoint, match=r"cannot be forked as it was when its parent was$") as refused:
        await family.over.fork(RUN, at=said[0], id=FORK)

    late = refused.value.parent_from
    assert late is not None
    assert said[0] < late <= said[1]
    hint = f"Fork {RUN} at event {late} or later, or {KID} by itself at any event from {refused.value.through} on."
    assert refused.value.hint == hint
    assert await family.store.ids(prefix=FORK) == []
    assert (await family.forked(late))[1] == "EXECUTION_COMPLETED"


async def test_nothing_is_written_where_one_child_can_be_forked_and_another_cannot() -> None:
    family = Family(MemoryStorage())
    await family.lived([(RUN, 1), (WALKER, 2)])
    await compacted(family.store, MemoryStorage(), WALKER)
    [said] = [event.sequence for event in await family.over.events(RUN) if event.type == "GATE_ANSWERED"]

    with pytest.raises(CompactedForkPoint) as refused:
        await family.over.fork(RUN, at=said, id=FORK)

    assert (refused.value.execution_id, refused.value.parent_from) == (WALKER, None)
    assert refused.value.hint.startswith(f"{RUN} has no event that late, before its end. Fork {WALKER} by itself")
    assert await family.store.ids(prefix=FORK) == []


async def test_a_child_is_forked_where_a_snapshot_stands_and_what_came_next_is_known() -> None:
    whole, short = Family(MemoryStorage()), Family(MemoryStorage())
    for family in (whole, short):
        await family.lived([(RUN, 1), (KID, 1), (RUN, 1)])
    [said, _] = [event.sequence for event in await short.over.events(RUN) if event.type == "GATE_ANSWERED"]
    times = {event.sequence: event.at for event in await short.over.events(RUN)}
    events = await short.over.events(KID)
    last = max(event.sequence for event in events if event.at <= times[said])
    for at in (last, last + 1):
        await take_snapshot(short.store, await row_of(short.store, KID), at=at)
    await compacted(short.store, MemoryStorage(), KID)

    assert await short.forked(said) == await whole.forked(said)


@pytest.mark.proves("LIF-06")
@settings(max_examples=max(1, EXAMPLES // 4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=moves, cuts=cuts, part=parts)
@example(moves=STEPS, cuts=ALL, part=60)
async def test_so_it_is_in_sqlite(
    tmp_path: Path, moves: Sequence[tuple[ExecutionId, int]], cuts: Mapping[ExecutionId, Cut], part: int
) -> None:
    store = SqliteStorage(tmp_path / f"{next(numbers)}.db")
    await as_if_nothing_had_been(store, moves, cuts, part)
    await store.close()
