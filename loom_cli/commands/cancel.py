"""`loom cancel`: end runs, after their clean-up."""

from __future__ import annotations

from typing import Annotated

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
    ReasonOption,
    StoreOption,
    WaitOption,
    WhereOption,
    YesOption,
)

app = command_app()


@app.command()
def cancel(
    ctx: typer.Context,
    execution_id: ExecutionsArgument = None,
    *,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    grace_s: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="How long its clean-up may take.")
    ] = 30.0,
    force: Annotated[bool, typer.Option("--force", help="End it by the record alone: none of its code runs.")] = False,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """End a run, after its clean-up.

    What it waits for is given up, its flow gets `loom.Cancelled` where it stands, and its children are cancelled too. A run
    that somebody else drives ends soon.

    Example: loom cancel refund-42 --reason 'ordered twice'

    Example: loom cancel --where flow=refund --where before=3d --dry-run
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
        "cancel",
        lambda runtime, id: runtime.cancel(
            id, reason=reason, principal=acting, grace_s=grace_s, force=force, linger_s=linger_s
        ),
        named=named,
        asked=asked,
        options=options,
    )
