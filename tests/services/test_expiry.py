"""Which families go, decided from rows alone: a property, and its parts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.devtools.conformance.event_trim import DONE, ended
from loom.devtools.conformance.logs import appended, first
from loom.services import expiry
from loom.services.expiry import Candidate, Family, Tally
from loom.services.retention import Retention
from loom.services.ticks import tick_of
from loom.spi.clock import VirtualClock
from loom.spi.event_store import ExecutionRow, Head
from loom.spi.event_trim import Kept
from loom.spi.memory import MemoryStorage
from loom.spi.schedule_store import ScheduleCursor
from tests.services.polling import DAY_0, HOUR


async def retained(store: MemoryStorage, *, ttl_ms: int, dry_run: bool = False) -> Tally:
    return await Retention(store, ttl_ms=ttl_ms, dry_run=dry_run).run()


class Log(NamedTuple):
    """A run of a random house: its links, how long ago it was touched last, and which earlier run has spawned it."""

    links: int
    ended: bool
    age: int
    parent: int | None


logs = st.lists(
    st.builds(
        Log,
        links=st.integers(1, 3),
        ended=st.sampled_from([True, True, True, False]),
        age=st.sampled_from([1, 5, 5, 5]),
        parent=st.none() | st.integers(0, 30),
    ),
    max_size=14,
)


@pytest.mark.proves("LIF-11", "CLI-17")
@given(logs=logs)
def test_a_family_goes_exactly_when_all_of_it_ended_long_enough_ago(logs: list[Log]) -> None:
    asyncio.run(_checked(logs))


async def _checked(logs: list[Log]) -> None:
    store, roots = MemoryStorage(clock=VirtualClock(10)), list[int]()
    for number, log in enumerate(logs):
        parent = None if log.parent is None or not number else log.parent % number
        roots.append(number if parent is None else roots[parent])
        await _write(store, number, log, parent)
    may_go = {
        root: all(log.ended and log.age > 2 for log, of in zip(logs, roots, strict=True) if of == root)
        for root in roots
    }
    going = [number for number, root in enumerate(roots) if may_go[root]]
    before = await _all(store)

    would = await retained(store, ttl_ms=2, dry_run=True)

    assert await _all(store) == before
    tally = await retained(store, ttl_ms=2)
    assert tally == would
    assert tally.runs == len(going)
    assert tally.logs == sum(logs[number].links for number in going)
    expected = {name for name in before if int(name.split("~", maxsplit=1)[0]) not in going}
    assert await _all(store) == expected


async def _write(store: MemoryStorage, number: int, log: Log, parent: int | None) -> None:
    names = [ExecutionId(f"{number}" if link == 1 else f"{number}~{link}") for link in range(1, log.links + 1)]
    spawned = "" if parent is None else str(parent)
    for link, name in enumerate(names, 1):
        is_last = link == log.links
        index = replace(DONE, chain=names[0], link=link, parent=spawned, started_at=1, updated_at=10 - log.age)
        if is_last and not log.ended:
            await appended(store, first(name, index=replace(index, ended=False)))
        else:
            await ended(store, name, index)


async def _all(store: MemoryStorage) -> set[str]:
    return set(await store.ids())


def test_transactions_are_bounded_and_a_family_is_in_one() -> None:
    small = Family(1, [Head(ExecutionId("s"), 1, 400)])  # type: ignore[arg-type]
    large = Family(9, [Head(ExecutionId("l"), 1, 5_000)])  # type: ignore[arg-type]

    assert [len(each) for each in expiry.batches([small, small, small, large, small])] == [2, 1, 1, 1]
    assert [len(each) for each in expiry.batches([small._replace(heads=[])] * 450)] == [200, 200, 50]
    assert list(expiry.batches([])) == []
    assert sum(family.runs for batch in expiry.batches([large] * 5, runs_max=10) for family in batch) == 18


def test_why_a_family_is_kept() -> None:
    def row(name: str, **index: Any) -> ExecutionRow:
        return ExecutionRow(ExecutionId(name), 1, 2, replace(DONE, updated_at=5, **index))  # type: ignore[arg-type]

    tick = row("n-20261130T030000Z", attributes='{"schedule":"n","tick":"2026-11-30T03:00:00Z"}')
    at = DAY_0 + 3 * HOUR
    rows: list[tuple[Candidate, dict[str, Any], str | None]] = [
        (Candidate(row("a")), {}, None),
        (Candidate(row("a"), [row("b")]), {}, None),
        (Candidate(row("a"), [row("b"), row("c", ended=False)]), {}, "child"),
        (Candidate(row("a"), [replace(row("b"), index=replace(DONE, updated_at=7))]), {}, "child"),
        (Candidate(tick), {"n": ScheduleCursor(at - 1)}, "tick"),
        (Candidate(tick), {"n": ScheduleCursor(at)}, None),
        (Candidate(tick), {"n": None}, None),
    ]
    for candidate, cursors, why in rows:
        assert expiry.why_kept(candidate, before=7, cursors=cursors) == why
    assert expiry.schedules_of([Candidate(tick), Candidate(row("a"))]) == {"n"}


def test_what_a_tally_counts() -> None:
    tally = Tally()
    tally.note(Family(1, []), Kept("held", ExecutionId("a")))

    assert (tally.families, dict(tally.kept)) == (0, {"held": 1})


@pytest.mark.parametrize(
    ("run", "attributes", "tick"),
    [
        (
            "nightly-20261130T030000Z",
            {"schedule": "nightly", "tick": "2026-11-30T03:00:00Z"},
            ("nightly", DAY_0 + 3 * HOUR),
        ),
        ("mine", {"schedule": "nightly", "tick": "2026-11-30T03:00:00Z"}, None),
        ("a-noon", {"schedule": "a", "tick": "noon"}, None),
        ("a-7", {"schedule": "a", "tick": 7}, None),
        ("a", {}, None),
    ],
)
def test_a_run_of_a_schedule_is_known_by_its_id_and_its_attributes(run: str, attributes: Any, tick: Any) -> None:
    assert tick_of(run, attributes) == tick
