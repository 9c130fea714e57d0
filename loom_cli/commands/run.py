"""`loom run`: start a flow and drive it until it ends or parks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_flows
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    AppOption,
    AttrOption,
    DeadlineOption,
    JsonOption,
    PrincipalOption,
    QuietOption,
    SetOption,
    StoreOption,
    StrictOption,
    WaitOption,
)
from loom_cli.screen import Column, Screen, Styled

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom_cli.inputs import Taking

app = command_app()


_DescribeOption: TypeAlias = Annotated[
    bool, typer.Option("--describe", help="Start nothing; say what input the flow takes, and how to give it.")
]


@app.command()
def run(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id.", autocompletion=complete_flows)],
    *,
    input_: Annotated[
        str | None, typer.Option("--input", "-i", metavar="JSON", help="Its input: JSON, @FILE, or - for stdin.")
    ] = None,
    set_: SetOption = None,
    attr: AttrOption = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the run, instead of a new one.")
    ] = None,
    describe: _DescribeOption = False,
    wait_s: WaitOption = 10.0,
    deadline: DeadlineOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Drive nothing here: leave the run to a worker.")] = False,
    principal: PrincipalOption = None,
    strict: StrictOption = False,
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

    Example: loom run hello --input '"world"' --attr customer=c7 --detach
    """
    from loom.values import InvalidPayload
    from loom_cli.driving import Driving
    from loom_cli.inputs import input_given
    from loom_cli.payloads import NotJson, attributes_given
    from loom_cli.principals import principal_of

    cli = Cli.of(ctx)
    loaded = cli.app(app_, store=store, strict=strict)
    taking = _taking(loaded, flow, cli.folder)
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    options = driving.hints().options("run")
    if describe:
        _describe(cli.screen, taking, options, as_json=as_json)
        return ExitCode.DONE
    about: Any = {"id": id_, "principal": principal_of(principal), "deadline": deadline}
    try:
        about["attributes"] = attributes_given(attr or [])
        value = input_given(taking, input_, set_ or [], folder=cli.folder)
        if detach:
            return driving.enqueue(lambda runtime: runtime.enqueue(taking.flow, value, **about))
        return driving.start(
            lambda runtime: runtime.start(taking.flow, value, **about, linger_s=wait_s, started=driving.started)
        )
    except (NotJson, InvalidPayload, Usage) as refused:
        if not (isinstance(refused, Usage) and refused.hint):
            refused.hint = taking.hint(refused, options)
        raise


def _taking(app: LoomApp, flow: str, folder: Path) -> Taking:
    """Return what *flow* takes.

    Raises:
        UnknownFlow: it is not registered; where the source has it, the hint says how to do that.
    """
    from loom.core.errors import UnknownFlow
    from loom_cli.inputs import Taking

    try:
        return Taking.of(app.runtime.flow(flow))
    except UnknownFlow as unknown:
        unknown.hint = _how_to_register(flow, folder) or unknown.hint
        raise


def _how_to_register(flow: str, folder: Path) -> str:
    """Return how *flow* comes into the app, if the source has it."""
    from loom_cli.app_location import GENERATED, where_declared

    file = where_declared(flow, folder=folder)
    if not file:
        return ""
    generates = (folder / GENERATED).exists() and file.startswith("flows/")
    does = "`loom gen` registers it" if generates else "name it in define_config(flows=[...])"
    return f"{file} declares it, but the app does not have it: {does}."


def _describe(screen: Screen, taking: Taking, options: list[str], *, as_json: bool) -> None:
    """Print what the flow takes."""
    from loom_cli.schemas import described

    command = taking.command(options)
    if as_json:
        required = taking.flow.input_required
        screen.json({"flow": taking.flow.id, "input": taking.schema, "required": required, "command": command})
        return
    screen.line(Styled(taking.flow.id, "bold"), f" takes {taking.words}")
    if taking.schema is not None:
        named = [row for row in described(taking.schema) if row[0]]
        screen.table((Column(""), Column(""), Column("")), named, indent="  ")
    screen.line("  ", Styled(command, "bold"))
