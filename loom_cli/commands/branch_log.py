"""`loom branch log`: what a name stood for, move by move."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import ExecutionArgument, JsonOption, StoreOption
from loom_cli.screen import Column

app = command_app()

_COLUMNS: Final = (
    Column("", right=True),
    Column("BRANCH"),
    Column("WHEN"),
    Column("BY"),
    Column("WHY", shrink=True),
)


@app.command()
def branch_log(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The name.")] = "main",
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Tell what a name stood for, move by move.

    The last move comes first. Any run of the family will do.

    Example: loom branch log refund-42 main
    """
    from loom_cli.branches import move_rows, moves_of

    cli = Cli.of(ctx)
    storage = cli.reader(store)
    moves = cli.run(moves_of(storage, execution_id, name))
    rows = move_rows(moves)
    if as_json:
        cli.screen.json([move._asdict() for move in moves])
    elif rows:
        cli.screen.table(_COLUMNS, rows)
    else:
        cli.screen.note(f"{name} was never moved: it stands for the run itself in {storage.url}")
    return ExitCode.DONE
