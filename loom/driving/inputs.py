"""The input of a flow on its way into a log."""

from __future__ import annotations

from typing import Any

from loom import values
from loom.core.flow import Flow
from loom.core.missing import MISSING


def encoded_input(flow: Flow[Any, Any], takes: Any, input: Any) -> Any:
    """Return *input* encoded as what *flow* *takes*; `MISSING`, where that is allowed, as it is.

    Raises:
        InvalidPayload, NotSerializable: the flow takes no such input.
    """
    if input is MISSING and not flow.input_required:
        return MISSING
    if input is MISSING or not flow.takes_input:
        told = f"the flow {flow.id} {'needs one' if flow.takes_input else 'takes none'}"
        raise values.InvalidPayload(problems=(values.Problem("input", told, ""),))
    return values.encode(values.check(input, takes), takes)
