"""How an execution begins: its first fact, checked before anything is written, and its id."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from loom import values
from loom.core import facts as f
from loom.core.envelope import NO_METADATA
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.core.missing import MISSING
from loom.core.state import empty_state
from loom.driving.driver import Driver
from loom.kernel.errors import ExecutionAlreadyExists, SequenceConflict
from loom.kernel.fold import RULES
from loom.kernel.journal import Journal


class Starting:
    """Begins executions."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def fact(self, flow: Flow[Any, Any], input: Any, attributes: Mapping[str, Any] | None) -> f.ExecutionStarted:
        """Return the fact that *flow* was started with *input* (`MISSING`: none).

        Raises:
            InvalidPayload, NotSerializable: it does not take that.
        """
        return f.ExecutionStarted(
            flow=flow.id,
            version=flow.version,
            fingerprint=self._driver.fingerprint_of(flow),
            seed=self._driver.token(16),
            rules=dict(RULES),
            input=self._encoded_input(flow, input),
            defaulted=True if input is MISSING and flow.takes_input else None,
            attributes={key: values.encode(value) for key, value in attributes.items()} if attributes else None,
        )

    def _encoded_input(self, flow: Flow[Any, Any], input: Any) -> Any:
        if input is MISSING and not flow.input_required:
            return None
        if input is MISSING or not flow.takes_input:
            told = f"the flow {flow.id} {'needs one' if flow.takes_input else 'takes none'}"
            raise values.InvalidPayload(problems=(values.Problem("input", told, ""),))
        takes = self._driver.hints_of(flow)[0]
        return values.encode(values.check(input, takes), takes)

    def made_up_id(self, flow: str) -> ExecutionId:
        """Return an id that nobody has."""
        token = base64.b32encode(self._driver.around.entropy.token(10)).decode("ascii").lower()
        return ExecutionId(f"{flow[:150]}-{token[:12]}")

    async def begun(
        self, run_id: ExecutionId, fact: f.ExecutionStarted, principal: str | None, *, drives: bool, durably: bool
    ) -> Journal:
        """Write the start of *run_id*, and return the journal to drive it with; else it is parked, for a worker to take.

        Raises:
            ExecutionAlreadyExists: the id is taken; known only if it is to be *durably* there on return.
        """
        journal = self._driver.journal(empty_state(run_id), None, drives=drives)
        journal.commit("EXECUTION_STARTED", fact, {"principal": principal} if principal else NO_METADATA)
        if not drives:
            journal.commit("EXECUTION_SUSPENDED", f.ExecutionSuspended(wake_at=journal.state.at))
        if durably:
            try:
                await journal.barrier()
            except SequenceConflict as conflict:
                raise ExecutionAlreadyExists(execution_id=run_id) from conflict
        return journal
