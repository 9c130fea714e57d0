"""`loom branch list`: a run and its forks, as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import ExecutionArgument, JsonOption, StoreOption
from loom_cli.screen import Column

if TYPE_CHECKING:
    from loom.core.ids import ExecutionId
    from loom.lenses.branches import BranchView

app = command_app()

_COLUMNS: Final = (
    Column("BRANCH"),
    Column("STATUS"),
    Column("AFTER", right=True),
    Column("AGE", right=True),
    Column("NAMES"),
)


@app.command()
def branch_list(
    ctx: typer.Context, execution_id: ExecutionArgument, *, store: StoreOption = None, as_json: JsonOption = False
) -> ExitCode:
    """List a run and its forks, as a tree, with their names.

    Any run of the family will do. AFTER is the last event that a fork shares with what it is a fork of.

    Example: loom branch list refund-42
    """
    from loom.lenses.branches import branch_json
    from loom_cli.branches import branch_rows, branches_of
    from loom_cli.trials import stopped_trials

    cli = Cli.of(ctx)

    async def read() -> tuple[list[BranchView], frozenset[ExecutionId]]:
        storage = cli.reader(store)
        views = await branches_of(storage, execution_id)
        return views, await stopped_trials(storage, [view.row for view in views])

    views, stopped = cli.run(read())
    if as_json:
        cli.screen.json([branch_json(view) for view in views])
    else:
        cli.screen.table(_COLUMNS, branch_rows(cli.screen, views, stopped, now_ms=cli.now_ms()))
    return ExitCode.DONE
