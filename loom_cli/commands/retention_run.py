"""`loom retention run`: deletes what ended long enough ago. Nothing else does: there is no timer."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, QuietOption, StoreOption, span

app = command_app()


@app.command()
def retention_run(
    ctx: typer.Context,
    *,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="MODULE:NAME", help="The policy: loom.retention_policy(...).")
    ] = None,
    ttl: Annotated[
        timedelta | None,
        typer.Option("--ttl", metavar="TIME", parser=span, help="Keep what has ended for so long, instead: 12h, 30d."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Begin no further family after so many runs.")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option("--archive", metavar="URL", help="Copy what goes to this archive before."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be deleted, and delete nothing.")
    ] = False,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Delete runs that ended long enough ago, by a policy.

    A run goes with its later links, its children and forks, and theirs: all in one transaction, or none. It stays while one of
    them has not ended for so long. Where the policy says how many, snapshots are pruned as well. Nothing is deleted but by this
    command. Ctrl-C ends it between two transactions. docs/guide/retention.md has more.

    Example: loom retention run --policy app:POLICY --dry-run

    Example: loom retention run --ttl 30d
    """
    from loom_cli.retaining import lines_of, policy_at, retention_json, ttl_of
    from loom_cli.retention_pass import RetentionPass

    cli = Cli.of(ctx)
    said = policy_at(policy, folder=cli.folder) if policy is not None else None
    done = RetentionPass(
        cli,
        ttl_of(said, ttl),
        dry_run=dry_run,
        runs_max=limit,
        quiet=quiet or as_json,
        pins=said.pins if said is not None else None,
        snapshots=said.snapshots if said is not None else None,
        archive=cli.archive(archive, readonly=False) if archive is not None and not dry_run else None,
    ).run(store)
    if as_json:
        cli.screen.json(retention_json(done))
    else:
        for line in lines_of(done):
            cli.screen.line(line)
    return ExitCode.INTERRUPTED if done.interrupted else ExitCode.DONE
