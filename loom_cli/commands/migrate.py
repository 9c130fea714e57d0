"""`loom migrate`: move a run to the code as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, PrincipalOption, ReasonOption, StoreOption

if TYPE_CHECKING:
    from loom.driving.migrating import Migration

app = command_app()


@app.command()
def migrate(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="HASH|current", help="The fingerprint that the code must have, or its beginning."),
    ] = "current",
    flow: Annotated[str | None, typer.Option("--flow", metavar="FLOW", help="Another flow to go on as.")] = None,
    input_: Annotated[
        str | None,
        typer.Option("--input", "-i", metavar="JSON", help="What its body is given from here on: JSON, @FILE, or -."),
    ] = None,
    reason: ReasonOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it comes to; write nothing.")] = False,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Move a run to the code as it is, and leave it where it stands.

    It is replayed first. Where the code does not ask for what is recorded, both sides are shown and nothing is written.
    `loom resume` then goes on with it.

    Example: loom migrate refund-42 --dry-run

    Example: loom migrate refund-42 --to current --reason 'the form has a new field' --input @refund.json
    """
    from loom_cli.hints import Hints
    from loom_cli.ids import meant_id
    from loom_cli.migrations import migration_json, migration_rows, moved_words, next_verb
    from loom_cli.payloads import payload_given
    from loom_cli.principals import principal_of
    from loom_cli.screen import Styled

    cli = Cli.of(ctx)
    input, acting = payload_given(input_, [], flag="--input", folder=cli.folder), principal_of(principal)
    loaded = cli.app(app_, store=store)

    async def moved() -> Migration:
        async with loaded:
            run_id = await meant_id(loaded.storage, execution_id)
            return await loaded.runtime.migrate(
                run_id, flow, to=to, input=input, reason=reason, principal=acting, dry_run=dry_run
            )

    migration = cli.run(moved())
    if as_json:
        cli.screen.json(migration_json(migration), indent=None)
        return ExitCode.DONE
    hints = Hints(migration.execution_id, app_, store)
    cli.screen.line(Styled(migration.execution_id, "bold"), "  ", moved_words(migration))
    for label, words in migration_rows(migration):
        cli.screen.line("  ", Styled(label, "dim"), words)
    cli.screen.line(Styled("  try   ", "dim"), hints.command(next_verb(migration)))
    return ExitCode.DONE
