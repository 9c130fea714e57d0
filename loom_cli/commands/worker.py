"""`loom worker`: drive what can go on in a store, until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, FlowFilterOption, JsonOption, QuietOption, StoreOption, StrictOption

if TYPE_CHECKING:
    from loom.app.work import WorkOptions

app = command_app()


@app.command()
def worker(
    ctx: typer.Context,
    *,
    flow: FlowFilterOption = None,
    max_: Annotated[int, typer.Option("--max", metavar="N", min=1, help="How many runs at once at most.")] = 100,
    poll_s: Annotated[
        float, typer.Option("--poll", metavar="SECONDS", min=0.001, help="How often to look for something to do.")
    ] = 0.25,
    lease_s: Annotated[
        float | None,
        typer.Option("--lease", metavar="SECONDS", min=0.05, help="How long to hold a run without a sign of life."),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="ATTRIBUTE", help="Take turns over this search attribute, not over flows."),
    ] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when there is nothing to do.")] = False,
    strict: StrictOption = False,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Drive what can go on, until stopped.

    Timers that are due, messages to runs that wait, runs that were enqueued or whose process is gone, and schedules: any
    number of workers share one store. The first Ctrl-C or SIGTERM lets what is in flight end, and ends with 0; the second
    stops at once.

    Example: loom worker --until-idle

    Example: loom worker --max 20 --flow refund --json
    """
    from loom_cli.working import Working

    cli = Cli.of(ctx)
    loaded = cli.app(app_, store=store, strict=strict, elsewhere=False)
    if lease_s is not None:
        loaded.runtime.lease_s = lease_s
    options: WorkOptions = {"flows": flow or (), "max_drives": max_, "poll_s": poll_s, "until_idle": until_idle}
    if tenant is not None:
        options["tenant"] = tenant
    return Working(cli, loaded, quiet=quiet, as_json=as_json).run(options)
