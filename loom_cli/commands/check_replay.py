"""`loom check replay`: stored runs against the code as it is, run by run."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, QueryOption, StoreOption, WhereOption

app = command_app()


@app.command()
def check_replay(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="These runs.", autocompletion=complete_ids, show_default=False),
    ] = None,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    every: Annotated[bool, typer.Option("--all", help="All runs of the store.")] = False,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Replay stored runs by the code as it is.

    Of each it is said whether it can go on. Nothing is written and no effect runs. It ends with 1 when a run cannot be taken up: the code asks something else than is
    recorded, a record cannot be read, or the flow is gone. --json prints one object a line.

    Example: loom check replay --all

    Example: loom check replay --where 'flow=refund and status=suspended' --json

    Example: loom check replay refund-41 refund-42
    """
    from loom_cli.checking import check_each
    from loom_cli.replays import meant_by

    cli = Cli.of(ctx)
    meant = meant_by(ids or [], cli.like(store, where, query), every=every)
    return check_each(cli, cli.app(app_, store=store), meant, as_json=as_json)
