"""`loom rows update`: bring the rows of read models up to date, now."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ArchiveOption, JsonOption, StoreOption

app = command_app()


@app.command()
def rows_update(
    ctx: typer.Context,
    model: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Only these; else all that the app has.")
    ] = None,
    *,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Throw the rows away first, and make all of them anew.")
    ] = False,
    drop_lacking: Annotated[
        bool, typer.Option("--drop-lacking", help="With --afresh: even those that cannot be made anew.")
    ] = False,
    archive: ArchiveOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Bring the rows of read models up to date, now.

        Workers do so by themselves. Once all rows are current, those that earlier code made are removed. It ends with 1 when a fold
        failed: the row that was there stays. Of a run that was compacted a row is made anew only with its archive (--archive, LOOM_ARCHIVE,
        or archive in [tool.loom]); without it, what it has stays, and that is told and no failure. With --afresh it would be lost, so that
    is refused, and the runs are named, unless --drop-lacking says that they may be.

        Example: loom rows update

        Example: loom rows update totals --afresh --json
    """
    if drop_lacking and not afresh:
        raise Usage("--drop-lacking goes with --afresh", hint="Without it no row is thrown away.")
    from loom_cli.read_models import archive_of, lacking_words, update, updated_json, updated_lines

    cli = Cli.of(ctx)
    loaded = cli.app(app_, store=store)
    kept = archive_of(cli, archive)
    done = cli.run(update(loaded, model or (), afresh=afresh, archive=kept, drop_lacking=drop_lacking))
    if as_json:
        cli.screen.json([updated_json(each) for each in done])
    else:
        for line in updated_lines(done):
            cli.screen.line(line)
    cli.screen.flush()
    for fault in (fault for each in done for fault in each.faults):
        cli.screen.note(str(fault))
    for each in (each for each in done if each.lacking):
        cli.screen.note(lacking_words(each, has_archive=kept is not None))
    return ExitCode.FAILED if any(each.faults for each in done) else ExitCode.DONE
