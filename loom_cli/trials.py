"""Trials that have stopped: forks that are simulated, or served from their source, and asked for what nobody here has."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.driving.run_reader import RunReader
from loom.spi.event_store import ExecutionRow

STOPPED: Final = "stopped"
"""How a trial stands whose driver has let it go, though its log goes on."""


def may_have_stopped(row: ExecutionRow) -> bool:
    """Whether the run of *row* was let go on its way; that of a trial is left so by every worker."""
    return row.released and bool(row.driver) and row.index.status == "running"


async def stopped_trials(storage: RunReader, rows: Iterable[ExecutionRow]) -> frozenset[ExecutionId]:
    """Return which of *rows* are of trials that have stopped; one whose log cannot be read is none."""
    return frozenset([row.execution_id for row in rows if may_have_stopped(row) and await _is_trial(storage, row)])


async def _is_trial(storage: RunReader, row: ExecutionRow) -> bool:
    from loom.driving.loading import load  # not for each list, as in deadlines.py
    from loom.driving.simulating import is_trial

    with suppress(LoomError):
        return is_trial((await load(storage, row.execution_id, row=row)).state)
    return False
