"""A log that ends anywhere is a run that goes on from there: with any store, whether what was under way happened or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, ExecutionQuery, Storage
from tests.crash.matrix import Left, Row, Undisturbed, outcomes, starts, verify
from tests.crash.mortal import Death, Deed, Fate, deeds_in
from tests.crash.scenarios import RUN, CarryingOn

StoreIn: TypeAlias = Callable[[Path], Storage]


def memory(folder: Path) -> Storage:
    return loom.MemoryStorage()


def sqlite(folder: Path) -> Storage:
    return SqliteStorage(folder / "loom.db")


@pytest.mark.proves("LIF-01", "PRN-01", "PRN-10", "PRN-11")
@pytest.mark.parametrize("store_in", [memory, sqlite])
@pytest.mark.parametrize("scenario", ["pages", "rooms", "order", "trip", "market"])
async def test_a_log_that_was_cut_anywhere_goes_on_to_the_same_end(
    scenario: str, store_in: StoreIn, folder: Path
) -> None:
    lived = loom.MemoryStorage()
    expected = await _carried_on(scenario, folder, lived, [])

    for length in range(1, len(expected.left.log)):
        for happened in (True, False):
            place = folder / f"{length} {happened}"
            place.mkdir()
            before = _as_of(expected.left, length, happened=happened)
            storage = await _prefix(lived, length, store_in(place))

            after = await _carried_on(scenario, place, storage, before.deeds)

            verify(expected, after.report, [before, after.left])


async def _carried_on(scenario: str, folder: Path, storage: Storage, deeds: list[Deed]) -> Undisturbed:
    fate = Fate(Death(), deeds=folder / "deeds", seed=folder.name)
    for deed in deeds:
        fate.note(deed)
    report: dict[str, Any] = await CarryingOn(scenario, folder, fate, storage).to_the_end()
    log: list[Row] = [(*event[:4], event.metadata or None) for event in await storage.read(ExecutionId(RUN))]
    await storage.close()
    return Undisturbed(report, Left(log, deeds_in(folder / "deeds")))


def _as_of(left: Left, length: int, *, happened: bool) -> Left:
    """Return the world as it was behind the first *length* events; what was under way has *happened*, or has not begun."""
    log = left.log[:length]
    settled, failed = outcomes(log)
    begun = set(starts(log).values()) if happened else set()
    tried = {step: 1 + sum(name == step for name, _ in failed) for step in begun}
    deeds = [
        deed
        for deed in left.deeds
        if deed.step in settled or (deed.step, deed.attempt) in failed or deed.attempt <= tried.get(deed.step, 0)
    ]
    return Left(log, deeds)


async def _prefix(lived: Storage, length: int, storage: Storage) -> Storage:
    run = ExecutionId(RUN)
    [row] = await lived.find(ExecutionQuery())
    events = await lived.read(run, stop=length)
    index = replace(row.index, status="running", ended=False)
    item = Append(execution_id=run, incarnation=None, expected=0, append_id="copy", events=events, index=index)
    await storage.append([item])
    return storage
