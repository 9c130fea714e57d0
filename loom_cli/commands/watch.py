"""`loom watch`: one run as it goes on, whoever drives it; from the store alone."""

from __future__ import annotations

import asyncio

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.interrupting import Interruption
from loom_cli.options import ExecutionArgument, JsonOption, StoreOption

app = command_app()


@app.command()
def watch(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Watch a run go on until it has ended.

    A terminal is shown the tree of its steps, redrawn in place; elsewhere there is a line a change, from the first one on.
    With --json that is the state after each event. The exit status is that of the run.

    Example: loom watch refund-41

    Example: loom watch refund-41 --json
    """
    from loom_cli.live import Live

    cli = Cli.of(ctx)
    live = Live(cli, store, as_json=as_json)
    interruption = Interruption(softly=live.stop, heard=lambda count: None, leaving=live.left)
    try:
        with interruption.handling():
            return cli.run(interruption.watch(live.run(execution_id)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return ExitCode.INTERRUPTED
    finally:
        live.end()
