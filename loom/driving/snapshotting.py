"""When a run is driven: which of its states are kept as snapshots, and that this is in nobody's way (kernel rule 10.4).

At a park one is written once the events since the last are many, and after every *N* events where the app asks for that; only
of what is on disk, and after the fact. What fails here is told and forgotten: the log is the truth, and resuming takes longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.state import ExecutionState
from loom.driving.loading import NONE, TAIL_MIN
from loom.driving.snapshots import snapshot_of
from loom.kernel.journal import Journal
from loom.spi.event_store import Storage
from loom.spi.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from loom.driving.driver import Driver

LONG: Final = 10_000
"""From so many events on a snapshot is made in a thread, so that the other runs of the loop do not stand still for it."""

PART_OF_STATE: Final = 10
"""A snapshot at a park is worth its bytes once a tenth of the log came after the last."""

Event = EventEnvelope[Any]

_log = logging.getLogger("loom.driving")


class Snapshotting:
    """Keeps snapshots of the runs that one runtime drives; none where the store keeps none.

    *on_event* is to be told of every event when it is committed, *on_durable_event* once it is on disk; None: nobody is.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver, self._around = driver, (around := driver.around)
        self._last: WeakKeyDictionary[Journal, int] = WeakKeyDictionary()
        self._cadences: WeakKeyDictionary[Journal, _Cadence] = WeakKeyDictionary()
        self._every = around.snapshot_every
        if self._every is not None:
            snapshot_store(around.storage)
        self.on_event = around.on_event if self._every is None else self._committed
        self.on_durable_event = None if self._every is None else self._durable

    def began_with(self, journal: Journal, snapshot: int) -> None:
        """Know that the run was read from the *snapshot* at that sequence, -1 from none; a fork has one kept of where it begins."""
        state = journal.state
        if snapshot != NONE:
            self._last[journal] = snapshot
        elif state.status == "forked" and state.length > TAIL_MIN and isinstance(self._around.storage, SnapshotStore):
            self._keep_soon(journal, self._cadence(journal, state.length), state)

    async def after_drive(self, journal: Journal) -> None:
        """Keep what is due: called when the run has parked or ended, and nobody waits for the place of its driver any more."""
        cadence = self._cadences.get(journal)
        if cadence is not None and cadence.task is not None:
            await asyncio.wait([cadence.task])
        state = journal.state
        if state.length <= TAIL_MIN or state.is_terminal or journal.durable < state.length:
            return
        tail = state.sequence - self._last.get(journal, NONE)
        if tail > max(TAIL_MIN, state.length // PART_OF_STATE) and isinstance(self._around.storage, SnapshotStore):
            await self._keep(journal, state)

    async def _keep(self, journal: Journal, state: ExecutionState) -> None:
        """Keep a snapshot of *state*, which is on disk; where that fails, it is told, and nothing else happens."""
        assert journal.incarnation is not None
        try:
            at, codec = self._around.clock.now_ms(), self._around.snapshot_codec
            make = partial(snapshot_of, state, journal.incarnation, at=at, codec=codec)
            snapshot = await asyncio.to_thread(make) if state.length >= LONG else make()
            if await snapshot_store(self._around.storage).put_snapshot(snapshot):
                self._last[journal] = state.sequence
        except Exception as error:  # noqa: BLE001  # a cache that cannot be written must not end a drive
            told = "the snapshot of %s at %d was not kept: %s; resuming it reads more of its log"
            _log.warning(told, state.execution_id, state.sequence, error)

    # -- every so many events

    def _committed(self, event: Event) -> None:
        """Note the state of a run that has come to its next N events: it is not on disk yet."""
        drive, every = self._driver.drives.get(event.execution_id), self._every or 1
        if drive is not None:
            cadence = self._cadence(drive.journal, event.sequence)
            if (event.sequence + 1) // every > cadence.noted:
                cadence.noted = (event.sequence + 1) // every
                cadence.committed.append(drive.journal.state)
        if self._around.on_event is not None:
            self._around.on_event(event)

    def _durable(self, event: Event) -> None:
        """Have the state after *event* kept, if it was noted."""
        drive = self._driver.drives.get(event.execution_id)
        cadence = self._cadences.get(drive.journal) if drive is not None else None
        if drive is None or cadence is None or not cadence.committed:
            return
        if cadence.committed[0].sequence == event.sequence:
            self._keep_soon(drive.journal, cadence, cadence.committed.popleft())

    def _cadence(self, journal: Journal, length: int) -> _Cadence:
        """Return how far the run of *journal* has come; if nothing is known of it, it had come to *length*."""
        known = self._cadences.get(journal)
        return known or self._cadences.setdefault(journal, _Cadence(length // (self._every or 1)))

    def _keep_soon(self, journal: Journal, cadence: _Cadence, state: ExecutionState) -> None:
        cadence.durable.append(state)
        if cadence.task is None or cadence.task.done():
            keeping = self._keep_all(journal, cadence.durable)
            cadence.task = asyncio.get_running_loop().create_task(keeping, name="loom-snapshots")

    async def _keep_all(self, journal: Journal, states: deque[ExecutionState]) -> None:
        while states:
            await self._keep(journal, states.popleft())


def snapshot_store(storage: Storage) -> SnapshotStore:
    """Return *storage* as one that keeps snapshots.

    Raises:
        InvalidDeclaration: it keeps none.
    """
    if isinstance(storage, SnapshotStore):
        return storage
    hint = "Use a store that is a SnapshotStore too, such as loom.sqlite_storage()."
    raise InvalidDeclaration(f"the store {type(storage).__name__} keeps no snapshots", hint=hint)


class _Cadence:
    """How far a run has come, in steps of N events: states noted and not on disk, and those on disk and not kept yet."""

    def __init__(self, noted: int) -> None:
        self.noted = noted
        self.committed: deque[ExecutionState] = deque()
        self.durable: deque[ExecutionState] = deque()
        self.task: asyncio.Task[None] | None = None
