"""`loom replay`: one stored run, driven along its log by the code at hand, and what that proves."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, StoreOption

app = command_app()


@app.command()
def replay(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    prove: Annotated[
        bool, typer.Option("--prove", help="Recompute all that can be, and fail where anything differs.")
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="PROOF",
            help="With --prove: what it has to come to: a file that --json printed, or a digest.",
        ),
    ] = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Replay a run by its log, and prove that nothing differs.

    A digest of all that was asked, given and became is printed, event by event, and one of it all. Nothing is written and no effect runs; what the flow itself asks of the network is refused. It ends with 1 when the code
    no longer asks what is recorded, or, with --prove, when anything at all differs.

    Example: loom replay refund-42

    Example: loom replay refund-42 --prove --json > refund-42.proof.json

    Example: loom replay refund-42 --prove --expect refund-42.proof.json
    """
    from loom_cli.proving import Proving

    cli = Cli.of(ctx)
    proving = Proving(cli, cli.app(app_, store=store), prove=prove or expect is not None)
    return proving.run(execution_id, expect=expect, as_json=as_json)
