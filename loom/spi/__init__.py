"""What an edge of Loom implements: the interfaces, each with its version, and the in-memory implementation of each.

This is all that a plugin imports of Loom beside `loom` itself. Names are imported when they are first used: importing this
opens nothing. `loom.devtools.conformance` has the kit that every implementation of an interface passes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loom.core.ids import ExecutionId, Incarnation
    from loom.spi.admission_store import (
        ADMISSION_STORE_SPI_VERSION,
        Admission,
        AdmissionStore,
        Pace,
        Quiet,
        Slots,
        Stage,
        Terms,
    )
    from loom.spi.authorizer import AUTHORIZER_SPI_VERSION, Action, ExecutionAuthorizer
    from loom.spi.clock import (
        CLOCK_SPI_VERSION,
        Clock,
        Entropy,
        SeededEntropy,
        SystemClock,
        SystemEntropy,
        VirtualClock,
    )
    from loom.spi.errors import StoreCorrupt, StoreError, StoreNewer, StoreNotFound, StoreUnavailable
    from loom.spi.event_store import (
        EVENT_STORE_SPI_VERSION,
        NOBODY,
        Append,
        Appended,
        AppendResult,
        Claim,
        Conflict,
        EventFeed,
        EventRecord,
        EventStore,
        ExecutionIndex,
        ExecutionQuery,
        ExecutionRow,
        Head,
        IndexRow,
        Lane,
        LaneClosed,
        LaneNotEmpty,
        LeaseChange,
        Leased,
        LeaseStore,
        Request,
        RequestKind,
        RequestLane,
        RequestTaken,
        Send,
        Storage,
    )
    from loom.spi.event_trim import EVENT_TRIM_SPI_VERSION, Deleted, EndedIndex, EventTrim, Kept, Link, WhyKept
    from loom.spi.feed import ReadPage, Wakes, follow
    from loom.spi.host import HOST_SPI_VERSION, Host, SystemHost, VirtualHost
    from loom.spi.memory import MemoryStorage
    from loom.spi.schedule_store import (
        SCHEDULE_STORE_SPI_VERSION,
        ScheduleCursor,
        ScheduleEntry,
        ScheduleStore,
        SkipReason,
    )
    from loom.spi.scheduler import SCHEDULER_SPI_VERSION, Job, Scheduler

__maturity__ = "beta"

__all__ = [
    "ADMISSION_STORE_SPI_VERSION",
    "AUTHORIZER_SPI_VERSION",
    "CLOCK_SPI_VERSION",
    "EVENT_STORE_SPI_VERSION",
    "EVENT_TRIM_SPI_VERSION",
    "HOST_SPI_VERSION",
    "NOBODY",
    "SCHEDULER_SPI_VERSION",
    "SCHEDULE_STORE_SPI_VERSION",
    "Action",
    "Admission",
    "AdmissionStore",
    "Append",
    "AppendResult",
    "Appended",
    "Claim",
    "Clock",
    "Conflict",
    "Deleted",
    "EndedIndex",
    "Entropy",
    "EventFeed",
    "EventRecord",
    "EventStore",
    "EventTrim",
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
    "Kept",
    "Lane",
    "LaneClosed",
    "LaneNotEmpty",
    "LeaseChange",
    "LeaseStore",
    "Leased",
    "Link",
    "MemoryStorage",
    "Pace",
    "Quiet",
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
    "Slots",
    "Stage",
    "Storage",
    "StoreCorrupt",
    "StoreError",
    "StoreNewer",
    "StoreNotFound",
    "StoreUnavailable",
    "SystemClock",
    "SystemEntropy",
    "SystemHost",
    "Terms",
    "VirtualClock",
    "VirtualHost",
    "Wakes",
    "WhyKept",
    "follow",
]

_HOMES = {
    "ADMISSION_STORE_SPI_VERSION": "loom.spi.admission_store",
    "Admission": "loom.spi.admission_store",
    "AdmissionStore": "loom.spi.admission_store",
    "Pace": "loom.spi.admission_store",
    "Quiet": "loom.spi.admission_store",
    "Slots": "loom.spi.admission_store",
    "Stage": "loom.spi.admission_store",
    "Terms": "loom.spi.admission_store",
    "AUTHORIZER_SPI_VERSION": "loom.spi.authorizer",
    "CLOCK_SPI_VERSION": "loom.spi.clock",
    "EVENT_STORE_SPI_VERSION": "loom.spi.event_store",
    "SCHEDULER_SPI_VERSION": "loom.spi.scheduler",
    "NOBODY": "loom.spi.event_store",
    "SCHEDULE_STORE_SPI_VERSION": "loom.spi.schedule_store",
    "Action": "loom.spi.authorizer",
    "Append": "loom.spi.event_store",
    "AppendResult": "loom.spi.event_store",
    "Appended": "loom.spi.event_store",
    "Claim": "loom.spi.event_store",
    "Clock": "loom.spi.clock",
    "Conflict": "loom.spi.event_store",
    "Entropy": "loom.spi.clock",
    "EventFeed": "loom.spi.event_store",
    "EventRecord": "loom.spi.event_store",
    "EventStore": "loom.spi.event_store",
    "ExecutionAuthorizer": "loom.spi.authorizer",
    "Deleted": "loom.spi.event_trim",
    "EVENT_TRIM_SPI_VERSION": "loom.spi.event_trim",
    "EndedIndex": "loom.spi.event_trim",
    "EventTrim": "loom.spi.event_trim",
    "Kept": "loom.spi.event_trim",
    "Link": "loom.spi.event_trim",
    "WhyKept": "loom.spi.event_trim",
    "ExecutionId": "loom.core.ids",
    "ExecutionIndex": "loom.spi.event_store",
    "ExecutionQuery": "loom.spi.event_store",
    "ExecutionRow": "loom.spi.event_store",
    "HOST_SPI_VERSION": "loom.spi.host",
    "Head": "loom.spi.event_store",
    "Host": "loom.spi.host",
    "Incarnation": "loom.core.ids",
    "IndexRow": "loom.spi.event_store",
    "Job": "loom.spi.scheduler",
    "Lane": "loom.spi.event_store",
    "LaneClosed": "loom.spi.event_store",
    "LaneNotEmpty": "loom.spi.event_store",
    "LeaseChange": "loom.spi.event_store",
    "LeaseStore": "loom.spi.event_store",
    "Leased": "loom.spi.event_store",
    "MemoryStorage": "loom.spi.memory",
    "ReadPage": "loom.spi.feed",
    "Request": "loom.spi.event_store",
    "RequestKind": "loom.spi.event_store",
    "RequestLane": "loom.spi.event_store",
    "RequestTaken": "loom.spi.event_store",
    "ScheduleCursor": "loom.spi.schedule_store",
    "ScheduleEntry": "loom.spi.schedule_store",
    "ScheduleStore": "loom.spi.schedule_store",
    "Scheduler": "loom.spi.scheduler",
    "SeededEntropy": "loom.spi.clock",
    "Send": "loom.spi.event_store",
    "SkipReason": "loom.spi.schedule_store",
    "Storage": "loom.spi.event_store",
    "StoreCorrupt": "loom.spi.errors",
    "StoreError": "loom.spi.errors",
    "StoreNewer": "loom.spi.errors",
    "StoreNotFound": "loom.spi.errors",
    "StoreUnavailable": "loom.spi.errors",
    "SystemClock": "loom.spi.clock",
    "SystemEntropy": "loom.spi.clock",
    "SystemHost": "loom.spi.host",
    "VirtualClock": "loom.spi.clock",
    "VirtualHost": "loom.spi.host",
    "Wakes": "loom.spi.feed",
    "follow": "loom.spi.feed",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'loom.spi' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
