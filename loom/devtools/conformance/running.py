"""Holding an adapter to its interface without a test runner: what `loom conformance` does.

The kits are plain classes of coroutines, so they run here as they do under pytest: each check with an adapter of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.errors import InvalidDeclaration
from loom.devtools.conformance.admission_store import AdmissionStoreConformance
from loom.devtools.conformance.archive_store import ArchiveStoreConformance
from loom.devtools.conformance.authorizer import AuthorizerConformance
from loom.devtools.conformance.change_feed import ChangeFeedConformance
from loom.devtools.conformance.clock import ClockConformance, EntropyConformance
from loom.devtools.conformance.content_store import ContentStoreConformance
from loom.devtools.conformance.event_fork import EventForkConformance
from loom.devtools.conformance.event_import import EventImportConformance
from loom.devtools.conformance.event_trim import EventTrimConformance
from loom.devtools.conformance.gate_hook import GateHookConformance
from loom.devtools.conformance.host import HostConformance
from loom.devtools.conformance.read_model_store import ReadModelStoreConformance
from loom.devtools.conformance.ref_store import RefStoreConformance
from loom.devtools.conformance.schedule_store import ScheduleStoreConformance
from loom.devtools.conformance.scheduler import SchedulerConformance
from loom.devtools.conformance.snapshot_store import SnapshotStoreConformance
from loom.devtools.conformance.storage import StorageConformance
from loom.spi.clock import VirtualClock

CHECK_S: Final = 60.0
"""How long one check may take."""

Factory = Callable[..., Any]
"""Returns an adapter, or an awaitable or an async context manager of one. It takes what it wants of *folder*, an empty
folder, and *clock*, the time that the adapter is to go by; the adapters of one check are given the same."""


class Kit(NamedTuple):
    """The checks of one interface, and the name by which they ask for the adapter."""

    checks: type[Any]
    asks_for: str


KITS: Final[Mapping[str, Kit]] = {
    "event-store": Kit(StorageConformance, "store"),
    "event-fork": Kit(EventForkConformance, "store"),
    "event-import": Kit(EventImportConformance, "store"),
    "ref-store": Kit(RefStoreConformance, "store"),
    "schedule-store": Kit(ScheduleStoreConformance, "store"),
    "snapshot-store": Kit(SnapshotStoreConformance, "store"),
    "read-model-store": Kit(ReadModelStoreConformance, "store"),
    "admission-store": Kit(AdmissionStoreConformance, "store"),
    "event-trim": Kit(EventTrimConformance, "store"),
    "archive-store": Kit(ArchiveStoreConformance, "store"),
    "content-store": Kit(ContentStoreConformance, "store"),
    "change-feed": Kit(ChangeFeedConformance, "store"),
    "clock": Kit(ClockConformance, "clock"),
    "entropy": Kit(EntropyConformance, "entropy"),
    "host": Kit(HostConformance, "host"),
    "scheduler": Kit(SchedulerConformance, "scheduler"),
    "authorizer": Kit(AuthorizerConformance, "authorizer"),
    "gate-hook": Kit(GateHookConformance, "gate_hook"),
}


class Check(NamedTuple):
    """One check and what came of it: *failure* is empty where it holds, else the line of the kit and what was raised."""

    name: str
    failure: str = ""
    where: str = ""


def kit_of(kind: str) -> Kit:
    """Return the kit of *kind*.

    Raises:
        InvalidDeclaration: there is none; what is near is named.
    """
    kit = KITS.get(kind)
    if kit is None:
        near = get_close_matches(kind, KITS)
        hint = f"Did you mean {', '.join(near)}?" if near else f"There are {', '.join(KITS)}."
        raise InvalidDeclaration(f"there is no conformance kit {kind!r}", hint=hint)
    return kit


def names_of(kit: Kit) -> Sequence[str]:
    """Return the names of the checks of *kit*, in the order in which they are written."""
    lines = [vars(part) for part in reversed(kit.checks.__mro__)]
    return list(dict.fromkeys(name for names in lines for name in names if name.startswith("test_")))


def wants_of(factory: Factory) -> Sequence[str]:
    """Return which of `folder` and `clock` the *factory* is called with.

    Raises:
        InvalidDeclaration: it cannot be called, or needs something else.
    """
    if not callable(factory):
        raise InvalidDeclaration(f"{factory!r} is no factory", hint="Name a function or class that makes the adapter.")
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:  # a class written in C
        return []
    given = [name for name in ("folder", "clock") if name in parameters]
    needed = [
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD} and name not in given
    ]
    if needed:
        raise InvalidDeclaration(
            f"the factory needs {', '.join(needed)}, and a kit gives only folder and clock",
            hint="Wrap it in a function that takes those it wants of the two.",
        )
    return given


async def run(kind: str, factory: Factory, *, told: Callable[[Check], None] = lambda check: None) -> Sequence[Check]:
    """Return what came of every check of a kind with adapters that *factory* makes; *told* is told of each as it ends.

    Raises:
        InvalidDeclaration: there is no such kind, or the factory cannot be used.
    """
    kit, wants = kit_of(kind), wants_of(factory)
    checks = []
    for name in names_of(kit):
        check = await _checked(kit, name, factory, wants)
        checks.append(check)
        told(check)
    return checks


async def _checked(kit: Kit, name: str, factory: Factory, wants: Sequence[str]) -> Check:
    limit = asyncio.timeout(CHECK_S)
    try:
        async with limit:
            await _run_one(kit, name, factory, wants)
    except Exception as error:  # noqa: BLE001  # the adapter is arbitrary code
        failure = f"it did not end within {CHECK_S:g} s" if limit.expired() else _words(error)
        return Check(name, failure, _where(error))
    return Check(name)


async def _run_one(kit: Kit, name: str, factory: Factory, wants: Sequence[str]) -> None:
    check = getattr(kit.checks(), name)
    clock = VirtualClock()
    with tempfile.TemporaryDirectory(prefix="loom-", ignore_cleanup_errors=True) as folder:
        offered = {"folder": Path(folder), "clock": clock}
        async with _made(factory, {want: offered[want] for want in wants}) as adapter:
            fixtures = {"clock": clock, kit.asks_for: adapter}
            await check(**{fixture: fixtures[fixture] for fixture in inspect.signature(check).parameters})


@asynccontextmanager
async def _made(factory: Factory, given: Mapping[str, Any]) -> AsyncIterator[Any]:
    made = factory(**given)
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        async with made as adapter:
            yield adapter
        return
    try:
        yield made
    finally:
        closed = made.close() if hasattr(made, "close") else None
        if inspect.isawaitable(closed):
            await closed


def _words(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    kind = type(error).__name__
    if isinstance(error, AssertionError):
        return text or "this does not hold"
    return f"{kind}: {text}" if text else kind


def _where(error: BaseException) -> str:
    """Return the line of the kit that failed, as text: what it checks is written there."""
    kit = str(Path(__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(kit)]
    ours = [frame for frame in frames if frame.filename != __file__]
    if not ours:
        return ""
    last = ours[-1]
    return f"{Path(last.filename).name}:{last.lineno}: {(last.line or '').strip()}"
