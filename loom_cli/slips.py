"""What `loom check` finds in one flow, for what is told of a run of it: where it reads a clock, or calls and does not await.

It is told beside what happened and never instead: where the source is not at hand, cannot be read, or says nothing, neither does this.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from loom.core.errors import LoomError
from loom.core.flow import Flow

NOT_AWAITED: Final = frozenset({"not-awaited"})
ANEW: Final = frozenset(
    {"clock", "random", "environment", "identity", "io", "network", "set-order", "shared-state", "import-time"}
)
"""What is another thing at every replay, so that the flow may take another way."""
_SLIPS_MAX: Final = 3
_PARSED_BYTES_MAX: Final = 300_000


@lru_cache(maxsize=64)
def slips(flow: Flow[Any, Any], folder: Path, rules: frozenset[str]) -> tuple[str, ...]:
    """Return what breaches *rules* in *flow* and what it calls, as `file:line: what`, the paths from *folder*; three at most."""
    try:
        return tuple(_found(flow, folder, rules))[:_SLIPS_MAX]
    except (
        LoomError,
        OSError,
        RecursionError,
    ):  # settings that cannot be used, a file that went away: told by `loom check`
        return ()


def _found(flow: Flow[Any, Any], folder: Path, rules: frozenset[str]) -> Iterator[str]:
    source = inspect.getsourcefile(flow.fn)
    if source is None or (file := Path(source)).stat().st_size > _PARSED_BYTES_MAX:
        return
    from loom_cli.linting import Asked, checked  # with ast and all rules, for a run that went wrong

    for finding in checked(folder, [file], Asked([*rules], [])).findings:
        if finding.via and finding.via[0].name == flow.fn.__name__:
            yield f"{finding.path}:{finding.line}: {finding.message}"


def likelier(likely: str, flow: Flow[Any, Any] | None, folder: Path) -> str:
    """Return what is *likely* to blame for a divergence, and below it where *flow*, whose code is the same, asks for what differs."""
    if flow is None or "a clock, randomness" not in likely:
        return likely
    return "\n".join([likely, *slips(flow, folder, ANEW)])
