"""`loom repair index`: rebuilds the index rows of runs from their logs."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, StoreOption

app = command_app()


@app.command()
def repair_index(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="These runs; all of them without one.", autocompletion=complete_ids),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what differs, and change nothing.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Rebuild what listings show of runs from their logs.

    The status of a run, its gates, when it wakes, its attributes and whether it has ended stand in the index beside its log, which
    decides. What differs is told. A run that somebody drives is left to its driver. Ends with 1 when a row stays wrong.

    Example: loom repair index --dry-run

    Example: loom repair index refund-42
    """
    from loom_cli.repairing import Repair, repair_json, repair_lines

    cli = Cli.of(ctx)
    repair = cli.run(Repair.of(cli, ids or [], store=store, dry_run=dry_run))
    if as_json:
        cli.screen.json(repair_json(repair))
    else:
        for line in repair_lines(repair):
            cli.screen.line(line)
    return ExitCode.FAILED if repair.is_left(dry_run=dry_run) else ExitCode.DONE
