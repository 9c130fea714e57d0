"""A log that ends anywhere is a run that goes on from there: with any store, whether what was under way happened or not."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.spi.event_store import Append, ExecutionQuery, Storage
from tests.crash.matrix import Left, Undisturbed, outcomes, starts, verify
from tests.crash.mortal import Death, Deed, Fate, deeds_in
from tests.crash.places import Ground, Row
from tests.crash.scenarios import RUN, CarryingOn


@pytest.mark.proves("LIF-01", "PRN-01", "PRN-10", "PRN-11")
@pytest.mark.parametrize(
    ("ground", "in_memory"), [("sqlite", False), ("sqlite", True), ("postgres", False)], indirect=["ground"]
)
@pytest.mark.parametrize("scenario", ["pages", "rooms", "order", "trip", "market"])
@pytest.mark.parametrize("most", [pytest.param(20, id="some"), pytest.param(1_000, id="every", marks=pytest.mark.slow)])
def test_a_log_that_was_cut_anywhere_goes_on_to_the_same_end(
    scenario: str, ground: Ground, seed: int, in_memory: bool, most: int
) -> None:
    lived = loom.MemoryStorage()
    expected = asyncio.run(_carried_on(scenario, ground.place("whole").folder, lived, []))
    cuts = [(length, happened) for length in range(1, len(expected.left.log)) for happened in (True, False)]

    for length, happened in random.Random(seed).sample(cuts, ground.few(min(most, len(cuts)))):
        place, before = ground.place(f"{length} {happened}"), _as_of(expected.left, length, happened=happened)
        storage = loom.MemoryStorage() if in_memory else place.storage()

        after = asyncio.run(_goes_on(scenario, place.folder, lived, storage, before))

        verify(expected, after.report, [before, after.left])


async def _goes_on(scenario: str, folder: Path, lived: Storage, storage: Storage, before: Left) -> Undisturbed:
    await _prefix(lived, len(before.log), storage)
    return await _carried_on(scenario, folder, storage, before.deeds)


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


async def _prefix(lived: Storage, length: int, storage: Storage) -> None:
    run = ExecutionId(RUN)
    [row] = await lived.find(ExecutionQuery())
    events = await lived.read(run, stop=length)
    index = replace(row.index, status="running", ended=False)
    item = Append(execution_id=run, incarnation=None, expected=0, append_id="copy", events=events, index=index)
    await storage.append([item])
