"""`loom ps`: the executions of a store."""

from __future__ import annotations

import difflib
import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from loom.core.ids import ExecutionId
from loom.core.ids import execution_id as as_id
from loom.core.state import TERMINAL
from loom.spi.admission_store import Admission, AdmissionStore
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.drivers import held_words, is_cancelling, status_word
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.ids import meant_id
from loom_cli.options import EVENTS_MAX, FlowFilterOption, JsonOption, StoreOption
from loom_cli.screen import STATUS_STYLES, Column, Styled
from loom_cli.times import distance
from loom_cli.wording import joined

app = command_app()

_COLUMNS = (
    Column("ID"),
    Column("FLOW", shrink=True),
    Column("STATUS"),
    Column("AGE", right=True),
    Column("WAITS FOR", shrink=True),
)
_LOOKED_AT_MAX: Final = 500


@app.command()
def ps(
    ctx: typer.Context,
    *,
    status: Annotated[
        list[str] | None, typer.Option("--status", metavar="STATUS", help="Only those that are so; may be repeated.")
    ] = None,
    flow: FlowFilterOption = None,
    parent: Annotated[
        str | None,
        typer.Option(
            "--parent", metavar="ID", help="Only those that this execution has started.", autocompletion=complete_ids
        ),
    ] = None,
    gates: Annotated[bool, typer.Option("--gates", help="Only those that wait for a person.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")] = 50,
    before: Annotated[
        str | None, typer.Option("--before", metavar="CURSOR", help="Go on after the last row of an earlier list.")
    ] = None,
    links: Annotated[
        bool, typer.Option("--links", help="Also the logs of a run that has continued as new, not its last one only.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """List executions, the newest first.

    One that has continued as new is listed by its last log.

    Example: loom ps --status suspended --limit 20

    Example: loom ps --parent refund-42

    Example: loom ps --json
    """
    cli = Cli.of(ctx)
    storage = cli.reader(store)
    query = ExecutionQuery(
        statuses=_known(status or []),
        flows=flow or (),
        with_gates=gates,
        tips=not links,
        limit=limit,
        before=_cursor(before),
    )
    rows, lines = cli.run(_found(storage, replace(query, limit=limit + 1), parent))
    rows, has_more = rows[:limit], len(rows) > limit
    _note_damaged(cli, rows)
    if as_json:
        cli.screen.json([row_json(row, lines.get(row.execution_id)) for row in rows])
    elif rows:
        cli.screen.table(_COLUMNS, _table(rows, lines, cli.now_ms()))
    else:
        cli.screen.note(
            f"no executions {'like that ' if query != ExecutionQuery(limit=limit, tips=query.tips) else ''}in {storage.url}"
        )
        _note_near(cli, storage, flow or [])
    if has_more:
        cli.screen.note(Styled(f"there are more: --before {rows[-1].index.started_at}:{rows[-1].execution_id}", "dim"))
    return ExitCode.DONE


async def _found(
    storage: Storage, query: ExecutionQuery, parent: str | None
) -> tuple[Sequence[ExecutionRow], Mapping[ExecutionId, Admission]]:
    """Return the rows, and how those stand that wait in a line before they begin."""
    if parent is not None:
        query = replace(query, parent=await meant_id(storage, parent))
    rows = await storage.find(query)
    waiting = [row.execution_id for row in rows if row.index.status == "suspended" and row.index.gates == "[]"]
    if not waiting or not isinstance(storage, AdmissionStore):
        return rows, {}
    lines = await storage.admissions(waiting)
    return rows, {run: admission for run, admission in lines.items() if admission.stage != "begun"}


def _note_damaged(cli: Cli, rows: Sequence[ExecutionRow]) -> None:
    for row in rows:
        if _gates(row) is None:
            cli.screen.note(f"the index row of {row.execution_id} is damaged: `loom show` reads its log instead")


def _note_near(cli: Cli, storage: Storage, flows: Sequence[str]) -> None:
    """Say which flows have run that are spelt like those of *flows* that have not."""
    if not flows:
        return
    known = {row.index.flow for row in cli.run(storage.find(ExecutionQuery(limit=_LOOKED_AT_MAX)))}
    near = {name for flow in flows if flow not in known for name in difflib.get_close_matches(flow, known)}
    if near:
        cli.screen.note(Styled(f"did you mean --flow {' or '.join(sorted(near))}?", "dim"))


def row_json(row: ExecutionRow, line: Admission | None = None) -> dict[str, Any]:
    """Return a row of the index in the shape of docs/reference/json.md, with where the run stands in line."""
    index = row.index
    return {
        "id": row.execution_id,
        "flow": index.flow,
        "status": index.status,
        "cancelling": is_cancelling(row),
        "parent": index.parent or None,
        "started_at": index.started_at,
        "updated_at": index.updated_at,
        "wake_at": index.wake_at,
        "length": row.length,
        "gates": _gates(row) or [],
        "attributes": _cell(index.attributes) or {},
        "driver": row.driver or None,
        "lease_ms": row.lease_ms if row.driver else None,
        "line": {"stage": line.stage, "ahead": line.ahead, "wake_at": line.wake_at} if line is not None else None,
        "cursor": f"{index.started_at}:{row.execution_id}",
    }


def _table(
    rows: Sequence[ExecutionRow], lines: Mapping[ExecutionId, Admission], now_ms: int
) -> list[Sequence[str | Styled]]:
    parents = {row.index.parent for row in rows if row.index.status not in TERMINAL}
    return [_cells(row, lines.get(row.execution_id), parents, now_ms) for row in rows]


def _cells(row: ExecutionRow, line: Admission | None, parents: Container[str], now_ms: int) -> Sequence[str | Styled]:
    index = row.index
    gates = _gates(row)
    waits = ", ".join(str(gate["gate"]) for gate in gates) if gates is not None else "?"
    if held := held_words(row):
        waits = f"{waits}; {held}" if waits else held
    elif line is not None:
        waits = line_words(line, now_ms)
    elif not waits and index.wake_at is not None:
        waits = f"the clock, {distance(index.wake_at, now_ms)}" if index.wake_at > now_ms else "a driver"
    elif not waits and index.status == "suspended":
        waits = "a child or a message" if row.execution_id in parents else "a message"  # what else could it go on with
    return (
        row.execution_id,
        index.flow,
        Styled(status_word(row), STATUS_STYLES.get("cancelled" if is_cancelling(row) else index.status, "")),
        Styled(distance(index.started_at, now_ms), "dim"),
        waits,
    )


def line_words(line: Admission, now_ms: int) -> str:
    """Return what a run waits for that may not begin yet."""
    if line.newer is not None or (line.wake_at is not None and line.wake_at <= now_ms):
        return "a driver"
    told = {"quiet": "a quiet time", "line": "a place", "turn": "its turn"}.get(line.stage, "")
    ahead = f"{line.ahead} ahead" if line.stage == "line" and line.ahead else ""
    return joined(told, ahead, distance(line.wake_at, now_ms) if line.wake_at is not None else "")


def _gates(row: ExecutionRow) -> list[dict[str, Any]] | None:
    """Return the open gates of *row*; None when that cell is damaged: a row is but a cache (kernel rule 2.3)."""
    gates = _cell(row.index.gates)
    is_whole = isinstance(gates, list) and all(isinstance(gate, dict) and "gate" in gate for gate in gates)
    return gates if is_whole else None


def _cell(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _known(statuses: Sequence[str]) -> Sequence[str]:
    named = [status.replace("-", "_").replace(" ", "_") for status in statuses]
    unknown = [status for status in named if status not in STATUS_STYLES]
    if unknown:
        raise Usage(f"{unknown[0]!r} is no status", hint=f"one of {', '.join(STATUS_STYLES)}")
    return named


def _cursor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    started_at, colon, execution_id = text.partition(":")
    fits = started_at.isdecimal() and len(started_at) <= len(str(EVENTS_MAX)) and int(started_at) <= EVENTS_MAX
    if not (colon and execution_id and fits):
        raise Usage(f"{text!r} is no cursor", hint="take it from the `cursor` of a row, or the note under a list")
    return int(started_at), as_id(execution_id)
