"""`loom import`: the runs of a bundle, brought into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, PrincipalOption, StoreOption

app = command_app()


@app.command()
def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The bundle, as `loom bundle` wrote it.")],
    *,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Bring the runs of a bundle into a store.

    All of them or none, with the same events and the same ids; what is there already stays as it is, and another run under one of the ids is
    refused. A run that has not ended goes on where it comes from: here it ends, as imported, and `loom fork` goes on with it. The store
    is made where there is none.

    Example: loom import refund-42.loombundle
    """
    from loom_cli.importing import Import

    cli = Cli.of(ctx)
    return Import(cli, app=app_, store=store).run(cli.folder / file, principal, as_json=as_json)
