"""`loom cancel`: end runs, after their clean-up."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import ReasonOption, WaitOption
from loom_cli.over_runs import Given, over_runs

app = command_app()


@app.command()
@over_runs
def cancel(
    given: Given,
    *,
    reason: ReasonOption = None,
    grace_s: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="How long its clean-up may take.")
    ] = 30.0,
    force: Annotated[bool, typer.Option("--force", help="End it by the record alone: none of its code runs.")] = False,
    wait_s: WaitOption = 10.0,
) -> ExitCode:
    """End a run, after its clean-up.

    What it waits for is given up, its flow gets `loom.Cancelled` where it stands, and its children are cancelled too. A run
    that somebody else drives ends soon.

    Example: loom cancel refund-42 --reason 'ordered twice'

    Example: loom cancel --where 'flow=refund and started < -3d' --dry-run
    """
    from loom_cli.stopping import one_or_many

    acting, linger_s = given.acting, given.linger_s(wait_s)
    return one_or_many(
        given,
        "cancel",
        lambda runtime, id: runtime.cancel(
            id, reason=reason, principal=acting, grace_s=grace_s, force=force, linger_s=linger_s
        ),
    )
