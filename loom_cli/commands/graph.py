"""`loom graph`: the picture of a flow, and what a run visited of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_flows, complete_ids
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption, StoreOption

app = command_app()


class Format(StrEnum):
    """What the picture is drawn as."""

    TERMINAL = "terminal"
    SVG = "svg"
    MERMAID = "mermaid"
    JSON = "json"


@app.command()
def graph(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id.", autocompletion=complete_flows)],
    execution_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A run of it: mark what it visited.", autocompletion=complete_ids),
    ] = None,
    *,
    format_: Annotated[
        Format | None, typer.Option("--format", help="How it is drawn.", show_default="terminal")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Draw a flow, with what a run visited of it.

    It is read off the source of the project, and of the helpers that the flow calls; nothing is imported or run. With a run,
    what it visited is marked, from its log: how often, how that stands, and the last event.

    Example: loom graph refund

    Example: loom graph refund refund-42 --format svg > refund.svg
    """
    from loom_cli.picturing import draw, pictured

    if as_json and format_ not in {None, Format.JSON}:
        raise Usage(f"--json does not go with --format {format_}", hint="Leave one of them off.")
    cli = Cli.of(ctx)
    picture = pictured(cli, flow, execution_id, store=store)
    wanted = Format.JSON if as_json else format_ or Format.TERMINAL
    if wanted is Format.TERMINAL:
        draw(cli.screen, picture)
    elif wanted is Format.JSON:
        cli.screen.json(picture.json())
    else:
        cli.screen.text(picture.as_(wanted).rstrip("\n"))
    return ExitCode.DONE
