"""The front door for plugin authors: what it has, and that coming in opens nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import loom
from loom import spi

GOLDEN = [
    "ADMISSION_STORE_SPI_VERSION",
    "CHANGE_FEED_SPI_VERSION",
    "Change",
    "ChangeFeed",
    "CursorUnknown",
    "Among",
    "Compared",
    "Every",
    "Field",
    "Known",
    "Not",
    "Some",
    "Where",
    "WhereInvalid",
    "fits",
    "parse_where",
    "Admission",
    "AdmissionStore",
    "Pace",
    "Quiet",
    "Slots",
    "Stage",
    "Terms",
    "ARCHIVE_STORE_SPI_VERSION",
    "AUTHORIZER_SPI_VERSION",
    "CLOCK_SPI_VERSION",
    "ContentRef",
    "MemoryContent",
    "CONTENT_STORE_SPI_VERSION",
    "Citation",
    "Citer",
    "Content",
    "ContentKeeper",
    "ContentMissing",
    "ContentReader",
    "ContentStore",
    "ContentWriter",
    "HasContent",
    "EVENT_FORK_SPI_VERSION",
    "EVENT_IMPORT_SPI_VERSION",
    "Arrival",
    "Brought",
    "EventImport",
    "Pages",
    "Taken",
    "reborn",
    "EventFork",
    "Family",
    "Fork",
    "READ_MODEL_STORE_SPI_VERSION",
    "Behind",
    "ModelErasure",
    "ModelRow",
    "ModelRows",
    "ReadModelStore",
    "REF_STORE_SPI_VERSION",
    "RefMove",
    "RefStore",
    "Forked",
    "Source",
    "SourceLacking",
    "EVENT_STORE_SPI_VERSION",
    "EVENT_TRIM_SPI_VERSION",
    "GATE_HOOK_SPI_VERSION",
    "GateHook",
    "GateNotice",
    "Below",
    "Deleted",
    "EndedIndex",
    "EventTrim",
    "Kept",
    "Link",
    "WhyKept",
    "HOST_SPI_VERSION",
    "SCHEDULER_SPI_VERSION",
    "NOBODY",
    "SCHEDULE_STORE_SPI_VERSION",
    "SNAPSHOT_STORE_SPI_VERSION",
    "Snapshot",
    "SnapshotCodec",
    "SnapshotHead",
    "SnapshotStore",
    "snapshot_digest",
    "Action",
    "Append",
    "AppendResult",
    "Appended",
    "ArchiveConflict",
    "ArchiveStore",
    "ArchivedLife",
    "Claim",
    "Clock",
    "Conflict",
    "Entropy",
    "EventFeed",
    "EventRecord",
    "EventStore",
    "ExecutionAuthorizer",
    "ExecutionId",
    "ExecutionIndex",
    "ExecutionQuery",
    "ExecutionRow",
    "Head",
    "Host",
    "Incarnation",
    "IndexRow",
    "Job",
    "Lane",
    "LaneClosed",
    "LaneNotEmpty",
    "LanePlace",
    "LeaseChange",
    "LeaseStore",
    "Leased",
    "MemoryStorage",
    "ReadPage",
    "Request",
    "RequestKind",
    "RequestLane",
    "RequestTaken",
    "ScheduleCursor",
    "ScheduleEntry",
    "ScheduleStore",
    "Scheduler",
    "SeededEntropy",
    "Send",
    "SkipReason",
    "Storage",
    "StoreCorrupt",
    "StoreError",
    "StoreNewer",
    "StoreNotFound",
    "StoreUnavailable",
    "SystemClock",
    "SystemEntropy",
    "SystemHost",
    "VirtualClock",
    "VirtualHost",
    "Wakes",
    "follow",
]
"""What a plugin may import. A name leaves this list only with a new major version of an SPI."""


def test_the_front_door_has_these_names_and_no_others() -> None:
    assert sorted(spi.__all__) == sorted(GOLDEN)
    assert dir(spi) == sorted(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_each_name_can_be_imported(name: str) -> None:
    assert getattr(spi, name) is not None


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"loom\.spi.*'BlobStore'"):
        spi.BlobStore  # noqa: B018  # what is refused


def test_what_both_front_doors_have_is_one_thing() -> None:
    for name in set(loom.__all__) & set(spi.__all__):
        assert getattr(loom, name) is getattr(spi, name)


OPENS_NOTHING = """
import sys, threading
import loom.spi
print(sorted(name for name in sys.modules if name.startswith("loom.") and name != "loom.spi"), threading.active_count())
loom.spi.EventStore
print(sorted({"aiosqlite", "sqlite3", "pydantic", "loom.kernel"} & set(sys.modules)))
"""


def test_importing_it_loads_nothing_and_opens_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", OPENS_NOTHING], capture_output=True, text=True, timeout=20, check=True)

    assert done.stdout == "[] 1\n[]\n"
