"""Each flow of the zoo is run for real under the guard: what a bad one comes to stands here, and clean ones go on as ever."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any, Final

import pytest

import loom
from loom.core.errors import LoomError
from loom.devtools.strict import Strict, UnsafeInFlow
from loom.devtools.testing import strict
from tests.zoo.table import BAD, CLEAN
from tests.zoo.test_zoo import flows

NOT_AT_RUN_TIME: Final = frozenset(
    {
        "chance_at_import",  # it happened before there was a flow
        "environment_at_import",
        "logs_at_every_replay",  # nobody listens at its level
        "swallows_a_cancellation",  # nobody cancels it here
        "one_name_in_a_loop",  # served the first outcome, which is what its name asks for
        "one_key_in_a_loop",
        "one_name_in_a_poll",
        "one_name_two_helpers_deep",
        "read_that_writes",  # a fault of the step
        "retry_that_never_happens",
    }
)
"""Flows that really do nothing wrong when they run once: only `check` can know."""

OTHERWISE: Final = {
    # the run is replayed at once, and comes to something else
    "global_numbers": "replay-divergence",
    "attribute_of_a_class": "replay-divergence",
    "default_that_grows": "replay-divergence",
    # Loom refuses them without the guard
    "context_in_an_inline_step": "foreign-task",
    "name_with_other_arguments": "step-id-reused",
    "maps_a_set": "failed",
    "forgotten_await": "SyscallNotAwaited",
    "bare_except": "SuspensionSwallowed",
    "except_base_exception": "SuspensionSwallowed",
    "suppresses_all": "SuspensionSwallowed",
    "return_in_finally": "SuspensionSwallowed",
}
"""What a flow comes to that breaks no rule of the guard's: an error, a failure, or a warning."""

ORDERS: Final = (
    "loop_over_a_set",
    "comprehension_over_a_set",
    "list_of_a_set",
    "dict_from_a_set",
    "set_from_a_helper",
    "set_in_the_input",
    "order_of_what_was_answered_as_set",
)
"""Flows that come to something else where texts hash otherwise: in another process."""


async def comes_to(name: str, guard: Strict) -> str:
    """Return the rule that *name* breaks, the code of another error, the warning it gives, or its status."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        came = await _run(flows("bad")[name], guard)
        gc.collect()  # what a flow that was stopped never awaited is told here, and not at the end of all tests
    told = [each.category.__name__ for each in warned if issubclass(each.category, RuntimeWarning)]
    return next((name for name in told if name in OTHERWISE.values()), came)


async def _run(flow: loom.Flow[Any, Any], guard: Strict) -> str:
    async with loom.define_config(flows=[flow], guard=guard) as app:
        try:
            return (await app.runtime.start(flow.id, id="run", linger_s=0)).status
        except UnsafeInFlow as unsafe:
            return unsafe.rule
        except LoomError as error:
            return error.code


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", [name for name in BAD if name not in {*ORDERS, *NOT_AT_RUN_TIME}])
async def test_a_bad_flow_is_stopped_where_it_really_does_it(name: str) -> None:
    came_to = await comes_to(name, Strict())

    expected = OTHERWISE.get(name) or BAD[name].rule
    assert came_to == expected or (not expected and came_to not in {"completed", "suspended"})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if at else ()) for at, name in enumerate(reversed(ORDERS))]
)
async def test_what_hangs_on_the_order_of_a_set_comes_to_something_else_elsewhere(name: str) -> None:
    assert await comes_to(name, Strict(elsewhere=(1, 2))) == "replay-divergence"


@pytest.mark.parametrize("name", sorted(NOT_AT_RUN_TIME))
def test_what_does_no_wrong_when_it_runs_once_is_found_by_check_alone(name: str) -> None:
    assert BAD[name].caught_by == "check"


@pytest.mark.parametrize("name", CLEAN)
async def test_a_clean_flow_is_left_alone(name: str) -> None:
    flow: Any = flows("clean")[name]

    async with strict(loom.define_config(flows=[flow])) as app:
        outcome = await asyncio.wait_for(app.runtime.start(flow.id, id="run"), 20)

    assert outcome.status == "completed"
