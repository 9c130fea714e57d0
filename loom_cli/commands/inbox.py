"""`loom inbox`: the unread messages of a run; a topic of it held back, or released."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_ids
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    DetachOption,
    JsonOption,
    PrincipalOption,
    QuietOption,
    StoreOption,
    WaitOption,
)

app = command_app()


@app.command()
def inbox(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[hold|release] ID [TOPIC]",
            help="The execution; to hold a topic of it back or to release it, say so and name it.",
            autocompletion=complete_ids,
        ),
    ],
    *,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why a topic is held back.")] = None,
    detach: DetachOption = False,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """List the unread messages of a run; hold or release a topic.

    The messages of a topic that is held back are kept and not delivered; released, they are, in their order. To look
    needs the store alone.

    Example: loom inbox refund-42

    Example: loom inbox hold refund-42 notes --reason 'somebody floods it'

    Example: loom inbox release refund-42 notes
    """
    from loom_cli.inboxes import Inboxes

    cli = Cli.of(ctx)
    inboxes = Inboxes(cli=cli, options={"app": app_, "store": store}, principal=principal, as_json=as_json)
    match words:
        case [execution_id]:
            return inboxes.show(execution_id)
        case ["hold", execution_id, topic]:
            return inboxes.hold(execution_id, topic, reason)
        case ["release", execution_id, topic]:
            return inboxes.release(execution_id, topic, detach=detach, wait_s=wait_s, quiet=quiet)
    raise Usage("that is no inbox", hint="loom inbox ID, loom inbox hold ID TOPIC or loom inbox release ID TOPIC")
