"""`loom unpause`: let paused runs go on."""

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
    PrincipalOption,
    QuietOption,
    StoreOption,
    WaitOption,
    WhereOption,
    YesOption,
)

app = command_app()


@app.command()
def unpause(
    ctx: typer.Context,
    execution_id: ExecutionsArgument = None,
    *,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Let a paused run go on.

    Example: loom unpause refund-42

    Example: loom unpause --where flow=refund --yes
    """
    from loom_cli.bulk import Asked, bulk_wait_s, for_one
    from loom_cli.principals import principal_of
    from loom_cli.stopping import one_or_many

    cli = Cli.of(ctx)
    asked = Asked(where or (), dry_run=dry_run, yes=yes, quiet=quiet, as_json=as_json)
    named, acting = for_one(execution_id, asked), principal_of(principal)
    loaded, options = cli.app(app_, store=store), {"app": app_, "store": store}
    linger_s = wait_s if named is not None else bulk_wait_s(ctx, wait_s)
    return one_or_many(
        cli,
        loaded,
        "unpause",
        lambda runtime, id: runtime.unpause(id, principal=acting, linger_s=linger_s),
        named=named,
        asked=asked,
        options=options,
    )
