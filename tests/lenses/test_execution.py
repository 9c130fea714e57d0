"""The view of an execution: what is asked of it, in the order and the tree in which the flow asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loom.lenses.execution import CallView, ExecutionView, execution_view
from loom.lenses.folding import fold_at
from loom.spi.memory import MemoryStorage
from tests.loom_cli.story import log_of, tell


@pytest.fixture
async def storage() -> MemoryStorage:
    storage = MemoryStorage()
    await tell(storage)
    return storage


async def view(storage: MemoryStorage, execution_id: str, n: int | None = None) -> ExecutionView:
    events = await log_of(storage, execution_id)
    return execution_view(fold_at(events, n), events)


def shape(calls: Sequence[CallView]) -> list[tuple[int, str, str]]:
    return [(call.depth, call.id, call.status) for call in calls]


async def test_calls_stand_in_the_order_asked_each_scope_before_its_branches(storage: MemoryStorage) -> None:
    seen = await view(storage, "refund-42")

    assert shape(seen.calls) == [
        (0, "assess_risk", "done"),
        (0, "map", "done"),
        (1, "map/0/fetch", "done"),
        (1, "map/1/fetch", "done"),
        (1, "map/2/fetch", "done"),
        (0, "model", "done"),
        (0, "claim_checked", "done"),
        (0, "approval", "waiting"),
    ]


async def test_a_step_tells_its_attempts_and_how_long_it_took(storage: MemoryStorage) -> None:
    step = (await view(storage, "refund-42")).calls[0]

    assert step.attempts == 2
    assert step.ended_at is not None
    assert step.ended_at - step.asked_at == 240
    assert step.outcome == {"start": 1, "result": 0.7}


async def test_between_two_attempts_a_step_rests_and_names_its_last_failure(storage: MemoryStorage) -> None:
    step = (await view(storage, "refund-42", 2)).calls[0]

    assert (step.status, step.attempts, step.end) == ("resting", 1, None)
    assert step.failure is not None
    assert step.failure["message"] == "the risk service is busy"


async def test_the_past_does_not_know_the_future(storage: MemoryStorage) -> None:
    seen = await view(storage, "refund-41", 8)

    assert (seen.status, seen.sequence, seen.result, seen.gates) == ("running", 8, None, ())
    assert [call.status for call in seen.calls] == ["done", "done", "done", "running", "running"]


async def test_an_answer_names_who_gave_it(storage: MemoryStorage) -> None:
    gate = (await view(storage, "refund-41")).of_kind("gate")[0]

    assert (gate.status, gate.by, gate.outcome["answer"]) == ("done", "bob", True)


async def test_a_failed_run_names_the_call_it_failed_in(storage: MemoryStorage) -> None:
    seen = await view(storage, "broken-1")

    assert (seen.status, seen.cause) == ("failed", "fetch")
    assert seen.calls[0].status == "failed"
    assert seen.calls[0].attempts == 1


async def test_an_effect_in_doubt_is_a_gate_and_a_step_in_doubt(storage: MemoryStorage) -> None:
    seen = await view(storage, "payout-1")

    assert seen.status == "in_doubt"
    assert [(gate.gate, gate.in_doubt) for gate in seen.gates] == [("pay", True)]
    assert seen.calls[0].status == "in_doubt"


async def test_a_timer_says_when_it_is_due(storage: MemoryStorage) -> None:
    seen = await view(storage, "nap-1")

    assert seen.of_kind("timer")[0].due_at == seen.wake_at == seen.started_at + 2 * 3_600_000
