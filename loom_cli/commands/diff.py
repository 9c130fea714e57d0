"""`loom diff`: runs side by side, by what they asked and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from loom.core.ids import ExecutionId
    from loom.driving.stored_log import StoredLog

app = command_app()


@app.command()
def diff(
    ctx: typer.Context,
    execution_ids: Annotated[
        list[str], typer.Argument(metavar="A B...", help="The executions; any beginnings of ids that are unique.")
    ],
    *,
    every: Annotated[bool, typer.Option("--all", help="Every difference, not only the first ones.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Set runs side by side, by what they asked and what came of it.

    Calls are aligned by their identity, whatever their place in the logs. The first difference is where the runs part. The
    status is 1 when there is one. `loom diff` and `loom branch compare` are one command with two names: it takes any runs of a
    flow, branches of one another or not.

    Example: loom diff refund-41 refund-42
    """
    from loom.lenses.comparing import compare, comparison_json
    from loom_cli.errors import Usage
    from loom_cli.reading import log_meant
    from loom_cli.side_by_side import draw_comparison
    from loom_cli.trials import stopped_trials

    cli = Cli.of(ctx)
    if len(execution_ids) < 2:  # one alone has nothing beside it
        raise Usage("one run has nothing to be set beside", hint="Name two, or more: loom diff A B")

    async def read() -> tuple[list[StoredLog], frozenset[ExecutionId]]:
        storage = cli.reader(store)
        logs = [await log_meant(storage, text) for text in execution_ids]
        rows = [await storage.row(log.run_id) for log in logs]
        return logs, await stopped_trials(storage, [row for row in rows if row is not None])

    logs, stopped = cli.run(read())
    comparison = compare(logs)
    if as_json:
        cli.screen.json(comparison_json(comparison), indent=None)
    else:
        draw_comparison(cli.screen, comparison, stopped, every=every)
    return ExitCode.DONE if comparison.is_same else ExitCode.FAILED
