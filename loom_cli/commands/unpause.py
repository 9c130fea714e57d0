"""`loom unpause`: let paused runs go on."""

from __future__ import annotations

from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import WaitOption
from loom_cli.over_runs import Given, over_runs

app = command_app()


@app.command()
@over_runs
def unpause(given: Given, *, wait_s: WaitOption = 10.0) -> ExitCode:
    """Let a paused run go on.

    Example: loom unpause refund-42

    Example: loom unpause --where flow=refund --yes
    """
    from loom_cli.stopping import one_or_many

    acting, linger_s = given.acting, given.linger_s(wait_s)
    return one_or_many(given, "unpause", lambda runtime, id: runtime.unpause(id, principal=acting, linger_s=linger_s))
