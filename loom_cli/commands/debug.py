"""`loom debug`: one run in time, on a terminal, from the store alone; or replayed by the code at hand, and stopped in its body."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import EVENTS_MAX, AppOption, ExecutionArgument, JsonOption, PrincipalOption, StoreOption

app = command_app()


@app.command()
def debug(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="N", min=0, max=EVENTS_MAX, help="Begin at event number N, instead of the last."),
    ] = None,
    against: Annotated[
        int | None,
        typer.Option("--against", metavar="N", min=0, help="Compare with how it stood after event N: mark that event."),
    ] = None,
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
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Look at a run at any time of it, and inside its flow.

    On a terminal it is a debugger, from the store alone: ? lists its keys. With --json, elsewhere too, it prints what is to be seen.

    With --break, --step or --pdb the flow runs again from its top, its calls are served from the log: no effect runs, and nothing is
    written, whatever is done at the prompt of pdb. `breakpoint()` in the body of a flow stops as well.

    Example: loom debug refund-42

    Example: loom debug refund-42 --at 3 --against 1 --json

    Example: loom debug refund-42 --break before:approval

    Example: loom debug refund-42 --break after:assess_risk --pdb
    """
    cli = Cli.of(ctx)
    if breaks or step or pdb:
        from loom_cli.breaking import Wish, look

        if at is not None or against is not None:
            raise Usage("--at and --against are for looking, --break for stopping", hint=f"--break at:{at or against}")
        wish = Wish(breaks or (), step=step, pdb=pdb)
        return look(cli, cli.app(app_, store=store), execution_id, wish, as_json=as_json)
    from loom_cli.debugging import Debugging

    debugging = Debugging(cli, app=app_, store=store, principal=principal)
    return debugging.print(execution_id, at, against) if as_json else debugging.look(execution_id, at, against)
