"""What a run of a flow has to pass before it begins, by the flow's declaration and the run's input. Pure.

A key is the value at a path into the input as it stands on the log. Its text decides: `7` and `"7"` are one key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from loom import values
from loom.core.facts import ExecutionSuspended
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.core.starts import Starts
from loom.spi.admission_store import Admission, Pace, Quiet, Slots, Terms

_READABLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,79}")
_FLOW_MAX: Final = 90
_SHOWN_MAX: Final = 60
_WRAPPERS: Final = {"$type": "value", "$dict": "$dict"}
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def terms_of(flow: Flow[Any, Any], input: Any, *, again: bool = False) -> Terms:
    """Return the terms for a run of *flow* with *input*, as encoded. One that is tried *again* needs a slot alone.

    Raises:
        InvalidPayload: the input lacks a key.
    """
    starts = flow.starts or Starts(dedupe="-")
    limit, rate, debounce = starts.concurrency, starts.rate, starts.debounce
    slots = Slots(_line(flow, "slots", input, limit.key), limit.runs) if limit else None
    if again:
        return Terms(slots=slots)
    pace = Pace(_line(flow, "pace", input, rate.key), rate.runs, _ms(rate.per)) if rate else None
    quiet = Quiet(_line(flow, "quiet", input, debounce.key), _ms(debounce.wait)) if debounce else None
    return Terms(quiet, slots, pace)


def deduped_id(flow: Flow[Any, Any], input: Any, path: str) -> ExecutionId:
    """Return the id of the one run of *flow* for what stands at *path*: readable where the key can be part of an id.

    Raises:
        InvalidPayload: nothing stands there.
    """
    key = _key(flow, input, path)
    return ExecutionId(f"{flow.id[:_FLOW_MAX]}-{key if _READABLE.fullmatch(key) else _hashed(key)}")


def suspended(flow: Flow[Any, Any], input: Any, admission: Admission, *, due_at: int | None) -> ExecutionSuspended:
    """Return the fact that a run waits which stands so; *due_at* is its deadline, ms since the epoch."""
    times = [at for at in (admission.wake_at, due_at) if at is not None]
    return ExecutionSuspended(wake_at=min(times, default=None), why=_why(flow, input, admission))


def _why(flow: Flow[Any, Any], input: Any, admission: Admission) -> str | None:
    """Return what a run waits for, in words that do not change while it stands so."""
    starts = flow.starts
    if starts is None:
        return None
    if admission.stage == "quiet" and starts.debounce is not None:
        about = _about(flow, input, starts.debounce.key)
        return f"{_span(_ms(starts.debounce.wait))} without another start of {about}"
    if admission.stage == "line" and starts.concurrency is not None:
        return f"a place among {_runs(starts.concurrency.runs)} of {_about(flow, input, starts.concurrency.key)}"
    if admission.stage == "turn" and starts.rate is not None:
        rate = starts.rate
        return f"its turn: {_runs(rate.runs)} of {_about(flow, input, rate.key)} begin in {_span(_ms(rate.per))}"
    return None


def _line(flow: Flow[Any, Any], part: str, input: Any, path: str | None) -> str:
    if path is None:
        return f"{flow.id}:{part}"
    key = _key(flow, input, path)
    return f"{flow.id}:{part}:{path}={key if len(key) <= _SHOWN_MAX else _hashed(key)}"


def _about(flow: Flow[Any, Any], input: Any, path: str | None) -> str:
    if path is None:
        return flow.id
    key = _key(flow, input, path)
    return f"{path} {key if len(key) <= _SHOWN_MAX else f'{key[:_SHOWN_MAX]}...'}"


def _key(flow: Flow[Any, Any], input: Any, path: str) -> str:
    """Return the text of the value at *path*."""
    found = _unwrapped(input)
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise _refused(flow, path, "is not there")
        found = _unwrapped(found[name])
    if isinstance(found, Mapping) and len(found) == 1 and isinstance(only := next(iter(found.values())), str):
        found = only  # a value with a tag: a UUID, a Decimal, a date
    if found is None:
        raise _refused(flow, path, "is null")
    if isinstance(found, Mapping | list):
        raise _refused(flow, path, "has parts, and a key is one text or number")
    return found if isinstance(found, str) else values.canonical(found).decode()


def _unwrapped(encoded: Any) -> Any:
    while isinstance(encoded, Mapping) and (wrapper := next((name for name in _WRAPPERS if name in encoded), None)):
        encoded = encoded.get(_WRAPPERS[wrapper])
    return encoded


def _refused(flow: Flow[Any, Any], path: str, why: str) -> values.InvalidPayload:
    return values.InvalidPayload(problems=(values.Problem(path, f"{why}; runs of {flow.id} are told apart by it", ""),))


def _hashed(key: str) -> str:
    return "~" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _span(ms: int) -> str:
    name, size = next((name, size) for name, size in _UNITS if ms % size == 0)
    return f"{ms // size}{name}"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"
