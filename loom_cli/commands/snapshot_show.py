"""`loom snapshot show`: a snapshot of a run, and the state that it holds."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import EVENTS_MAX, ExecutionArgument, JsonOption, StoreOption
from loom_cli.screen import Styled

app = command_app()


@app.command()
def snapshot_show(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    at: Annotated[
        int | None,
        typer.Option(
            "--at", metavar="N", min=0, max=EVENTS_MAX, help="The newest at event number N or before, from 0."
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Say what a snapshot of a run is, and the state it holds.

    The newest, unless --at says of when. One that is damaged, or that this Loom cannot read, is told so and ends with 1; a
    run whose log is whole is driven without it all the same. --json prints the whole state.

    Example: loom snapshot show refund-42

    Example: loom snapshot show refund-42 --at 500 --json
    """
    from loom.driving.snapshots import state_of
    from loom_cli.snapshot_views import head_rows, snapshot_json, state_rows
    from loom_cli.snapshots import snapshot_at

    cli = Cli.of(ctx)
    snapshot = cli.run(snapshot_at(cli.reader(store), execution_id, at))
    head, screen = snapshot.head, cli.screen
    if not as_json:
        screen.line(Styled(head.execution_id, "bold"), f"  after event {head.sequence:,}")
        for name, words in head_rows(head):
            screen.line("  ", Styled(name.ljust(11), "dim"), words)
        screen.line()
    state = state_of(snapshot, is_needed=True)
    if as_json:
        screen.json(snapshot_json(head, state))
        return ExitCode.DONE
    for name, words in state_rows(state):
        screen.line("  ", Styled(name.ljust(11), "dim"), words)
    return ExitCode.DONE
