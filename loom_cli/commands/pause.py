"""`loom pause`: keep runs from going on."""

from __future__ import annotations

from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import ReasonOption
from loom_cli.over_runs import Given, over_runs

app = command_app()


@app.command()
@over_runs
def pause(given: Given, *, reason: ReasonOption = None) -> ExitCode:
    """Keep a run from going on, until it is unpaused.

    Answers and messages that come meanwhile wait. A run that somebody drives is paused once its steps in flight have ended.

    Example: loom pause refund-42 --reason 'the bank is closed'

    Example: loom pause --where flow=refund --dry-run
    """
    from loom_cli.stopping import one_or_many

    return one_or_many(given, "pause", lambda runtime, id: runtime.pause(id, reason=reason, principal=given.acting))
