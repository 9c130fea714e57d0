"""What stands behind a version: the shape of a table or an interface, as a JSON value. Names and types count, words do not.

Types are taken as they are written, so that every Python sees the same.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple

from loom import spi, values
from loom.core import arms, block, gate_options, state
from loom.core.facts import UserEvent
from loom.core.json import JsonObject
from loom.core.views import OpenGate
from loom.driving import state_codec
from loom.kernel import context, fold
from loom.kernel.fold import EVENTS, RULES, USER_PREFIX, EventType
from loom.spi import (
    admission_store,
    archive_store,
    authorizer,
    change_feed,
    clock,
    content_store,
    event_fork,
    event_import,
    event_store,
    event_trim,
    gate_hook,
    host,
    read_model_store,
    ref_store,
    schedule_store,
    scheduler,
    snapshot_store,
)

RECORDS: Final = [
    *(spi.EventRecord, spi.IndexRow, spi.Append, spi.Appended, spi.Conflict, spi.LaneNotEmpty, spi.Head),
    *(spi.ExecutionRow, spi.ExecutionQuery, spi.Request, spi.RequestTaken),
    *(spi.Lane, spi.LaneClosed, spi.LeaseChange, spi.Leased, spi.Send, spi.Claim),
    *(spi.Field, spi.Compared, spi.Among, spi.Known, spi.Not, spi.Every, spi.Some),
]
STORE_INTERFACES: Final = [
    *(spi.EventStore, spi.RequestLane, spi.ExecutionIndex, spi.LeaseStore, spi.EventFeed, spi.Storage),
]
CLOCK_INTERFACES: Final = [spi.Clock, spi.Entropy]
HOST_INTERFACES: Final = [spi.Host]


def event_schema(events: Mapping[str, EventType] = EVENTS) -> JsonObject:
    """Return the shape of the table of events: what may stand on a log, and under which rules."""
    rows = {
        name: {"payload": record(row.payload), "version": row.version, "after_end": row.after_end}
        for name, row in events.items()
    }
    return {"events": rows, "of authors": [USER_PREFIX, record(UserEvent)], "rules": dict(RULES)}


def kernel_abi(kind: type = context.Context) -> JsonObject:
    """Return the shape of what a flow is given."""
    parts = {"suspend options": record(gate_options.SuspendOptions)} | {
        each.__name__: interface(each) for each in (block.Scope, block.ScopeTask, arms.Gate, arms.Timer, arms.Topic)
    }
    return {**interface(kind), **parts}


def event_store_spi(interfaces: list[Any] = STORE_INTERFACES) -> JsonObject:
    """Return the shape of what a store implements, with the records that go in and out."""
    shapes = {each.__name__: interface(each) for each in interfaces}
    records = {each.__name__: record(each) for each in RECORDS}
    results = [each.__name__ for each in typing.get_args(spi.AppendResult)]
    aliases = {"RequestKind": list(typing.get_args(spi.RequestKind)), "AppendResult": results}
    return {"interfaces": shapes, "records": records, "aliases": aliases}


def clock_spi(interfaces: list[Any] = CLOCK_INTERFACES) -> JsonObject:
    """Return the shape of what time and chance come from."""
    return {each.__name__: interface(each) for each in interfaces}


def host_spi() -> JsonObject:
    """Return the shape of what knows the processes of a machine."""
    return {each.__name__: interface(each) for each in HOST_INTERFACES}


def scheduler_spi() -> JsonObject:
    """Return the shape of what decides who is next."""
    return {"Scheduler": interface(spi.Scheduler), "Job": record(spi.Job)}


def schedule_store_spi() -> JsonObject:
    """Return the shape of what keeps the record of schedules."""
    records = {each.__name__: record(each) for each in (spi.ScheduleCursor, spi.ScheduleEntry)}
    reasons = list(typing.get_args(spi.SkipReason))
    return {"ScheduleStore": interface(spi.ScheduleStore), "records": records, "SkipReason": reasons}


def event_trim_spi() -> JsonObject:
    """Return the shape of what takes logs out of a store."""
    interfaces = {each.__name__: interface(each) for each in (spi.EndedIndex, spi.EventTrim)}
    records = {each.__name__: record(each) for each in (spi.Below, spi.Deleted, spi.Kept, spi.Link)}
    return {"interfaces": interfaces, "records": records, "WhyKept": list(typing.get_args(spi.WhyKept))}


def change_feed_spi() -> JsonObject:
    """Return the shape of what tells what has been appended to any log."""
    return {"ChangeFeed": interface(spi.ChangeFeed), "Change": record(spi.Change)}


def snapshot_store_spi() -> JsonObject:
    """Return the shape of what keeps snapshots."""
    records = {each.__name__: record(each) for each in (spi.SnapshotHead, spi.Snapshot)}
    formats = list(typing.get_args(spi.SnapshotCodec))
    return {"SnapshotStore": interface(spi.SnapshotStore), "records": records, "SnapshotCodec": formats}


def read_model_store_spi() -> JsonObject:
    """Return the shape of what keeps rows of read models."""
    interfaces = {each.__name__: interface(each) for each in (spi.ReadModelStore, spi.ModelErasure)}
    records = {each.__name__: record(each) for each in (spi.ModelRow, spi.Behind, spi.ModelRows)}
    return {"interfaces": interfaces, "records": records}


def folded(events: Mapping[str, EventType] = EVENTS) -> JsonObject:
    """Return the shape of what a fold makes: the parts of a state, and which handler each type of event has."""
    parts = (state.ExecutionState, state.RunFacts, state.Attempts, state.Settled)
    handlers = {name: row.handler.__name__ for name, row in events.items()}
    return {"parts": {each.__name__: record(each) for each in parts}, "handlers": handlers}


def state_codec_shape(events: Mapping[str, EventType] = EVENTS) -> JsonObject:
    """Return the shape of what a snapshot writes down: the parts of a state, and the payloads of the events that it holds."""
    payloads = {name: record(row.payload) for name, row in events.items()}
    return {"parts": folded({})["parts"], "payloads": payloads, "of authors": record(UserEvent)}


def admission_store_spi() -> JsonObject:
    """Return the shape of what keeps runs in line before they begin."""
    records = {each.__name__: record(each) for each in (spi.Terms, spi.Quiet, spi.Slots, spi.Pace, spi.Admission)}
    stages = list(typing.get_args(spi.Stage))
    return {"AdmissionStore": interface(spi.AdmissionStore), "records": records, "Stage": stages}


def archive_store_spi() -> JsonObject:
    """Return the shape of what keeps what compaction removes."""
    return {"ArchiveStore": interface(spi.ArchiveStore), "records": {"ArchivedLife": record(spi.ArchivedLife)}}


def content_store_spi() -> JsonObject:
    """Return the shape of what keeps contents."""
    interfaces = (spi.ContentReader, spi.ContentWriter, spi.ContentKeeper, spi.ContentStore, spi.HasContent)
    records = {each.__name__: record(each) for each in (spi.Content, spi.Citer, spi.Citation)}
    return {"interfaces": {each.__name__: interface(each) for each in interfaces}, "records": records}


def event_fork_spi() -> JsonObject:
    """Return the shape of what begins a log with a copy of another."""
    return {
        "EventFork": interface(spi.EventFork),
        "Source": record(spi.Source),
        "SourceLacking": record(spi.SourceLacking),
        "Fork": record(spi.Fork),
    }


def event_import_spi() -> JsonObject:
    """Return the shape of what takes in whole logs."""
    return {"EventImport": interface(spi.EventImport), "Arrival": record(spi.Arrival), "Taken": record(spi.Taken)}


def ref_store_spi() -> JsonObject:
    """Return the shape of what keeps the names of branches."""
    return {"RefStore": interface(spi.RefStore), "Family": record(spi.Family), "RefMove": record(spi.RefMove)}


def authorizer_spi() -> JsonObject:
    """Return the shape of who decides what is allowed."""
    actions = list(typing.get_args(spi.Action))
    return {"ExecutionAuthorizer": interface(spi.ExecutionAuthorizer), "Action": actions}


def gate_hook_spi() -> JsonObject:
    """Return the shape of who is told what waits for a person."""
    return {"GateHook": interface(spi.GateHook), "GateNotice": record(spi.GateNotice), "OpenGate": record(OpenGate)}


def interface(kind: type) -> JsonObject:
    """Return the public members of *kind*: each with the ways it may be called, a property with its type."""
    members = members_of(kind)
    return {
        name: property_type(member) if isinstance(member, property) else all_ways(member)
        for name, member in members.items()
        if isinstance(member, property) or inspect.isfunction(member)
    }


def members_of(kind: type) -> JsonObject:
    """Return the public members of *kind* by name, with those of the parts that the kernel makes a context of."""
    parts = [
        part
        for part in reversed(kind.__mro__)
        if part is kind or part.__module__.startswith(("loom.core", "loom.kernel"))
    ]
    return {name: member for part in parts for name, member in vars(part).items() if not name.startswith("_")}


def property_type(member: property) -> str:
    function: Any = member.fget
    return str(inspect.get_annotations(function)["return"])


def all_ways(function: Any) -> list[JsonObject]:
    """Return the ways of the overloads of *function*, or its own."""
    return [ways(each) for each in typing.get_overloads(function) or [inspect.unwrap(function)]]


def ways(function: Any) -> JsonObject:
    """Return how *function* is called: its parameters in order without itself, what it returns, and whether it is awaited."""
    signature = inspect.signature(function)
    parameters = [
        [each.name, each.kind.name, str(each.annotation), each.default is not each.empty]
        for each in list(signature.parameters.values())[1:]
    ]
    returns = str(signature.return_annotation)
    return {"parameters": parameters, "returns": returns, "awaited": inspect.iscoroutinefunction(function)}


def record(kind: Any) -> list[Any]:
    """Return the fields of a record in order: name, type as it is written, and whether it may be left out."""
    hints = inspect.get_annotations(kind)
    if typing.is_typeddict(kind):
        left_out = set(hints) - kind.__required_keys__
    else:
        parameters = inspect.signature(kind).parameters
        left_out = {name for name, each in parameters.items() if each.default is not each.empty}
    return [[name, written(hint), name in left_out] for name, hint in hints.items()]


def written(hint: Any) -> str:
    """Return an annotation as its text; a class that looked at it may have wrapped it."""
    return str(getattr(hint, "__forward_arg__", hint))


def digest(shape: JsonObject) -> str:
    return values.digest(shape)


class Version(NamedTuple):
    """A version: the module that has the constant, and what makes the shape that it is of."""

    module: ModuleType
    shape: Callable[[], JsonObject]


VERSIONS: Final = {
    "EVENT_SCHEMA_VERSION": Version(fold, event_schema),
    "KERNEL_ABI": Version(context, kernel_abi),
    "EVENT_STORE_SPI_VERSION": Version(event_store, event_store_spi),
    "EVENT_TRIM_SPI_VERSION": Version(event_trim, event_trim_spi),
    "ARCHIVE_STORE_SPI_VERSION": Version(archive_store, archive_store_spi),
    "EVENT_FORK_SPI_VERSION": Version(event_fork, event_fork_spi),
    "EVENT_IMPORT_SPI_VERSION": Version(event_import, event_import_spi),
    "REF_STORE_SPI_VERSION": Version(ref_store, ref_store_spi),
    "AUTHORIZER_SPI_VERSION": Version(authorizer, authorizer_spi),
    "CHANGE_FEED_SPI_VERSION": Version(change_feed, change_feed_spi),
    "GATE_HOOK_SPI_VERSION": Version(gate_hook, gate_hook_spi),
    "CLOCK_SPI_VERSION": Version(clock, clock_spi),
    "HOST_SPI_VERSION": Version(host, host_spi),
    "SCHEDULER_SPI_VERSION": Version(scheduler, scheduler_spi),
    "ADMISSION_STORE_SPI_VERSION": Version(admission_store, admission_store_spi),
    "CONTENT_STORE_SPI_VERSION": Version(content_store, content_store_spi),
    "SCHEDULE_STORE_SPI_VERSION": Version(schedule_store, schedule_store_spi),
    "SNAPSHOT_STORE_SPI_VERSION": Version(snapshot_store, snapshot_store_spi),
    "READ_MODEL_STORE_SPI_VERSION": Version(read_model_store, read_model_store_spi),
    "FOLD_VERSION": Version(state, folded),
    "STATE_CODEC_VERSION": Version(state_codec, state_codec_shape),
}
"""By the name of the constant."""


def present(name: str) -> str:
    """Return the version as the code has it."""
    version: str = getattr(VERSIONS[name].module, name)
    return version
