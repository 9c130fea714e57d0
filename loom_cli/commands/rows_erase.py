"""`loom rows erase`: take runs out of every read model, for good."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, QueryOption, StoreOption, WhereOption, YesOption

app = command_app()


@app.command()
def rows_erase(
    ctx: typer.Context,
    execution_id: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="The runs, by their whole ids.", autocompletion=complete_ids),
    ] = None,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be removed, and remove nothing.")
    ] = False,
    yes: YesOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Take runs out of every read model, for good.

    Their rows are removed, and no model is given a row of them again; all other rows stay, and nothing is made anew. Their logs are
    not touched: `loom retention run` deletes those.

    Example: loom rows erase --where 'attr.customer="c7"' --dry-run

    Example: loom rows erase refund-42 refund-43 --yes
    """
    from loom_cli.read_models import chosen_runs, erase, erased_json, erased_words

    cli = Cli.of(ctx)
    condition = cli.like(store, where, query)
    if (condition is None) == (not execution_id):
        raise Usage("which runs?", hint="name them, or those that fit with --where 'attr.customer=\"c7\"'")
    runs = cli.run(chosen_runs(cli.reader(store), execution_id or (), condition))
    if not dry_run and not yes:
        raise Usage("what is erased does not come back", hint="--yes goes on, --dry-run counts")
    rows = cli.run(erase(cli, store, runs, dry_run=dry_run))
    if as_json:
        cli.screen.json(erased_json(runs, rows, dry_run=dry_run))
    else:
        cli.screen.line(erased_words(runs, rows, dry_run=dry_run))
    return ExitCode.DONE
