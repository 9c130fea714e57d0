"""Which flows, steps, tools, schedules and read models an app has, by id. Wired from explicit imports, read-only once made (spec P5)."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.flow import Flow
from loom.core.read_model import ReadModel
from loom.core.schedule import Schedule
from loom.core.step import Step
from loom.spi.gate_hook import GateHook


class DuplicateId(LoomError):
    """Two different declarations have one id."""

    code = "duplicate-id"
    hint = "Give one of them an id of its own: @loom.flow(id=...), @loom.step(id=...), loom.schedule(id, ...), @loom.read_model(id=...)."

    def __init__(self, *, kind: str, name: str, first: str, second: str) -> None:
        self.kind, self.name, self.first, self.second = kind, name, first, second
        super().__init__(f"two {kind}s have the id {name!r}: {first} and {second}")


class Registry:
    """Flows, steps, schedules, read models and hooks by id. Two processes with the same code build the same registry, and the same `digest`.

    Raises:
        DuplicateId: two declarations have one id.
        InvalidDeclaration: a schedule starts a flow that is not among *flows*.
    """

    def __init__(
        self,
        flows: Iterable[Flow[Any, Any]] = (),
        steps: Iterable[Step[Any, Any]] = (),
        schedules: Iterable[Schedule] = (),
        *,
        read_models: Iterable[ReadModel[Any]] = (),
        hooks: Mapping[str, GateHook] | None = None,
    ) -> None:
        self.flows: Mapping[str, Flow[Any, Any]] = MappingProxyType(_by_id("flow", flows))
        self.tools: Mapping[str, Step[Any, Any]] = MappingProxyType(_by_id("step", steps))
        self.schedules: Mapping[str, Schedule] = MappingProxyType(_schedules_by_id(schedules, self.flows))
        self.hooks: Mapping[str, GateHook] = MappingProxyType(dict(sorted((hooks or {}).items())))
        self.read_models: Mapping[str, ReadModel[Any]] = MappingProxyType(_by_id("read model", read_models))

    def digest(self) -> str:
        """Return a digest over kinds, ids, versions and signatures."""
        lines = [f"flow {flow.id} {flow.version}" for flow in self.flows.values()]
        lines += [f"step {step.id} {step.signature} {step.idempotent}" for step in self.tools.values()]
        lines += [f"schedule {each.id} {each.cron} {each.tz} {each.flow.id}" for each in self.schedules.values()]
        lines += [f"hook {name}" for name in self.hooks]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]


def _by_id(kind: str, declared: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in declared:
        known = found.setdefault(each.id, each)
        if known is not each and known.fn is not each.fn:
            raise DuplicateId(kind=kind, name=each.id, first=place_of(known.fn), second=place_of(each.fn))
    return dict(sorted(found.items()))


def _schedules_by_id(declared: Iterable[Schedule], flows: Mapping[str, Flow[Any, Any]]) -> dict[str, Schedule]:
    found: dict[str, Schedule] = {}
    for each in declared:
        known = found.setdefault(each.id, each)
        if known is not each:
            raise DuplicateId(kind="schedule", name=each.id, first=_told(known), second=_told(each))
        registered = flows.get(each.flow.id)
        if registered is None or registered.fn is not each.flow.fn:
            hint = f"Name {each.flow.id} in define_config(flows=[...])."
            raise InvalidDeclaration(
                f"the schedule {each.id} starts the flow {each.flow.id}, which is not registered", hint=hint
            )
    return dict(sorted(found.items()))


def _told(schedule: Schedule) -> str:
    return f"{schedule.cron!r} for {schedule.flow.id}"


def place_of(fn: Any) -> str:
    """Return `file:line` of where *fn* is written, its qualified name where that is unknown."""
    try:
        return f"{inspect.getsourcefile(fn)}:{inspect.getsourcelines(fn)[1]}"
    except (OSError, TypeError):
        return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', repr(fn))}"


def flows_from(*modules: ModuleType) -> list[Flow[Any, Any]]:
    """Return every flow that the statically imported *modules* hold, by shape, each once (ADR 0007 of the spec)."""
    return list(dict.fromkeys(v for m in modules for v in vars(m).values() if isinstance(v, Flow)))


def steps_from(*modules: ModuleType) -> list[Step[Any, Any]]:
    """Return every step and tool that *modules* hold, by shape, each once."""
    found = (v for m in modules for v in vars(m).values() if isinstance(v, Step))
    return list({step.fn: step for step in found}.values())
