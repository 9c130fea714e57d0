"""`loom snapshot list`: the snapshots of a run."""

from __future__ import annotations

from typing import Final

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import ExecutionArgument, JsonOption, StoreOption
from loom_cli.screen import Column

app = command_app()

_COLUMNS: Final = (
    Column("EVENT", right=True),
    Column("CODEC"),
    Column("SIZE", right=True),
    Column("MADE"),
    Column("BY"),
    Column(""),
)


@app.command()
def snapshot_list(
    ctx: typer.Context, execution_id: ExecutionArgument, *, store: StoreOption = None, as_json: JsonOption = False
) -> ExitCode:
    """List the snapshots of a run, the newest first.

    Only of the run itself, or of the last link of its chain. Nothing is read of what they hold. Of a run that was compacted, those
    before the checkpoint are fork points: it can be forked there, and before the checkpoint nowhere else.

    Example: loom snapshot list refund-42
    """
    from loom.driving.fork_points import fork_points
    from loom_cli.snapshot_views import head_json, listed
    from loom_cli.snapshots import snapshots_of

    cli = Cli.of(ctx)
    storage = cli.reader(store)
    heads = cli.run(snapshots_of(storage, execution_id))
    if as_json:
        cli.screen.json([head_json(head) for head in heads])
    elif heads:
        cli.screen.table(_COLUMNS, [listed(head, fork_points(heads)) for head in heads])
    else:
        cli.screen.note(f"{execution_id} has no snapshots in {storage.url}")
    return ExitCode.DONE
