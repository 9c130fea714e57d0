"""Arguments and options that several commands share, each with one spelling and one help text."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from loom_cli.completion import complete_flows, complete_ids

ExecutionArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The execution; any beginning of its id that is unique.", autocompletion=complete_ids
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON (docs/reference/json.md).")]
StoreOption: TypeAlias = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store: a path, or sqlite:///path.")
]
AppOption: TypeAlias = Annotated[
    str | None, typer.Option("--app", metavar="MODULE:ATTRIBUTE", help="The app, instead of app.py or [tool.loom] app.")
]
FlowFilterOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--flow", metavar="FLOW", help="Only of this flow; may be repeated.", autocompletion=complete_flows),
]

# -- of commands that drive ------------------------------------------------------------------------------------------

SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a field; the value is JSON, else text. May be repeated."),
]
WaitOption: TypeAlias = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait in place for a timer before parking."),
]
PrincipalOption: TypeAlias = Annotated[
    str | None, typer.Option("--as", metavar="PRINCIPAL", help="Who is acting, instead of LOOM_PRINCIPAL or the user.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
