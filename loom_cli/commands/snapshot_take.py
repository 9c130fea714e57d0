"""`loom snapshot take`: keep the state of a run after one of its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import EVENTS_MAX, ExecutionArgument, JsonOption, StoreOption
from loom_cli.screen import Styled

if TYPE_CHECKING:
    from loom.spi.snapshot_store import SnapshotHead

app = command_app()


@app.command()
def snapshot_take(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="N", min=0, max=EVENTS_MAX, help="After event number N, from 0; else the last."),
    ] = None,
    zstd: Annotated[bool, typer.Option("--zstd", help="Compress it (needs the extra zstd).")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Keep the state of a run after an event.

    A run that is compacted later can be forked there all the same: loom fork ID --at N. Nothing is driven, and no code of the
    flow is needed.

    Example: loom snapshot take refund-42 --at 3
    """
    from loom_cli.snapshot_views import head_json, head_rows
    from loom_cli.snapshots import taken

    cli = Cli.of(ctx)

    async def keep() -> SnapshotHead:
        async with cli.writer(store) as storage:
            return await taken(storage, execution_id, at, codec="zstd" if zstd else "json")

    head, screen = cli.run(keep()), cli.screen
    if as_json:
        screen.json(head_json(head), indent=None)
        return ExitCode.DONE
    screen.line(Styled(head.execution_id, "bold"), f"  is kept as it was after event {head.sequence:,}")
    for name, words in head_rows(head):
        screen.line("  ", Styled(name.ljust(11), "dim"), words)
    return ExitCode.DONE
