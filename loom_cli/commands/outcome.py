"""`loom outcome add`: what came of a decision, learned later."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, PrincipalOption, StoreOption

app = command_app()


class Doing(StrEnum):
    """What is done with outcomes."""

    ADD = "add"


@app.command()
def outcome(
    ctx: typer.Context,
    doing: Annotated[Doing, typer.Argument(metavar="add", help="The word `add`.")],
    execution_id: ExecutionArgument,
    *,
    decision: Annotated[
        str | None, typer.Option("--decision", metavar="ID", help="Which decision, or an ending of its id.")
    ] = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="What came of it: JSON, @FILE, or - for stdin.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="A word on it.")] = None,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Attach what came of a decision of a run, learned later.

    A rating, a conversion, a complaint: it belongs to the decision and changes nothing for the flow. The run may have ended.
    Of one that has continued as new, the last log is meant, or the one that is named: ID~2, the first as ID~1.

    Example: loom outcome add refund-42 --decision model --value 0.8 --note 'the customer stayed'
    """
    from loom.core.missing import MISSING
    from loom_cli.ids import meant_link
    from loom_cli.payloads import payload_given
    from loom_cli.principals import principal_of

    if decision is None or value is None:
        raise Usage("say of which decision, and what", hint="--decision ID --value JSON")
    cli = Cli.of(ctx)
    known, acting = payload_given(value, [], flag="--value", folder=cli.folder), principal_of(principal)
    assert known is not MISSING
    loaded = cli.app(app_, store=store)

    async def attach() -> str:
        async with loaded:
            run_id = await meant_link(loaded.storage, execution_id)
            await loaded.runtime.attach(run_id, decision, known, note=note, principal=acting)
            return run_id

    run_id = cli.run(attach())
    if as_json:
        cli.screen.json({"id": run_id, "decision": decision, "value": known, "note": note}, indent=None)
    else:
        cli.screen.note(f"attached to {decision} of {run_id}")
    return ExitCode.DONE
