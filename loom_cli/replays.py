"""Stored runs for the commands that replay them: which are meant, their logs, and what is said of a verdict.

The store is opened to read only, the app for its flows alone: nothing is written, and no resource of the app is opened.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.devtools.deploying import Checking, StoredRun
from loom.driving.errors import SnapshotUnusable
from loom.driving.stored_log import records_of
from loom.driving.verdicts import Verdict, VerdictKind
from loom.spi.errors import StoreCorrupt
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom.spi.where import Where
from loom_cli.errors import Usage
from loom_cli.ids import meant_id
from loom_cli.selecting import PAGE
from loom_cli.slips import likelier
from loom_cli.wording import value_text

if TYPE_CHECKING:
    from loom.app.config import LoomApp

WORDS: Final[dict[VerdictKind, str]] = {
    "same": "same",
    "migrates": "needs migration",
    "breaks": "breaks",
    "unreadable": "unreadable record",
    "flow_missing": "flow missing",
    "newer": "log newer than code",
    "redacted": "log redacted",
    "damaged": "log not whole",
}
STYLES: Final[dict[VerdictKind, str]] = {"same": "green", "migrates": "yellow"}
_SIDE_MAX: Final = 300


class Meant(NamedTuple):
    """Which runs are meant: those with these *ids*, or, without any, all that are *where* (None: all there are)."""

    ids: Sequence[str] = ()
    where: Where | None = None


def reader_of(app: LoomApp) -> Storage:
    """Return the store of *app*, to read only where that can be told: one that is not there is not made."""
    from loom_cli.app_location import read_only

    return read_only(app.storage)


def checking_of(app: LoomApp) -> Checking:
    """Return what replays runs against the code of *app*, as the app itself would."""
    return Checking(app.registry.flows, app.registry.tools, on_change=app.runtime.surroundings.on_change)


async def runs_in(storage: Storage, meant: Meant) -> AsyncIterator[StoredRun]:
    """Yield the runs that are meant, with their logs; one whose rows are damaged, with its fault.

    Raises:
        ExecutionNotFound, AmbiguousExecution: an id is none.
        StoreError: the store cannot be read.
    """
    if meant.ids:
        for text in meant.ids:
            run_id = await meant_id(storage, text)
            row = await storage.row(run_id)
            yield await _run(storage, run_id, None if row is None else row.length)
        return
    async for row in rows_where(storage, meant.where):
        yield await _run(storage, row.execution_id, row.length)


async def rows_where(storage: Storage, where: Where | None) -> AsyncIterator[ExecutionRow]:
    """Yield the rows of all runs that are *where*, the newest first."""
    cursor: tuple[int, str] | None = None
    while rows := await storage.find(ExecutionQuery(where=where, limit=PAGE, before=cursor)):
        for row in rows:
            yield row
        if len(rows) < PAGE:
            return
        cursor = rows[-1].index.started_at, rows[-1].execution_id


async def _run(storage: Storage, run_id: ExecutionId, length: int | None) -> StoredRun:
    try:
        stored = await records_of(storage, run_id)
    except (StoreCorrupt, SnapshotUnusable) as error:
        return StoredRun(run_id, (), fault=str(error))
    return StoredRun(run_id, stored.records, length, base=stored.base)


def meant_by(ids: Sequence[str], where: Where | None, *, every: bool) -> Meant:
    """Return which runs a command line means.

    Raises:
        Usage: it names none, or says so in two ways.
    """
    said = [bool(ids), where is not None, every]
    if sum(said) > 1:
        raise Usage("ids, --where and --all each say which runs", hint="give one of them")
    if not any(said):
        raise Usage("which runs?", hint="name some, or say --all, or --where status=suspended")
    return Meant(ids, where)


# -- what is said of a verdict -------------------------------------------------------------------------------------------


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {
        "id": verdict.id,
        "flow": verdict.flow,
        "status": verdict.status,
        "length": verdict.length,
        "verdict": verdict.kind,
        "step": verdict.step,
        "sequence": verdict.sequence,
        "recorded": dict(verdict.recorded) if verdict.recorded is not None else None,
        "asked": dict(verdict.asked) if verdict.asked is not None else None,
        "where": verdict.where or None,
        "why": verdict.why or None,
        "hint": verdict.hint or None,
        "differences": list(verdict.differences),
        "end": dict(verdict.end) if verdict.end is not None else None,
        "digest": verdict.digest,
    }


def from_here(verdict: Verdict, folder: Path, flow: Flow[Any, Any] | None = None) -> Verdict:
    """Return *verdict* with places in the author's code as paths from *folder*, and with what in *flow* may be to blame."""
    asked = verdict.asked
    if asked is not None and asked.get("where"):
        asked = {**asked, "where": _from(str(asked["where"]), folder)}
    return replace(verdict, where=_from(verdict.where, folder), asked=asked, why=likelier(verdict.why, flow, folder))


def _from(where: str, folder: Path) -> str:
    return where.removeprefix(f"{folder}{os.sep}")


def short(verdict: Verdict) -> str:
    """Return what is to be said of a verdict in one line, empty where there is nothing."""
    if verdict.is_fine:
        told = [f"{each['id']} is asked with other arguments" for each in verdict.differences]
        if verdict.end is not None:
            told.append(f"would end otherwise: {side_text(verdict.end['now'])}")
        return "; ".join(told)
    if verdict.recorded is None and verdict.asked is None:
        return f"{verdict.why} ({verdict.where})" if verdict.where else verdict.why
    at = f"event {verdict.sequence}: " if verdict.sequence is not None else ""
    shown = side_text if _named(verdict.recorded) == _named(verdict.asked) else _named
    sides = f"{at}recorded {shown(verdict.recorded)}, asks {shown(verdict.asked)}"
    return f"{sides} ({verdict.where})" if verdict.where else sides


def _named(side: Any) -> str:
    if side is None:
        return "nothing"
    return " ".join(str(part) for part in (side.get("kind"), side.get("id")) if part)


def side_text(side: Any) -> str:
    """Return one side of a difference in words: what was asked, and with what."""
    if side is None:
        return "nothing"
    given = side.get("args")
    shown = value_text(given) if given not in (None, {}) else ""
    if len(shown) > _SIDE_MAX:
        shown = f"{shown[:_SIDE_MAX]}..."
    return f"{_named(side)} {shown}".rstrip()
