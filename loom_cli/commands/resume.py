"""`loom resume`: answer a run that waits, or go on with one that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    ExecutionArgument,
    JsonOption,
    PrincipalOption,
    QuietOption,
    SetOption,
    StoreOption,
    WaitOption,
)

if TYPE_CHECKING:
    pass

app = command_app()


@app.command()
def resume(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    answer: Annotated[
        str | None, typer.Option("--answer", "-a", metavar="JSON", help="The answer: JSON, @FILE, or - for stdin.")
    ] = None,
    set_: SetOption = None,
    gate: Annotated[
        str | None, typer.Option("--gate", metavar="ADDRESS", help="Which gate, or an ending of its address.")
    ] = None,
    shown: Annotated[
        str | None, typer.Option("--shown", metavar="DIGEST", help="Answer only if the gate still shows just this.")
    ] = None,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Answer a run that waits, or go on with one that was cut off.

    Without an answer, a run that waits for a person shows its question: on a terminal it is asked field by field,
    elsewhere the command ends with 3. An answer is bound to what was shown.

    Example: loom resume refund-42 --set approved=true

    Example: loom resume refund-42 --gate approval --answer '{"approved": false, "reason": "too late"}'
    """
    from loom_cli.driving import Driving
    from loom_cli.payloads import payload_given
    from loom_cli.principals import principal_of
    from loom_cli.resuming import Answer, Resuming

    cli = Cli.of(ctx)
    given = Answer(payload_given(answer, set_ or [], flag="--answer", folder=cli.folder), gate, shown)
    loaded = cli.app(app_, store=store)
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    resuming = Resuming(cli, loaded, driving, principal=principal_of(principal), linger_s=wait_s)
    return resuming.resume(execution_id, given)
