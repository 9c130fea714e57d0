"""`loom pause`: keep runs from going on."""

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
    ReasonOption,
    StoreOption,
    WhereOption,
    YesOption,
)

app = command_app()


@app.command()
def pause(
    ctx: typer.Context,
    execution_id: ExecutionsArgument = None,
    *,
    where: WhereOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Keep a run from going on, until it is unpaused.

    Answers and messages that come meanwhile wait. A run that somebody drives is paused once its steps in flight have ended.

    Example: loom pause refund-42 --reason 'the bank is closed'

    Example: loom pause --where flow=refund --dry-run
    """
    from loom_cli.bulk import Asked, for_one
    from loom_cli.principals import principal_of
    from loom_cli.stopping import one_or_many

    cli = Cli.of(ctx)
    asked = Asked(where or (), dry_run=dry_run, yes=yes, quiet=quiet, as_json=as_json)
    named, acting = for_one(execution_id, asked), principal_of(principal)
    loaded, options = cli.app(app_, store=store), {"app": app_, "store": store}
    return one_or_many(
        cli,
        loaded,
        "pause",
        lambda runtime, id: runtime.pause(id, reason=reason, principal=acting),
        named=named,
        asked=asked,
        options=options,
    )
