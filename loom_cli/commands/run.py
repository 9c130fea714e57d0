"""`loom run`: start a flow and drive it until it ends or parks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_flows
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    JsonOption,
    PrincipalOption,
    QuietOption,
    SetOption,
    StoreOption,
    WaitOption,
)

if TYPE_CHECKING:
    from loom.core.flow import Flow

app = command_app()


@app.command()
def run(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id.", autocompletion=complete_flows)],
    *,
    input_: Annotated[
        str | None, typer.Option("--input", "-i", metavar="JSON", help="Its input: JSON, @FILE, or - for stdin.")
    ] = None,
    set_: SetOption = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the run, instead of a new one.")
    ] = None,
    wait_s: WaitOption = 10.0,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Start a flow and drive it until it ends or waits.

    The result goes to stdout, the id and the progress to stderr. Ends with 0 when it completed, 1 when it failed, 3
    when it waits for somebody, 130 after Ctrl-C; then `loom resume` goes on.

    Example: loom run refund --input '{"order": "A-17", "amount": 40}'

    Example: loom run refund --set order=A-17 --set amount=40 --json
    """
    from loom_cli.driving import Driving
    from loom_cli.payloads import payload_given
    from loom_cli.principals import principal_of

    cli = Cli.of(ctx)
    given = payload_given(input_, set_ or [], flag="--input", folder=cli.folder)
    loaded = cli.app(app_, store=store)
    found = loaded.runtime.flow(flow)
    value = _input(found, given)
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    return driving.start(
        lambda runtime: runtime.start(
            found,
            value,
            id=id_,
            principal=principal_of(principal),
            linger_s=wait_s,
            started=driving.started,
        )
    )


def _input(flow: Flow[Any, Any], given: Any) -> Any:
    """Return the JSON *given* as the input that *flow* takes.

    Raises:
        InvalidPayload: it does not fit; every field that fails is told.
    """
    from loom import values
    from loom.core.missing import MISSING

    takes, _ = flow.hints()
    return values.parse(given, takes) if given is not MISSING and flow.takes_input else given
