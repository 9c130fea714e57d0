"""Stores full of runs that ended long ago, written in few transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

from loom.core.ids import ExecutionId
from loom.devtools.conformance.event_trim import DONE
from loom.devtools.conformance.logs import first
from loom.spi.event_store import Append, EventStore, IndexRow, Storage

AT_ONCE = 1_000


async def fill(store: EventStore, count: int, *, events: int = 2, name: str = "old", index: IndexRow = DONE) -> None:
    """Write *count* logs of so many *events*, which began one after the other."""
    items = list(_items(count, events, name, index))
    for place in range(0, count, AT_ONCE):
        await store.append(items[place : place + AT_ONCE])


def _items(count: int, events: int, name: str, index: IndexRow) -> Iterator[Append]:
    payloads = [b'{"n":%d}' % number for number in range(events)]
    for number in range(count):
        yield first(ExecutionId(f"{name}-{number:06}"), *payloads, index=replace(index, started_at=number))


async def fill_families(store: EventStore, count: int, seed: int) -> dict[str, dict[ExecutionId, int]]:
    """Write *count* ended families of different shapes, and return for each the lengths of its logs."""
    random, batch = Random(seed), list[Append]()
    families: dict[str, dict[ExecutionId, int]] = {}
    for number in range(count):
        lengths = families[f"f-{number:04}"] = {}
        for name, index in _members(f"f-{number:04}", random):
            lengths[name] = random.randint(1, 6)
            payloads = [b"%d" % place for place in range(lengths[name])]
            batch.append(first(name, *payloads, index=replace(index, started_at=number)))
    for place in range(0, len(batch), AT_ONCE):
        await store.append(batch[place : place + AT_ONCE])
    return families


def _members(name: str, random: Random) -> Iterator[tuple[ExecutionId, IndexRow]]:
    links = random.randint(1, 3)
    for link in range(1, links + 1):
        status = "completed" if link == links else "continued"
        yield ExecutionId(name if link == 1 else f"{name}~{link}"), replace(DONE, chain=name, link=link, status=status)
    for child in range(random.randint(0, 2)):
        yield ExecutionId(f"{name}:{child}"), replace(DONE, parent=name)
        if random.random() < 0.3:
            yield ExecutionId(f"{name}:{child}:deep"), replace(DONE, parent=f"{name}:{child}")


async def whole(store: Storage, families: Mapping[str, Mapping[ExecutionId, int]]) -> list[str]:
    """Return which of *families* are there; fail where one is there in part."""
    found: dict[ExecutionId, int] = {}
    while rows := await store.ids(after=max(found, default=""), limit=AT_ONCE):
        for name in rows:
            log = await store.read(name)
            assert [event.sequence for event in log] == list(range(len(log)))
            found[name] = len(log)
    there = []
    for family, lengths in families.items():
        present = {name: found[name] for name in lengths if name in found}
        assert present in ({}, dict(lengths)), f"{family} is there in part: {present} of {lengths}"
        there += [family] if present else []
    return there
