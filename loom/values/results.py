"""How the result of a step crosses the log: bounded in size, and in its envelope where it is claimed.

A log is read by the page and folded whole, so one value has a limit: it is told at the step, where there is something to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom import values
from loom.core.claims import ClaimCheck, Claimed, digest_of
from loom.core.json import Json
from loom.values.sizes import ValueTooLarge, bounded


class ResultTooLarge(ValueTooLarge):
    """The result of a step that is larger than a log takes."""

    code = "result-too-large"
    advice = (
        "Have it claimed, so that the log keeps an envelope: @loom.step(claim_check=loom.ClaimCheck()). "
        "What is larger than memory, a step writes with step.content.stream_result."
    )


def codec_of_result(returns: Any, check: ClaimCheck[Any] | None) -> values.Codec:
    """Return the codec of what a step with the annotation *returns* gives, claimed by *check* if there is one."""
    codec = values.Codec(returns if check is None else values.MISSING, "result")
    codec.encode = _bounded(codec.encode if check is None else _enveloping(check, codec.encode))
    return codec


def _bounded(encode: Callable[[Any], Json]) -> Callable[[Any], Json]:
    return lambda result: bounded(encode(result), "result", error=ResultTooLarge)


def _enveloping(check: ClaimCheck[Any], encode: Callable[[Any], Json]) -> Callable[[Any], Json]:
    def enveloping(result: Any) -> Json:
        return encode(result if type(result) is Claimed else inline(check, result))

    return enveloping


def inline(check: ClaimCheck[Any], result: Any) -> Claimed[Any, Any]:
    """Return the envelope that *result* itself stands in, whatever its size."""
    form, data = written(result)
    return Claimed(ref=None, size=len(data), form=form, digest=digest_of(check, result), inline=result)


def written(result: Any) -> tuple[Any, bytes]:
    """Return the form of *result* as a content, and its bytes.

    Raises:
        NotSerializable: some part of it cannot be written.
    """
    if type(result) is bytes:
        return "bytes", result
    return "json", values.dumps(_ANYTHING.encode(result))


def read(form: str, data: bytes) -> Any:
    """Return the result that *data* was written from.

    Raises:
        RecordUnreadable: a type of it is gone, or has changed.
    """
    return data if form == "bytes" else _ANYTHING.decode(values.loads(data))


_ANYTHING: Final = values.Codec(values.MISSING, "result")
