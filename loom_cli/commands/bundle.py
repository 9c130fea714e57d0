"""`loom bundle`: runs in one file, to be looked at elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ArchiveOption, JsonOption, StoreOption

app = command_app()


@app.command()
def bundle(
    ctx: typer.Context,
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="The executions; any beginning of an id that is unique.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it, instead of ID.loombundle; - for stdout."
        ),
    ] = None,
    forks: Annotated[bool, typer.Option("--forks", help="Put the forks of the runs in, too.")] = False,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            "--redact", metavar="FIELD", help="Leave the values of this field out: card, args.card.*. May be repeated."
        ),
    ] = None,
    redact_matching: Annotated[
        list[str] | None,
        typer.Option("--redact-matching", metavar="REGEX", help="Leave out what fits this in values. May be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    archive: ArchiveOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Write runs to one file, which opens as a store.

    It holds the logs of the runs, of all links of their chains and of their children, and the contents that they name, so that it can be
    looked at, replayed and set side by side anywhere: give it as --store. With --archive, what compaction has moved away is in it.
    What was asked of a run and not taken up yet is not. With --redact, values are left out, and contents: such a bundle is for looking, and
    cannot be replayed or imported.

    Example: loom bundle refund-42

    Example: loom bundle refund-42 --forks -o incident.loombundle

    Example: loom bundle refund-42 --redact card --redact-matching '[0-9]{12,19}' -o shown.loombundle
    """
    from loom_cli.bundling import Bundling, Manner, redaction_given

    cli = Cli.of(ctx)
    bundling = Bundling(cli, app=app_, store=store, archive=archive)
    redaction = redaction_given(redact or [], redact_matching or [])
    return bundling.run(ids, out, Manner(forks=forks, redaction=redaction, force=force), as_json=as_json)
