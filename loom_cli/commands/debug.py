"""`loom debug`: a run replayed by the code at hand, stopped where its body stands, with effects off."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, StoreOption

app = command_app()


@app.command()
def debug(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    breaks: Annotated[
        list[str] | None,
        typer.Option(
            "--break",
            metavar="WHERE",
            help="Stop before:CALL, after:CALL, at:N (an event), or at the end of the log. May be repeated.",
        ),
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="Stop before each call.")] = False,
    pdb: Annotated[bool, typer.Option("--pdb", help="Hand each stop to pdb, in the frame of the flow.")] = False,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Replay a run and stop in the body of its flow.

    The flow runs again from its top, its calls are served from the log: no effect runs, and nothing is written, whatever is done at
    the prompt of pdb. `breakpoint()` in the body of a flow stops as well. Without --break it stops where the log ends.

    Example: loom debug refund-42 --break before:approval

    Example: loom debug refund-42 --break after:assess_risk --pdb
    """
    from loom_cli.breaking import Wish, look

    cli = Cli.of(ctx)
    wish = Wish(breaks or (), step=step, pdb=pdb)
    return look(cli, cli.app(app_, store=store), execution_id, wish, as_json=as_json)
