"""`loom rows show`: the rows of a read model."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, StoreOption
from loom_cli.screen import Column, Styled

app = command_app()

_COLUMNS: Final = (Column("ID"), Column("EVENT", right=True), Column("ROW", shrink=True))


@app.command()
def rows_show(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The read model, as `loom rows list` has it.")],
    execution_id: Annotated[
        str,
        typer.Argument(
            metavar="[ID]",
            help="Only of this run; any beginning of its id that is unique.",
            autocompletion=complete_ids,
        ),
    ] = "",
    *,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="Rows of other code than the newest.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")] = 50,
    after: Annotated[str, typer.Option("--after", metavar="ID", help="Go on after the row of this run.")] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Print the rows of a read model, by the ids of their runs.

    A row is what the model made of a run up to an event. No app is needed to print it.

    Example: loom rows show totals

    Example: loom rows show totals refund-42 --json
    """
    from loom_cli.read_models import Wanted, row_cells, row_json, rows_meant

    cli = Cli.of(ctx)
    storage = cli.reader(store)
    rows = cli.run(rows_meant(storage, Wanted(model, version, "", after, limit + 1), execution_id))
    rows, has_more = rows[:limit], len(rows) > limit
    if as_json:
        cli.screen.json([row_json(row) for row in rows])
    elif rows:
        cli.screen.table(_COLUMNS, [row_cells(row) for row in rows])
        cli.screen.flush()
    else:
        cli.screen.note(f"no rows like that of {model} in {storage.url}")
    if has_more:
        cli.screen.note(Styled(f"there are more: --after {rows[-1].execution_id}", "dim"))
    return ExitCode.DONE
