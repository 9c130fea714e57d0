"""Reading a log: page by page, decoded, and whether this code may drive it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from loom.core.collecting import collected_later
from loom.core.envelope import EventEnvelope
from loom.core.facts import ExecutionStarted
from loom.core.ids import ExecutionId
from loom.driving.errors import LogRedacted
from loom.driving.run_reader import LogReader
from loom.kernel.codec import decode_events
from loom.kernel.errors import LogNewerThanCode
from loom.kernel.fold import RULES


async def read_log(
    storage: LogReader, run_id: ExecutionId, *, start: int = 0, length: int | None = None
) -> list[EventEnvelope[Any]]:
    """Return the events of one log from *start* on.

    Where its *length* is known, nothing is read past it, and nothing just to see the end.
    """
    events: list[EventEnvelope[Any]] = []
    while (length is None or start < length) and (page := await storage.read(run_id, start=start, stop=length)):
        with collected_later():
            events += decode_events(run_id, page)
        start = page[-1].sequence + 1
    return events


def refuse_newer(events: Iterable[EventEnvelope[Any]]) -> None:
    """Refuse to drive a log that holds what this code does not know.

    Raises:
        LogNewerThanCode: a kernel type without a row, a payload of a newer version, or newer rules.
    """
    for event in (event for event in events if isinstance(event.payload, (ExecutionStarted, dict))):
        if isinstance(event.payload, ExecutionStarted):
            refuse_newer_rules(event.execution_id, event.payload.rules)
        else:
            version = event.metadata.get("v", 1)
            raise LogNewerThanCode(execution_id=event.execution_id, what=f"{event.type} version {version}")


REDACTED: Final = "redacted"
"""The rule by which a log says of itself that values were left out of it."""


def refuse_newer_rules(run_id: ExecutionId, rules: Mapping[str, int]) -> None:
    """Refuse to drive a run that is pinned to *rules* of a version that this code does not have.

    Raises:
        LogNewerThanCode: they are newer.
        LogRedacted: values were left out of the log.
    """
    if REDACTED in rules:
        raise LogRedacted(execution_id=run_id)
    newer = [name for name, version in rules.items() if version > RULES.get(name, 0)]
    if newer:
        raise LogNewerThanCode(execution_id=run_id, what=f"newer rules of {', '.join(newer)}")
