"""`loom retry`: try a failed run again."""

from __future__ import annotations

from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import OnChangeOption, StrictOption, WaitOption
from loom_cli.over_runs import Given, over_runs

app = command_app()


@app.command()
@over_runs
def retry(
    given: Given, *, on_change: OnChangeOption = None, wait_s: WaitOption = 10.0, strict: StrictOption = False
) -> ExitCode:
    """Try a failed run again from its failure.

    What succeeded stays and runs no second time; a step that failed is tried again under its old key.

    Example: loom retry refund-42

    Example: loom retry --where 'flow=refund and started > -2h' --dry-run
    """
    from loom.driving.errors import ExecutionNotFailed
    from loom_cli.branches import say_main, say_parent
    from loom_cli.bulk import Bulk
    from loom_cli.driving import Driving
    from loom_cli.resuming import load
    from loom_cli.selecting import VERBS

    cli, app, asked = given.cli, given.app(strict=strict), given.asked
    acting, linger_s = given.acting, given.linger_s(wait_s)
    if given.named is None:
        return Bulk(cli, app, VERBS["retry"]).run(
            asked, lambda runtime, id: runtime.retry(id, principal=acting, on_change=on_change, linger_s=linger_s)
        )
    run_id, past = cli.run(load(app, given.named))
    cli.run(say_main(app, run_id, cli.screen))
    cli.run(say_parent(app, past.state(), cli.screen))
    driving = Driving(cli, app, quiet=asked.quiet, as_json=asked.as_json, options=given.options)
    try:
        return driving.go_on(
            run_id,
            past,
            lambda runtime: runtime.retry(run_id, principal=acting, on_change=on_change, linger_s=linger_s),
        )
    except ExecutionNotFailed as refused:
        refused.hint = driving.hints(run_id).going_on(past.state())
        raise
