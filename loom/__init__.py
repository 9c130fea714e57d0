"""Loom: durable, replayable flows in plain Python.

This is all that an app imports; everything else is private. Names are imported when they are first used, so that
`import loom` is fast and opens nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loom.app.config import LoomApp, define_config
    from loom.coordination.children import Child, await_all, await_child, await_children, spawn
    from loom.coordination.live_query import watch
    from loom.coordination.saga import saga
    from loom.coordination.subscribing import subscribe
    from loom.core.arms import gate, timer, topic
    from loom.core.block import Scope, ScopeTask
    from loom.core.choice import Choice
    from loom.core.claims import ClaimCheck, Claimed
    from loom.core.envelope import EventEnvelope
    from loom.core.errors import LoomError
    from loom.core.failures import (
        BranchWasCut,
        Cancelled,
        ChildFailed,
        CompensationFailed,
        DecisionFailed,
        FailureRecord,
        GateTimedOut,
        NestingTooDeep,
        ReceiveTimedOut,
        ScopeTimedOut,
        StepFailed,
        TypedFailure,
        fail,
    )
    from loom.core.flow import Flow, flow
    from loom.core.middleware import EffectContext
    from loom.core.outcome import Outcome
    from loom.core.read_model import ReadModel, read_model
    from loom.core.retention import PinPredicate, RetentionPolicy, retention_policy
    from loom.core.retry import Retry
    from loom.core.schedule import CatchUp, Schedule, schedule
    from loom.core.starts import Debounce, Limit, Rate, Starts
    from loom.core.state import ExecutionState
    from loom.core.step import Step, StepContext, step, tool
    from loom.core.tally import Selected
    from loom.driving.migrating import Carried
    from loom.driving.runtime import WorkflowRuntime
    from loom.kernel.context import Context
    from loom.plugins.files import file_content
    from loom.plugins.http import webhook
    from loom.plugins.postgres import postgres_storage
    from loom.plugins.sqlite import sqlite_storage
    from loom.spi.memory import MemoryStorage

__all__ = [
    "BranchWasCut",
    "Cancelled",
    "Carried",
    "CatchUp",
    "Child",
    "ChildFailed",
    "Choice",
    "ClaimCheck",
    "Claimed",
    "CompensationFailed",
    "Context",
    "Debounce",
    "DecisionFailed",
    "EffectContext",
    "EventEnvelope",
    "ExecutionState",
    "FailureRecord",
    "Flow",
    "GateTimedOut",
    "Limit",
    "LoomApp",
    "LoomError",
    "MemoryStorage",
    "NestingTooDeep",
    "Outcome",
    "PinPredicate",
    "Rate",
    "ReadModel",
    "ReceiveTimedOut",
    "RetentionPolicy",
    "Retry",
    "Schedule",
    "Scope",
    "ScopeTask",
    "ScopeTimedOut",
    "Selected",
    "Starts",
    "Step",
    "StepContext",
    "StepFailed",
    "TypedFailure",
    "WorkflowRuntime",
    "await_all",
    "await_child",
    "await_children",
    "define_config",
    "fail",
    "file_content",
    "flow",
    "gate",
    "postgres_storage",
    "read_model",
    "retention_policy",
    "saga",
    "schedule",
    "spawn",
    "sqlite_storage",
    "step",
    "subscribe",
    "timer",
    "tool",
    "topic",
    "watch",
    "webhook",
]

_HOMES = {
    "Cancelled": "loom.core.failures",
    "BranchWasCut": "loom.core.failures",
    "Carried": "loom.driving.migrating",
    "CatchUp": "loom.core.schedule",
    "Child": "loom.coordination.children",
    "ChildFailed": "loom.core.failures",
    "Choice": "loom.core.choice",
    "ClaimCheck": "loom.core.claims",
    "Claimed": "loom.core.claims",
    "CompensationFailed": "loom.core.failures",
    "Context": "loom.kernel.context",
    "Debounce": "loom.core.starts",
    "DecisionFailed": "loom.core.failures",
    "EffectContext": "loom.core.middleware",
    "EventEnvelope": "loom.core.envelope",
    "ExecutionState": "loom.core.state",
    "FailureRecord": "loom.core.failures",
    "Flow": "loom.core.flow",
    "GateTimedOut": "loom.core.failures",
    "Limit": "loom.core.starts",
    "LoomApp": "loom.app.config",
    "LoomError": "loom.core.errors",
    "MemoryStorage": "loom.spi.memory",
    "NestingTooDeep": "loom.core.failures",
    "Outcome": "loom.core.outcome",
    "Rate": "loom.core.starts",
    "ReadModel": "loom.core.read_model",
    "ReceiveTimedOut": "loom.core.failures",
    "PinPredicate": "loom.core.retention",
    "RetentionPolicy": "loom.core.retention",
    "Retry": "loom.core.retry",
    "Schedule": "loom.core.schedule",
    "Starts": "loom.core.starts",
    "Scope": "loom.core.block",
    "ScopeTask": "loom.core.block",
    "ScopeTimedOut": "loom.core.failures",
    "Selected": "loom.core.tally",
    "Step": "loom.core.step",
    "StepContext": "loom.core.step",
    "StepFailed": "loom.core.failures",
    "TypedFailure": "loom.core.failures",
    "WorkflowRuntime": "loom.driving.runtime",
    "await_all": "loom.coordination.children",
    "await_child": "loom.coordination.children",
    "await_children": "loom.coordination.children",
    "define_config": "loom.app.config",
    "fail": "loom.core.failures",
    "file_content": "loom.plugins.files",
    "flow": "loom.core.flow",
    "gate": "loom.core.arms",
    "postgres_storage": "loom.plugins.postgres",
    "read_model": "loom.core.read_model",
    "retention_policy": "loom.core.retention",
    "saga": "loom.coordination.saga",
    "schedule": "loom.core.schedule",
    "spawn": "loom.coordination.children",
    "sqlite_storage": "loom.plugins.sqlite",
    "step": "loom.core.step",
    "timer": "loom.core.arms",
    "topic": "loom.core.arms",
    "tool": "loom.core.step",
    "watch": "loom.coordination.live_query",
    "subscribe": "loom.coordination.subscribing",
    "webhook": "loom.plugins.http",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("loom-runtime")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'loom' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
