"""The input of a flow on its way into a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loom import values
from loom.core.flow import Flow
from loom.core.missing import MISSING
from loom.values.sizes import bounded


def encoded_input(flow: Flow[Any, Any], takes: Any, input: Any) -> Any:
    """Return *input* encoded as what *flow* *takes*; `MISSING`, where that is allowed, as it is.

    Raises:
        InvalidPayload, NotSerializable: the flow takes no such input, or it is too large.
    """
    if input is MISSING and not flow.input_required:
        return MISSING
    if input is MISSING or not flow.takes_input:
        told = f"the flow {flow.id} {'needs one' if flow.takes_input else 'takes none'}"
        raise values.InvalidPayload(problems=(values.Problem("input", told, ""),))
    return bounded(values.encode(values.check(input, takes), takes), "input", flow.id)


def result_encoder(flow: Flow[Any, Any], returns: Any) -> Callable[[Any], Any]:
    """Return what encodes the result of *flow*, annotated with *returns*.

    It raises `NotSerializable` where the log cannot keep one, or it is too large.
    """
    encode = values.codec_for(returns, "result").encode
    return lambda result: bounded(encode(result), "result", flow.id)
