"""`loom send`: a message for a run, received by its flow with `ctx.receive`."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    DetachOption,
    ExecutionArgument,
    JsonOption,
    PrincipalOption,
    QuietOption,
    SetOption,
    StoreOption,
    WaitOption,
)

app = command_app()


@app.command()
def send(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What the flow receives it by.")],
    message: Annotated[
        str | None, typer.Argument(metavar="[MESSAGE]", help="JSON, @FILE, or - for stdin; null unless given.")
    ] = None,
    *,
    set_: SetOption = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Send it once: again under this key, it is nothing.")
    ] = None,
    detach: DetachOption = False,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Send a message to a run, whether it waits for it yet or not.

    The message is kept until the flow receives it. A run that is parked for its topic is driven on; one that is being
    driven finds it there.

    Example: loom send refund-42 notes '"the customer called"'

    Example: loom send refund-42 payments --set amount=40 --key psp-77 --detach
    """
    from loom.core.missing import MISSING
    from loom_cli.payloads import payload_given
    from loom_cli.principals import principal_of
    from loom_cli.sending import Sending

    cli = Cli.of(ctx)
    given = payload_given(message, set_ or [], flag="MESSAGE", folder=cli.folder)
    sent, acting = None if given is MISSING else given, principal_of(principal)
    options = {"app": app_, "store": store}
    sending = Sending(cli=cli, app=cli.app(app_, store=store), options=options, quiet=quiet, as_json=as_json)
    return sending.do(
        execution_id,
        topic,
        lambda runtime, run_id, drive: runtime.send(
            run_id, topic, sent, key=key, principal=acting, drive=drive, linger_s=wait_s
        ),
        detach=detach,
    )
