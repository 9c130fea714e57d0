from __future__ import annotations

import asyncio

import pytest

from loom.devtools.conformance.admission_store import AdmissionStoreConformance, LinedStorage
from loom.devtools.conformance.archive_store import ArchiveStoreConformance
from loom.devtools.conformance.event_fork import EventForkConformance, ForkingStorage
from loom.devtools.conformance.event_import import EventImportConformance, ImportingStorage
from loom.devtools.conformance.event_trim import EventTrimConformance
from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.devtools.conformance.ref_store import NamingStorage, RefStoreConformance
from loom.devtools.conformance.schedule_store import ScheduleStoreConformance
from loom.devtools.conformance.snapshot_store import (
    SnapshotStoreConformance,
    TrimmedSnapshots,
    TrimmedSnapshotsConformance,
)
from loom.devtools.conformance.storage import StorageConformance
from loom.devtools.conformance.trimmed_relatives import TrimmedForksConformance, TrimmedLines, TrimmedLinesConformance
from loom.spi.archive_store import ArchiveStore
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Storage
from loom.spi.memory import MemoryStorage
from loom.spi.schedule_store import ScheduleStore


@pytest.mark.proves("STO-01", "KER-19")
class TestMemoryStorage(StorageConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def store(self, clock: VirtualClock) -> Storage:
        return MemoryStorage(clock=clock)


@pytest.mark.proves("RNG-21")
class TestMemorySchedules(ScheduleStoreConformance):
    @pytest.fixture
    def store(self) -> ScheduleStore:
        return MemoryStorage()


@pytest.mark.proves("BEY-15")
class TestMemoryLines(AdmissionStoreConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def store(self, clock: VirtualClock) -> LinedStorage:
        return MemoryStorage(clock=clock)


@pytest.mark.proves("KER-15", "STO-04")
class TestMemoryTrim(EventTrimConformance, TrimmedLinesConformance, TrimmedForksConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def store(self, clock: VirtualClock) -> TrimmedLines:
        return MemoryStorage(clock=clock)


class TestMemorySnapshots(SnapshotStoreConformance, TrimmedSnapshotsConformance):
    @pytest.fixture
    def store(self) -> TrimmedSnapshots:
        return MemoryStorage()


@pytest.mark.proves("STO-13")
class TestMemoryArchive(ArchiveStoreConformance):
    @pytest.fixture
    def store(self) -> ArchiveStore:
        return MemoryStorage()


@pytest.mark.proves("BRN-02")
class TestMemoryForks(EventForkConformance):
    @pytest.fixture
    def store(self) -> ForkingStorage:
        return MemoryStorage()


class TestMemoryImport(EventImportConformance):
    @pytest.fixture
    def store(self) -> ImportingStorage:
        return MemoryStorage()


@pytest.mark.proves("BRN-06")
class TestMemoryRefs(RefStoreConformance):
    @pytest.fixture
    def store(self) -> NamingStorage:
        return MemoryStorage()


def test_a_store_made_outside_a_loop_serves_one_loop_after_the_other() -> None:
    store = MemoryStorage()
    asyncio.run(_append(store))

    assert asyncio.run(payloads(store, REFUND)) == [b"1"]


async def _append(store: Storage) -> None:
    await appended(store, first(REFUND, b"1"))
