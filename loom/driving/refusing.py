"""Refusing to drive a run whose code has changed, where that is the setting."""

from __future__ import annotations

from typing import Any

from loom.core.flow import Flow
from loom.core.state import ExecutionState
from loom.driving.driver import Driver, Manner, on_change_of
from loom.driving.errors import CodeChanged
from loom.fingerprint import same


def refuse_changed(driver: Driver, flow: Flow[Any, Any], state: ExecutionState, manner: Manner) -> None:
    """Return if the run in *state* may be driven by *flow* as it is; who only asks drives nothing.

    Raises:
        CodeChanged: its code is another, and such runs are refused.
    """
    pinned, present = state.facts.fingerprint, driver.fingerprint_of(flow)
    is_refused = on_change_of(flow, manner, driver.around) == "refuse"
    if is_refused and not (manner.asks_only or same(pinned, present)):
        raise CodeChanged(
            execution_id=state.execution_id,
            flow=flow.id,
            pinned=pinned,
            present=present,
            has_failed=state.status == "failed",
        )
