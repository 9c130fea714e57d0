"""`define_config`: one static value in, a wired `LoomApp` out (spec D6)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from types import ModuleType, TracebackType
from typing import Any, Final, Self, Unpack, cast

from loom.app.registry import Registry, flows_from, steps_from
from loom.app.resources import ResourceFactory, Resources
from loom.app.work import WorkOptions, worker_of
from loom.core.changes import OnChange
from loom.core.changes import on_change as checked
from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.flow import Flow
from loom.core.middleware import Middleware
from loom.core.read_model import ReadModel
from loom.core.schedule import Schedule
from loom.core.step import Step
from loom.driving.effects import EffectRuntime
from loom.driving.runtime import RuntimeOptions, WorkflowRuntime
from loom.driving.simulating import Simulator, simulators_of, stand_ins_of
from loom.driving.snapshot_codecs import checked_codec, checked_every
from loom.rings.citing import ContentCiting
from loom.rings.claim_check import ClaimChecking
from loom.services.gate_hooks import checked_hooks, hook_flows, hook_resources
from loom.services.read_models import ReadModels
from loom.services.worker import Worker
from loom.spi.authorizer import AUTHORIZER_SPI_VERSION, ExecutionAuthorizer
from loom.spi.clock import CLOCK_SPI_VERSION, Clock, Entropy, SystemClock, VirtualClock
from loom.spi.content_store import CONTENT_STORE_SPI_VERSION, ContentStore, HasContent
from loom.spi.event_store import EVENT_STORE_SPI_VERSION, Storage
from loom.spi.gate_hook import GateHook
from loom.spi.guarding import BodyGuard
from loom.spi.host import HOST_SPI_VERSION, Host
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import SnapshotCodec
from loom.spi.versions import require


class ManifestWarning(UserWarning):
    """The code scan saw a flow that nobody registered."""


class SimulatorsWarning(UserWarning):
    """Simulators were declared where nothing is kept, as for a test: they stand in for steps in forks alone."""


class LoomApp:
    """A wired app: its runtime, its storage, its registry. `async with app:` closes all it opened."""

    def __init__(
        self,
        *,
        runtime: WorkflowRuntime,
        registry: Registry,
        resources: Resources,
        content: ContentStore | None = None,
    ) -> None:
        self.runtime, self.registry, self.resources, self.content = runtime, registry, resources, content
        self.read_models = ReadModels(runtime.storage, registry.read_models.values())
        if registry.read_models:
            runtime.listen(self.read_models.note)

    @property
    def storage(self) -> Storage:
        """Where the logs live."""
        return self.runtime.storage

    def worker(self, **options: Unpack[WorkOptions]) -> Worker:
        """Return a worker that drives what can go on in the app's storage: `await app.worker().run()`.

        It takes *flows* (all of the app's unless named), drives up to *max_drives* (100) runs at once, looks every *poll_s*
        (0.25) seconds, and with *until_idle* returns when nothing is left to do. Where more could run than may, flows have
        their turn, or the values of the search attribute *tenant*; *weights* give some of them more than one place a turn.
        *told* is told of all it does.

        Raises:
            UnknownFlow: one of *flows* is not registered.
            InvalidDeclaration: an option cannot be used.
        """
        return worker_of(self.runtime, self.registry, self.read_models, **options)

    def guarded(self, guard: BodyGuard) -> LoomApp:
        """Return this app with the bodies of its flows watched by *guard*: on the same storage, with the same resources."""
        return self._with(self.storage, self.content, guard=guard)

    def with_steps(self, stand_ins: Mapping[Step[Any, Any], Callable[..., Any]]) -> LoomApp:
        """Return this app with functions in the place of what steps and tools do, for a test: `app.with_steps({ship: fake_ship})`.

        A stand-in is plain or `async`, takes what the step takes, by the same names (or `**given`), and its `StepContext` if it wants it.
        All else is the step's: id, retries, timeout, declared failures, what is recorded. On the same storage, with the same
        resources; every run of this app calls them, by whichever verb it is driven.

        Raises:
            InvalidDeclaration: a key is no step, a value no function, or the two take different parameters.
        """
        return self._with(
            self.storage, self.content, effects=self.runtime.effects.with_stand_ins(stand_ins_of(stand_ins))
        )

    def on(self, storage: Storage) -> LoomApp:
        """Return this app with its flows and resources on another *storage*, and the contents that are there."""
        contents = content_of(storage)
        return self._with(storage, contents, citing=ContentCiting(contents) if contents is not None else None)

    def _with(self, storage: Storage, content: ContentStore | None, **changed: object) -> LoomApp:
        around, was = self.runtime.surroundings, self.runtime
        kept: Any = {each.name: getattr(around, each.name) for each in fields(around) if each.name != "storage"}
        runtime = WorkflowRuntime(storage, flows=was.flows, tools=was.tools, **(kept | changed))
        return LoomApp(runtime=runtime, registry=self.registry, resources=self.resources, content=content)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Interrupt what is driven, then close resources and storage."""
        await self.runtime.close()
        await self.resources.close()
        if self.content is not None:
            await self.content.close()


def define_config(
    *,
    flows: Sequence[Flow[Any, Any]] = (),
    flow_modules: Sequence[ModuleType] = (),
    steps: Sequence[Step[Any, Any]] = (),
    step_modules: Sequence[ModuleType] = (),
    schedules: Sequence[Schedule] = (),
    read_models: Sequence[ReadModel[Any]] = (),
    storage: Storage | None = None,
    middleware: Sequence[Middleware] = (),
    resources: Mapping[str, ResourceFactory] | None = None,
    manifest: Iterable[Mapping[str, Any]] | None = None,
    write_behind: bool = False,
    grace_s: float = 10.0,
    lease_s: float = 15.0,
    nesting_max: int = 32,
    on_change: OnChange = "check",
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    authorizer: ExecutionAuthorizer | None = None,
    host: Host | None = None,
    on_event: Callable[[EventEnvelope[Any]], None] | None = None,
    on_durable_event: Callable[[EventEnvelope[Any]], None] | None = None,
    on_stream: Callable[[str, str, Any], None] | None = None,
    on_warn: Callable[[str], None] | None = None,
    guard: BodyGuard | None = None,
    simulators: Mapping[Any, Simulator] | None = None,
    content: ContentStore | None = None,
    snapshot_every: int | None = None,
    snapshot_codec: SnapshotCodec = "json",
    gate_hooks: Mapping[str, GateHook] | None = None,
) -> LoomApp:
    """Wire an app from explicit imports and return it. Nothing is opened before the first verb.

    *flow_modules* and *step_modules* register by shape what statically imported modules hold; steps are needed there only
    for `ctx.execute`. *schedules* are for a worker to start; their flows have to be registered. *read_models* are kept current by a worker (docs/guide/rows.md). *storage* is `loom.sqlite_storage()` or any other store; without one, logs live in memory and
    end with the process. *resources* are factories of async context managers, opened once a process. *manifest* is the
    `MANIFEST` of a generated `loom_gen.py`: a flow in it that is not registered is told through *on_warn* (a Python
    warning unless given). *write_behind* trades the default's guarantee, that no effect acts on what a crash can take
    back, for speed. *authorizer* says who may act on which run. A process that drives a run holds it for *lease_s* seconds at a
    time, longer than which no other waits for it should it be lost. *nesting_max* is how many ancestors a child run may have.
    *on_change* says what becomes of runs whose code has changed: `check` drives on what still fits, `refuse` none, `allow` is
    lenient about arguments.
    *simulators* are functions by the step (or its id) that they stand in for, in forks that are resumed with `simulate`, and nowhere
    else: any other run does its steps for real. What a test has in the place of steps is `app.with_steps({...})`.
    *guard* watches what the bodies of flows do themselves: `loom.devtools.strict.Strict()`, while developing. *content* is where
    results go that steps claim: unless given, where *storage* says (docs/guide/content.md).
    A store that keeps snapshots is given one of a long run when it parks, and after every *snapshot_every* events where that is
    asked for; *snapshot_codec* is `json`, or `zstd` with the extra of that name.
    *gate_hooks* are told by a worker of every gate that opens, each under a name that stays: `{"desk": loom.webhook("https://...")}`.

    Raises:
        DuplicateId: two declarations have one id; both places are told.
        InvalidDeclaration: a value is not what its key needs.
        SpiMismatch: an adapter was written against another version of its interface.
        CodecNotAvailable: *snapshot_codec* needs what is not installed.
        HooksNotKept: *storage* cannot tell what has changed, which *gate_hooks* need.
    """
    _refuse_others(flows, schedules, read_models)
    _tell(simulator_warnings(simulators or {}, storage), on_warn, SimulatorsWarning)
    storage = storage or MemoryStorage()
    hooks = checked_hooks(gate_hooks or {}, storage)
    own, tools = [*flows, *flows_from(*flow_modules), *hook_flows(hooks)], steps_from(*flow_modules, *step_modules)
    registry = Registry(own, [*steps, *tools], schedules, read_models=read_models, hooks=hooks)
    _tell(manifest_warnings(manifest or (), registry), on_warn, ManifestWarning)
    _require_versions(storage=storage, clock=clock, entropy=entropy, host=host, authorizer=authorizer, content=content)
    held = Resources({**(resources or {}), **hook_resources(hooks, storage, clock or SystemClock())})
    contents = content_of(storage) if content is None else content
    options: RuntimeOptions = {"resources": held.get, **_effects(middleware, contents)}
    options |= {"write_behind": write_behind, "grace_s": grace_s, "nesting_max": nesting_max}
    options |= _checked(lease_s, on_change, snapshot_every, snapshot_codec)
    options |= {"simulators": simulators_of(simulators or {})}
    options |= _given(on_event=on_event, on_durable_event=on_durable_event, on_stream=on_stream, guard=guard)
    options |= _given(clock=clock, entropy=entropy, host=host, authorizer=authorizer) | _lingering(clock)
    runtime = WorkflowRuntime(storage, flows=registry.flows, tools=registry.tools, **options)
    return LoomApp(runtime=runtime, registry=registry, resources=held, content=contents)


def _checked(lease_s: float, on_change: OnChange, every: int | None, codec: SnapshotCodec) -> RuntimeOptions:
    """Return the settings that only some values will do for."""
    snapshots: RuntimeOptions = {"snapshot_every": checked_every(every), "snapshot_codec": checked_codec(codec)}
    return {**snapshots, "lease_s": _positive("lease_s", lease_s), "on_change": checked(on_change, "define_config")}


def _lingering(clock: Clock | None) -> RuntimeOptions:
    """Return for how long drives wait in place: not for a clock that nobody moves meanwhile."""
    return {"linger_ms": 0} if isinstance(clock, VirtualClock) else {}


def _given(**adapters: object) -> RuntimeOptions:
    """Return what is there of what need not be; the rest is left to the runtime."""
    options: Any = {name: adapter for name, adapter in adapters.items() if adapter is not None}
    return cast("RuntimeOptions", options)


def _effects(middleware: Sequence[Middleware], contents: ContentStore | None) -> RuntimeOptions:
    """Return how effects are run, and what notes which *contents* they name."""
    if contents is None:
        return {"effects": EffectRuntime(middleware)}
    return {"effects": EffectRuntime(middleware, claims=ClaimChecking(contents)), "citing": ContentCiting(contents)}


def content_of(storage: Storage) -> ContentStore | None:
    """Return where the contents of the runs in *storage* live unless an app says otherwise, None: nowhere."""
    return storage.content_store() if isinstance(storage, HasContent) else None


def manifest_warnings(manifest: Iterable[Mapping[str, Any]], registry: Registry) -> list[str]:
    """Return a line for each flow of *manifest* (objects with `kind`, `id`, `module`) that is not registered."""
    return [
        f"the flow {entry['id']!r} of {entry.get('module', '?')} was generated but is not registered"
        for entry in manifest
        if entry.get("kind") == "flow" and entry["id"] not in registry.flows
    ]


_INTERFACES: Final = {
    "storage": ("event store", EVENT_STORE_SPI_VERSION),
    "clock": ("clock", CLOCK_SPI_VERSION),
    "entropy": ("clock", CLOCK_SPI_VERSION),
    "host": ("host", HOST_SPI_VERSION),
    "authorizer": ("authorizer", AUTHORIZER_SPI_VERSION),
    "content": ("content store", CONTENT_STORE_SPI_VERSION),
}


def _require_versions(**adapters: object) -> None:
    for name, adapter in adapters.items():
        require(adapter, *_INTERFACES[name])


def _refuse_others(flows: Iterable[object], schedules: Iterable[object], models: Iterable[object]) -> None:
    for flow in flows:
        if not isinstance(flow, Flow):
            raise InvalidDeclaration(f"flows holds {flow!r}, which is no flow", hint="Decorate it with @loom.flow.")
    for schedule in schedules:
        if not isinstance(schedule, Schedule):
            raise InvalidDeclaration(f"schedules holds {schedule!r}, which is none", hint="Make it with loom.schedule.")
    for model in models:
        if not isinstance(model, ReadModel):
            hint = "Decorate it with @loom.read_model."
            raise InvalidDeclaration(f"read_models holds {model!r}, which is none", hint=hint)


def _positive(name: str, seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise InvalidDeclaration(f"{name}={seconds}: a number of seconds above zero")
    return seconds


def simulator_warnings(simulators: Mapping[Any, Simulator], storage: Storage | None) -> list[str]:
    """Return a line where simulators look like the fakes of a test, which they are not: no store is named beside them."""
    if not simulators or storage is not None:
        return []
    told = "simulators stand in for steps in forks that are resumed with simulate=True; any other run does its steps for real"
    return [f"{told}. In a test, use app.with_steps({{step: fake}}); storage=MemoryStorage() says that forks are meant"]


def _tell(lines: Iterable[str], on_warn: Callable[[str], None] | None, category: type[UserWarning]) -> None:
    for line in lines:
        if on_warn is not None:
            on_warn(line)
        else:
            warnings.warn(category(line), stacklevel=3)
