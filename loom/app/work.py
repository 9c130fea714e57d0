"""The worker of an app: what it drives is the app's, in turn over flows or tenants, with the app's schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import orjson

from loom.app.registry import Registry
from loom.compute.scheduling import FairScheduler
from loom.core.errors import InvalidDeclaration
from loom.driving.errors import ExecutionAlreadyExists
from loom.driving.runtime import WorkflowRuntime
from loom.services.gate_hooks import GateWatch
from loom.services.read_models import Keeping, ReadModels
from loom.services.scheduling import ScheduledStart, Scheduling, Starter, StartResult
from loom.services.worker import POLL_S, Report, Worker, WorkerOptions
from loom.spi.event_store import ExecutionRow


class WorkOptions(TypedDict, total=False):
    """What `LoomApp.worker` takes; see there."""

    flows: Sequence[str]
    max_drives: int
    poll_s: float
    until_idle: bool
    tenant: str
    weights: Mapping[str, int]
    told: Callable[[Report], None]


def worker_of(
    runtime: WorkflowRuntime, registry: Registry, models: ReadModels | None = None, /, **given: Unpack[WorkOptions]
) -> Worker:
    """Return a worker for an app; see `LoomApp.worker`."""
    if unknown := set(given) - set(WorkOptions.__annotations__):
        raise TypeError(f"worker() takes no {', '.join(sorted(unknown))}")
    poll_s, max_drives = given.get("poll_s", POLL_S), given.get("max_drives", 100)
    if not 0 < poll_s < float("inf"):
        raise InvalidDeclaration(f"poll_s={poll_s}: a number of seconds above zero")
    options = WorkerOptions(
        flows=[runtime.flow(flow).id for flow in given.get("flows", ())] or list(registry.flows),
        max_drives=max_drives,
        poll_s=poll_s,
        until_idle=given.get("until_idle", False),
        key_of=_attribute(given["tenant"]) if "tenant" in given else _flow,
    )
    return Worker(
        runtime.claims,
        options,
        scheduler=FairScheduler(max_drives, weights=given.get("weights")),
        told=given.get("told", lambda report: None),
        ticking=_scheduling(runtime, registry) if registry.schedules else None,
        watching=GateWatch(registry.hooks, storage=runtime.storage, start=_starter(runtime), clock=runtime.clock)
        if registry.hooks
        else None,
        clock=runtime.clock,
        keeping=_keeping(runtime, registry, models),
    )


def _keeping(runtime: WorkflowRuntime, registry: Registry, models: ReadModels | None) -> Keeping | None:
    if not registry.read_models:
        return None
    if models is None:
        models = ReadModels(runtime.storage, registry.read_models.values())
        runtime.listen(models.note)
    return Keeping(models)


def _starter(runtime: WorkflowRuntime) -> Starter:
    async def begin(start: ScheduledStart) -> StartResult:
        options: Any = {"principal": start.principal, "attributes": start.attributes}
        try:
            await runtime.enqueue(start.flow, start.input, id=start.execution_id, **options)
        except ExecutionAlreadyExists:
            return "already there"
        return "started"

    return begin


def _scheduling(runtime: WorkflowRuntime, registry: Registry) -> Scheduling:
    schedules = registry.schedules.values()
    return Scheduling(schedules, storage=runtime.storage, clock=runtime.clock, start=_starter(runtime))


def _flow(row: ExecutionRow) -> str:
    return row.index.flow


def _attribute(name: str) -> Callable[[ExecutionRow], str]:
    """Return what gives the search attribute *name* of a run as text, empty where it has none."""

    def value_of(row: ExecutionRow) -> str:
        return str(orjson.loads(row.index.attributes).get(name, ""))

    return value_of
