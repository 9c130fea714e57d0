"""`loom ps`: the executions of a store."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from loom.core.ids import ExecutionId
from loom.driving.run_reader import RunReader
from loom.spi.admission_store import Admission, AdmissionStore
from loom.spi.event_store import ExecutionQuery, ExecutionRow
from loom.spi.where import fields_of, searchable
from loom_cli.awaiting import Wait, may_wait, waits_of, waits_words
from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.deadlines import may_be_late, with_deadlines
from loom_cli.drivers import held_words, is_cancelling, status_word
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.ids import meant_id
from loom_cli.options import FlowFilterOption, JsonOption, QueryOption, StoreOption, WhereOption
from loom_cli.rows import cursor_of, gates_of, row_json
from loom_cli.screen import STATUS_STYLES, Column, Styled
from loom_cli.times import distance
from loom_cli.trials import STOPPED, stopped_trials
from loom_cli.wording import counted, joined

app = command_app()

_COLUMNS = (
    Column("ID"),
    Column("FLOW", shrink=True),
    Column("STATUS"),
    Column("AGE", right=True),
    Column("WAITS FOR", shrink=True),
)
_QUERY_COLUMNS = (Column("NAME"), Column("WHERE", shrink=True), Column("", shrink=True))
_LOOKED_AT_MAX: Final = 500


_ParentOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--parent", metavar="ID", help="Only those that this execution has started.", autocompletion=complete_ids
    ),
]
_QueriesOption: TypeAlias = Annotated[
    bool, typer.Option("--queries", help="List the saved queries instead, and what is wrong with them.")
]


@app.command()
def ps(
    ctx: typer.Context,
    *,
    status: Annotated[
        list[str] | None, typer.Option("--status", metavar="STATUS", help="Only those that are so; may be repeated.")
    ] = None,
    flow: FlowFilterOption = None,
    parent: _ParentOption = None,
    gates: Annotated[bool, typer.Option("--gates", help="Only those that wait for a person.")] = False,
    where: WhereOption = None,
    query: QueryOption = None,
    queries: _QueriesOption = False,
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

    Example: loom ps --where 'status=failed and attr.customer="c7" and started > -2h'

    Example: loom ps --queries

    Example: loom ps --parent refund-42

    Example: loom ps --json
    """
    cli = Cli.of(ctx)
    if queries:
        return _list_queries(cli, as_json=as_json)
    storage = cli.runs(store)
    asked = ExecutionQuery(
        statuses=_known(status or ()),
        flows=flow or (),
        with_gates=gates,
        tips=not links,
        where=cli.like(store, where, query),
        limit=limit,
        before=cursor_of(before),
    )
    found = cli.run(_found(cli, store, replace(asked, limit=limit + 1), parent))
    rows, has_more = found.rows[:limit], len(found.rows) > limit
    _note_damaged(cli, rows)
    if as_json:
        cli.screen.json(_rows_json(rows, found))
    elif rows:
        cli.screen.table(_COLUMNS, _table(rows, found, cli.now_ms()))
        cli.screen.flush()  # what is said of the list stands below it
    else:
        _note_none(cli, storage, store, asked)
    if has_more:
        cli.screen.note(Styled(f"there are more: --before {rows[-1].index.started_at}:{rows[-1].execution_id}", "dim"))
    elif asked.where is not None and rows and not as_json:
        cli.screen.note(Styled(f"{counted(len(rows), 'run is', 'runs are')} like that", "dim"))
    return ExitCode.DONE


def _note_none(cli: Cli, storage: RunReader, store: str | None, asked: ExecutionQuery) -> None:
    """Say that nothing was found, where, and what is spelt like what was asked for."""
    chosen = "like that " if asked != ExecutionQuery(limit=asked.limit, tips=asked.tips) else ""
    cli.screen.note(f"no executions {chosen}in {storage.url}")
    _note_near(cli, storage, asked)
    _note_rowless(cli, store, asked)


def _note_rowless(cli: Cli, store: str | None, asked: ExecutionQuery) -> None:
    """Say of how many runs the read models that were asked have no row: such a run fits nothing that is asked of a row."""
    models = {(field.model, field.version) for field in fields_of(asked.where) if field.model} if asked.where else set()
    if not models:
        return
    from loom_cli.columns import rowless

    for model, version in sorted(models):
        runs = replace(asked, where=None, limit=_LOOKED_AT_MAX)
        if count := cli.run(rowless(cli.reader(store), model, version, runs)):
            has = "run has" if count == 1 else "runs have"
            cli.screen.note(f"{count} {has} no row in {model}: `loom rows update` makes what is missing")


def _list_queries(cli: Cli, *, as_json: bool) -> ExitCode:
    """List the saved queries. It ends with 1 when one cannot be used."""
    from loom_cli.queries import project_queries

    saved = project_queries(cli.folder, now_ms=cli.now_ms())
    if as_json:
        cli.screen.json([{**each._asdict(), "fault": each.fault or None, "hint": each.hint or None} for each in saved])
    elif saved:
        cli.screen.table(_QUERY_COLUMNS, [(each.name, each.where, Styled(each.fault, "red")) for each in saved])
    else:
        cli.screen.note("no queries are saved in [tool.loom.queries] of a pyproject.toml here")
    return ExitCode.FAILED if any(each.fault for each in saved) else ExitCode.DONE


class _Found(NamedTuple):
    """Rows of the index; how those stand that wait in a line before they begin, which are of trials that have stopped, and the messages that others wait for."""

    rows: Sequence[ExecutionRow]
    lines: Mapping[ExecutionId, Admission]
    stopped: Container[ExecutionId]
    waits: Mapping[ExecutionId, Sequence[Wait]]


async def _found(cli: Cli, store: str | None, query: ExecutionQuery, parent: str | None) -> _Found:
    """Return the rows, with what the index does not tell of them."""
    storage = cli.runs(store)
    if parent is not None:
        query = replace(query, parent=await meant_id(storage, parent))
    rows = await storage.find(query)
    parked = [row for row in rows if may_wait(row)]
    if not parked and not any(map(may_be_late, rows)):
        return _Found(rows, {}, (), {})
    whole = cli.reader(store)  # which is loaded for these alone
    rows = await with_deadlines(whole, rows, cli.now_ms())
    waiting = [row.execution_id for row in parked]
    lines = await whole.admissions(waiting) if waiting and isinstance(whole, AdmissionStore) else {}
    in_line = {run: admission for run, admission in lines.items() if admission.stage != "begun"}
    return _Found(rows, in_line, await stopped_trials(whole, rows), await waits_of(whole, parked))


def _rows_json(rows: Sequence[ExecutionRow], found: _Found) -> list[dict[str, Any]]:
    return [row_json(row, found.lines.get(row.execution_id), stopped=row.execution_id in found.stopped) for row in rows]


def _note_damaged(cli: Cli, rows: Sequence[ExecutionRow]) -> None:
    for row in rows:
        if gates_of(row) is None:
            cli.screen.note(f"the index row of {row.execution_id} is damaged: `loom show` reads its log instead")


def _note_near(cli: Cli, storage: RunReader, asked: ExecutionQuery) -> None:
    """Say which flows and attributes there are that are spelt like those that were asked for and are not."""
    named = {field.attribute for field in fields_of(asked.where)} - {""} if asked.where is not None else set[str]()
    if not asked.flows and not named:
        return
    rows = cli.run(storage.find(ExecutionQuery(limit=_LOOKED_AT_MAX)))
    if near := _near(asked.flows, {row.index.flow for row in rows}):
        cli.screen.note(Styled(f"did you mean --flow {' or '.join(near)}?", "dim"))
    if near := _near(named, {name for row in rows for name in searchable(row.index.attributes)}):
        cli.screen.note(Styled(f"did you mean {' or '.join(f'attr.{name}' for name in near)}?", "dim"))


def _near(names: Iterable[str], known: Collection[str]) -> list[str]:
    return sorted({near for name in names if name not in known for near in difflib.get_close_matches(name, known)})


def _table(rows: Sequence[ExecutionRow], found: _Found, now_ms: int) -> list[Sequence[str | Styled]]:
    parents = {row.index.parent for row in rows if not row.index.ended}
    return [
        _stopped(row, now_ms) if row.execution_id in found.stopped else _cells(row, found, parents, now_ms)
        for row in rows
    ]


def _stopped(row: ExecutionRow, now_ms: int) -> Sequence[str | Styled]:
    age = Styled(distance(row.index.started_at, now_ms), "dim")
    told = f"what the trial lacks: loom show {row.execution_id}"
    return row.execution_id, row.index.flow, Styled(STOPPED, STATUS_STYLES["suspended"]), age, told


def _cells(row: ExecutionRow, found: _Found, parents: Container[str], now_ms: int) -> Sequence[str | Styled]:
    index, line = row.index, found.lines.get(row.execution_id)
    gates = gates_of(row)
    waits = ", ".join(str(gate["gate"]) for gate in gates) if gates is not None else "?"
    if held := held_words(row):
        waits = f"{waits}; {held}" if waits else held
    elif line is not None:
        waits = line_words(line, now_ms)
    elif not waits and index.wake_at is not None and index.wake_at <= now_ms:
        waits = "a driver"
    elif not waits and row.execution_id in found.waits:
        waits = waits_words(found.waits[row.execution_id], index.wake_at, now_ms)
    elif not waits and index.wake_at is not None:
        waits = f"the clock, {distance(index.wake_at, now_ms)}"
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


def _known(statuses: Sequence[str]) -> Sequence[str]:
    named = tuple(status.replace("-", "_").replace(" ", "_") for status in statuses)
    unknown = [status for status in named if status not in STATUS_STYLES]
    if unknown:
        raise Usage(f"{unknown[0]!r} is no status", hint=f"one of {', '.join(STATUS_STYLES)}")
    return named
