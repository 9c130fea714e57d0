"""`loom compact`: moves the first part of logs to an archive, and leaves a checkpoint for it."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    EVENTS_MAX,
    ArchiveOption,
    JsonOption,
    QueryOption,
    QuietOption,
    StoreOption,
    WhereOption,
    YesOption,
)

app = command_app()


@app.command()
def compact(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="These runs.", autocompletion=complete_ids, show_default=False),
    ] = None,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    archive: ArchiveOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="TYPE", help="Leave such events in the log: a type, or `user.*`. May be repeated."
        ),
    ] = None,
    through: Annotated[
        int | None,
        typer.Option("--through", metavar="N", min=0, max=EVENTS_MAX, help="Go no further than event number N."),
    ] = None,
    zstd: Annotated[bool, typer.Option("--zstd", help="Compress the checkpoints (needs the extra zstd).")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be moved, and move nothing.")] = False,
    yes: YesOption = False,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Move the first part of logs to an archive.

    A checkpoint stands for it: runs go on, replay and show as before, and whoever drives one meanwhile is not disturbed. The
    start of a run, its end and its last event stay in the log, and kinds of events that you ask for. What its lane has consumed
    moves as well. Killed at any moment it loses nothing; run it again. docs/guide/compaction.md has more.

    Example: loom compact refund-42 --archive archive.db

    Example: loom compact --where 'status=completed and started < -30d' --keep 'user.*' --dry-run
    """
    from loom_cli.compacting import wish_of
    from loom_cli.compaction_pass import CompactionPass
    from loom_cli.replays import meant_by

    cli = Cli.of(ctx)
    meant = meant_by(ids or [], cli.like(store, where, query), every=False)
    wish = wish_of(keep or [], through, meant.ids, zstd=zstd, dry_run=dry_run)
    kept = None if dry_run else cli.archive(archive, readonly=False)
    return CompactionPass(cli, wish, kept, quiet=quiet, as_json=as_json).run(meant, store, yes=yes)
