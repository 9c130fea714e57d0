"""`loom backup`: copies an SQLite store while others work on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, StoreOption

app = command_app()


@app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; it must not be there yet.")],
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Copy a store that is in use, all of one moment.

    Nobody is held up. The copy has all that was committed when it began, and the contents that its runs name; it is read through
    before FILE appears. Postgres has pg_dump for that. Do not drive runs in a copy while the original drives them, too:
    docs/guide/backups.md.

    Example: loom backup loom-copy.db
    """
    from loom.plugins.sqlite.copying import copy_database
    from loom_cli.copies import copied_json, copied_words, file_of

    cli = Cli.of(ctx)
    source, target = file_of(cli.reader(store).url), cli.folder / file
    copied = copy_database(source, target)
    if as_json:
        cli.screen.json(copied_json(source, target, copied))
    else:
        cli.screen.line(copied_words(file, copied))
    return ExitCode.DONE
