"""One remedy is done once, wherever the process dies.

A crash leaves a prefix of the log, and a fleet to which the remedy under way was done or not. Each such prefix and fleet is handed
to a fresh app here, which has to bring the incident to the same end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import loom
from app import war_room
from conftest import ALERT, INCIDENT
from fleet import Fleet
from loom.core.ids import ExecutionId
from loom.spi.event_store import Append, EventRecord, ExecutionQuery
from models import Decision, Resolution

RUN = ExecutionId(INCIDENT)
REMEDY = Decision("roll back")


async def test_one_remedy_is_done_once_wherever_the_process_dies(tmp_path: Path) -> None:
    lived, fleet = loom.MemoryStorage(), made(tmp_path / "lived.db")
    solved = await bring_to_its_end(lived, fleet)
    log = await lived.read(RUN)
    doubts = 0

    for length, is_done in crashes(log):
        fleet = made(tmp_path / f"crash-{length}-{is_done}.db")
        if is_done:
            fleet.roll_back("checkout", "v41", incident=INCIDENT, key="of the process that died")
        storage = await prefix_of(lived, length)

        assert await bring_to_its_end(storage, fleet) == solved
        assert [act[:2] for act in fleet.acts()] == [(INCIDENT, "roll back")], (
            f"after a crash behind event {length - 1}"
        )
        doubts += sum(event.type == "EFFECT_INDOUBT" for event in await storage.read(RUN))
    assert doubts == 2


def made(path: Path) -> Fleet:
    fleet = Fleet(path)
    fleet.create()
    return fleet


def crashes(log: Sequence[EventRecord]) -> Iterator[tuple[int, bool]]:
    """Yield how much of *log* a crash may leave behind, and whether the remedy may have been done by then."""
    asked = next(event.sequence for event in log if b'"id":"roll_back"' in event.payload)
    for length in range(1, asked + 2):
        yield length, False
    for length in range(asked + 1, len(log)):
        yield length, True


async def prefix_of(lived: loom.MemoryStorage, length: int) -> loom.MemoryStorage:
    """Return a store with the first *length* events that *lived* has."""
    storage, events = loom.MemoryStorage(), await lived.read(RUN, stop=length)
    [row] = await lived.find(ExecutionQuery())
    index = replace(row.index, status="running", ended=False)
    await storage.append(
        [Append(execution_id=RUN, incarnation=None, expected=0, append_id="copy", events=events, index=index)]
    )
    return storage


async def bring_to_its_end(storage: loom.MemoryStorage, fleet: Fleet) -> Resolution:
    """Start or resume the incident, decide, and tell of a remedy in doubt what the fleet says."""
    async with war_room(fleet, storage=storage) as app:
        runtime, known = app.runtime, await storage.head(RUN)
        outcome = await (runtime.resume(RUN) if known else runtime.start("incident", ALERT, id=RUN))
        if outcome.status == "suspended":
            outcome = await runtime.resume(RUN, answer=REMEDY)
        if outcome.status == "in_doubt":
            if fleet.acts():
                outcome = await runtime.resolve(RUN, "roll_back", "done", value=fleet.pools("checkout"))
            else:
                outcome = await runtime.resolve(RUN, "roll_back", "retry")
        resolution: Resolution = outcome.result()
        return resolution
