from __future__ import annotations

import subprocess
import sys

import pytest

import loom

GOLDEN = [
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
    "timer",
    "tool",
    "topic",
    "subscribe",
    "watch",
    "webhook",
]
"""What an app may import. A name leaves this list only with a new major version."""


@pytest.mark.proves("COM-06")
def test_the_front_door_has_these_names_and_no_others() -> None:
    assert sorted(loom.__all__) == sorted(GOLDEN)
    assert dir(loom) == sorted(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_each_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    thing = getattr(loom, name)

    assert thing.__doc__, name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'workflow'"):
        loom.workflow  # noqa: B018  # what is refused


OPENS_NOTHING = """
import sys, threading, loom
before = set(sys.modules)
loom.flow, loom.step, loom.Retry
heavy = {"aiosqlite", "sqlite3", "pydantic", "typer", "rich", "loom_cli"} & set(sys.modules)
print(len(before & {"loom.driving.runtime", "loom.plugins.sqlite"}), threading.active_count(), sorted(heavy))
"""


@pytest.mark.proves("KER-01")
def test_importing_it_loads_little_and_opens_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", OPENS_NOTHING], capture_output=True, text=True, timeout=20, check=True)

    assert done.stdout == "0 1 []\n"
