"""`loom retry`: try a failed run again."""

from __future__ import annotations

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    DryRunOption,
    ExecutionsArgument,
    JsonOption,
    OnChangeOption,
    PrincipalOption,
    QuietOption,
    StoreOption,
    StrictOption,
    WaitOption,
    WhereOption,
    YesOption,
)

app = command_app()


@app.command()
def retry(
    ctx: typer.Context,
    execution_id: ExecutionsArgument = None,
    *,
    on_change: OnChangeOption = None,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    strict: StrictOption = False,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Try a failed run again from its failure.

    What succeeded stays and runs no second time; a step that failed is tried again under its old key.

    Example: loom retry refund-42

    Example: loom retry --where flow=refund --where after=2h --dry-run
    """
    from loom.driving.errors import ExecutionNotFailed
    from loom_cli.bulk import Asked, Bulk, bulk_wait_s, for_one
    from loom_cli.driving import Driving
    from loom_cli.principals import principal_of
    from loom_cli.progress import progress_of
    from loom_cli.resuming import load
    from loom_cli.selecting import VERBS

    cli = Cli.of(ctx)
    asked = Asked(where or (), dry_run=dry_run, yes=yes, quiet=quiet, as_json=as_json)
    named, acting = for_one(execution_id, asked), principal_of(principal)
    loaded = cli.app(app_, store=store, strict=strict)
    if named is None:
        wait_s = bulk_wait_s(ctx, wait_s)
        bulk = Bulk(cli, loaded, VERBS["retry"])
        return bulk.run(
            asked, lambda runtime, id: runtime.retry(id, principal=acting, on_change=on_change, linger_s=wait_s)
        )
    run_id, past = cli.run(load(loaded, named))
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    try:
        return driving.go_on(
            run_id, past, lambda runtime: runtime.retry(run_id, principal=acting, on_change=on_change, linger_s=wait_s)
        )
    except ExecutionNotFailed as refused:
        refused.hint = driving.hints(run_id).going_on(progress_of(past).state)
        raise
