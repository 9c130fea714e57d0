"""`loom retry`: try a failed run again."""

from __future__ import annotations

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    ExecutionArgument,
    JsonOption,
    PrincipalOption,
    QuietOption,
    StoreOption,
    WaitOption,
)

app = command_app()


@app.command()
def retry(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Try a failed run again from its failure.

    What succeeded stays and runs no second time; a step that failed is tried again under its old key.

    Example: loom retry refund-42
    """
    from loom.kernel.errors import ExecutionNotFailed
    from loom_cli.driving import Driving
    from loom_cli.principals import principal_of
    from loom_cli.progress import progress_of
    from loom_cli.resuming import load

    cli = Cli.of(ctx)
    loaded = cli.app(app_, store=store)
    run_id, past = cli.run(load(loaded, execution_id))
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    acting = principal_of(principal)
    try:
        return driving.go_on(run_id, past, lambda runtime: runtime.retry(run_id, principal=acting, linger_s=wait_s))
    except ExecutionNotFailed as refused:
        refused.hint = driving.hints(run_id).going_on(progress_of(past).state)
        raise
