"""`loom check`: the static rules over the flows of a project."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption

app = command_app()


class Format(StrEnum):
    """How the findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


@app.command()
def check(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files and folders, if not this folder.", show_default=False),
    ] = None,
    *,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="RULE", help="Only this rule; may be repeated.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULE", help="Not this rule; may be repeated.")
    ] = None,
    fix_hints: Annotated[bool, typer.Option("--fix-hints", help="Print what to change, as lines of a diff.")] = False,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Text, JSON, or SARIF 2.1.0.", show_default="text")
    ] = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Find what a flow must not do, without running it.

    Flows are followed through the functions and modules of the project that they call; steps may do anything. It ends with 1
    when an error is found. `# loom: allow[RULE] REASON` on the line, or above it, allows one. docs/guide/checking.md has the rules.
    `loom check replay` holds stored runs against the code.

    Example: loom check --fix-hints

    Example: loom check flows --ignore log --format sarif
    """
    from loom_cli.linting import Asked, checked, tell

    if as_json and format_ not in {None, Format.JSON}:
        raise Usage(f"--json does not go with --format {format_}", hint="Leave one of them off.")
    cli = Cli.of(ctx)
    report = checked(cli.folder, paths or [Path()], Asked(select or [], ignore or []))
    tell(cli.screen, report, as_="json" if as_json else str(format_ or Format.TEXT), fix_hints=fix_hints)
    return ExitCode.FAILED if report.errors else ExitCode.DONE
