"""`loom rows list`: which read models a store has rows of."""

from __future__ import annotations

from typing import Final

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, StoreOption
from loom_cli.screen import Column

app = command_app()

_COLUMNS: Final = (Column("MODEL"), Column("VERSION"), Column("ROWS", right=True), Column("SINCE"))


@app.command()
def rows_list(ctx: typer.Context, *, store: StoreOption = None, as_json: JsonOption = False) -> ExitCode:
    """List the read models that a store has rows of.

    Each version of a model stands for other code, and has rows of its own; the newest comes first.

    Example: loom rows list
    """
    from loom_cli.read_models import listed, model_json, models_of

    cli = Cli.of(ctx)
    storage = cli.reader(store)
    models = cli.run(models_of(storage))
    if as_json:
        cli.screen.json([model_json(each) for each in models])
    elif models:
        cli.screen.table(_COLUMNS, [listed(each) for each in models])
    else:
        cli.screen.note(f"no rows of read models in {storage.url}")
    return ExitCode.DONE
