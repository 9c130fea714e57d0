"""`loom gates`: everything, in all executions, that waits for a person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Annotated, Any, Final, TypeAlias

import typer

from loom.core.ids import ExecutionId
from loom.core.views import OpenGate, open_gates
from loom.driving.stored_log import log_of
from loom.driving.untaken import settled_meanwhile
from loom.lenses.folding import fold_at
from loom.lenses.shapes import gate_json
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom_cli.cli import Cli
from loom_cli.drawing import answers, draw_gate
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.hints import Hints
from loom_cli.options import FlowFilterOption, JsonOption, StoreOption
from loom_cli.reading import lane_of
from loom_cli.screen import Screen, Styled

app = command_app()

_PAGE: Final = 200

Waiting: TypeAlias = tuple[ExecutionRow, OpenGate, int]
"""An execution, one of its open gates, and how many it has."""

Answered: TypeAlias = Collection[tuple[ExecutionId, int]]
"""Gates by their execution and the sequence of their start."""


@app.command()
def gates(
    ctx: typer.Context,
    *,
    flow: FlowFilterOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many executions at most.")] = 100,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """List what waits for a person, and how to answer it.

    The longest wait comes first. Effects in doubt wait for a verdict, gates for an answer.

    Example: loom gates

    Example: loom gates --flow refund --json
    """
    cli = Cli.of(ctx)
    storage = cli.reader(store)
    waiting, answered = cli.run(_all_waiting(storage, flow or [], limit))
    if as_json:
        cli.screen.json([_row_json(each, answered, store) for each in waiting])
    elif waiting:
        _draw(cli.screen, waiting, answered, store, now_ms=cli.now_ms())
    else:
        cli.screen.note(f"nothing waits for a person in {storage.url}")
    return ExitCode.DONE


async def _all_waiting(storage: Storage, flows: list[str], limit: int) -> tuple[list[Waiting], Answered]:
    """Return what waits, and which of it is answered, though no driver has taken that up."""
    found: list[Waiting] = []
    answered: set[tuple[ExecutionId, int]] = set()
    async for row in _rows(storage, flows, limit):
        log = await log_of(storage, row.execution_id)
        gates = open_gates(fold_at(log.events, base=log.base)) if log.events else []
        found += [(row, gate, len(gates)) for gate in gates]
        if gates:
            pending = await lane_of(storage, row.execution_id)
            answered |= {(row.execution_id, start) for start in settled_meanwhile(row.execution_id, pending)}
    return sorted(found, key=lambda each: (each[1].opened_at, each[0].execution_id, each[1].start)), answered


async def _rows(storage: Storage, flows: list[str], limit: int) -> AsyncIterator[ExecutionRow]:
    before: tuple[int, str] | None = None
    while limit > 0:
        query = ExecutionQuery(flows=flows, with_gates=True, limit=min(limit, _PAGE), before=before)
        page = await storage.find(query)
        for row in page:
            yield row
        if len(page) < query.limit:
            return
        limit -= len(page)
        before = (page[-1].index.started_at, page[-1].execution_id)


def _row_json(waiting: Waiting, answered: Answered, store: str | None) -> dict[str, Any]:
    row, gate, count = waiting
    hints, is_answered = Hints(row.execution_id, store=store), (row.execution_id, gate.start) in answered
    commands = answers(gate, hints, alone=count == 1)
    if is_answered or _is_diverged(row):
        commands = [hints.command("show" if _is_diverged(row) else "resume")]
    about = {"answered": is_answered, "commands": commands}
    return {"execution_id": row.execution_id, "flow": row.index.flow, **gate_json(gate), **about}


def _draw(screen: Screen, waiting: list[Waiting], answered: Answered, store: str | None, *, now_ms: int) -> None:
    for at, (row, gate, count) in enumerate(waiting):
        if at:
            screen.line()
        screen.line(Styled(row.execution_id, "bold"), Styled(f"  {row.index.flow}", "dim"))
        hints = Hints(row.execution_id, store=store)
        if _is_diverged(row):
            screen.line(Styled("  diverged: no answer helps before its code is mended; ", "red"), hints.command("show"))
        about = {"can_answer": not _is_diverged(row), "is_answered": (row.execution_id, gate.start) in answered}
        draw_gate(screen, gate, hints, now_ms=now_ms, alone=count == 1, **about)


def _is_diverged(row: ExecutionRow) -> bool:
    return row.index.status == "diverged"
