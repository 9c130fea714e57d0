"""`loom sweep content`: removes contents that nobody needs any more. Nothing else does: there is no timer."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, QuietOption, StoreOption, span

app = command_app()


@app.command()
def sweep_content(
    ctx: typer.Context,
    *,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="MODULE:NAME", help="The policy: loom.retention_policy(..., content=...)."),
    ] = None,
    ttl: Annotated[
        timedelta | None,
        typer.Option("--ttl", metavar="TIME", parser=span, help="Keep contents for so long, instead: 12h, 90d."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be removed, and remove nothing.")
    ] = False,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Remove large results that no run needs, by a policy.

    A content stays while a run that cites it has not ended, for so long after the last of them has, and while it is pinned.
    What was put or cited within the last hour always stays. Ctrl-C ends it between two pages. docs/guide/sweeping-content.md has more.

    Example: loom sweep content --policy app:POLICY --dry-run

    Example: loom sweep content --ttl 90d --json
    """
    from loom_cli.content_sweep import SweepRun
    from loom_cli.retaining import policy_at
    from loom_cli.sweeping import content_ttl_of, sweep_json, sweep_lines

    cli = Cli.of(ctx)
    said = policy_at(policy, folder=cli.folder) if policy is not None else None
    pins = said.pins if said is not None else None
    sweep = SweepRun(cli, content_ttl_of(said, ttl), pins=pins, dry_run=dry_run, quiet=quiet or as_json)
    done = sweep.run(app=app_, store=store)
    if as_json:
        cli.screen.json(sweep_json(done))
    else:
        for line in sweep_lines(done):
            cli.screen.line(line)
    return ExitCode.INTERRUPTED if done.interrupted else ExitCode.DONE
