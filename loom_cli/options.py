"""Arguments and options that several commands share, each with one spelling and one help text."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from loom_cli.completion import complete_flows, complete_ids
from loom_cli.safe_text import is_utf8

ExecutionArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The execution; any beginning of its id that is unique.", autocompletion=complete_ids
    ),
]
ExecutionsArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help="The execution; any beginning of its id that is unique. Or several, with --where.",
        autocompletion=complete_ids,
        show_default=False,
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON (docs/reference/json.md).")]
EVENTS_MAX: Final = 2**63 - 1
"""The last number that an event can have: that of the stores (SQLite's integers have 64 bits)."""

StoreOption: TypeAlias = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store: a path, or sqlite:///path.")
]
AppOption: TypeAlias = Annotated[
    str | None, typer.Option("--app", metavar="MODULE:ATTRIBUTE", help="The app, instead of app.py or [tool.loom] app.")
]


def _flows(given: list[str] | None) -> list[str] | None:
    """Return *given*: bytes that are no UTF-8 name no flow, and no store can look for them."""
    for flow in given or ():
        if not is_utf8(flow):
            raise typer.BadParameter(f"{flow!r} is no flow")
    return given


FlowFilterOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--flow",
        metavar="FLOW",
        callback=_flows,
        help="Only of this flow; may be repeated.",
        autocompletion=complete_flows,
    ),
]

# -- of commands that drive ------------------------------------------------------------------------------------------

SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a field; the value is JSON, else text. May be repeated."),
]


def _seconds(given: str | float) -> float:
    """Return the number of seconds that *given* is, `inf` for ever."""
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1
    if not seconds >= 0:  # `nan` is not, either
        raise typer.BadParameter(f"{given} is no number of seconds")
    return seconds


WaitOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        parser=_seconds,
        help="How long to wait in place for a timer before parking; inf: for ever.",
    ),
]
DetachOption: TypeAlias = Annotated[
    bool, typer.Option("--detach", help="Drive nothing here: leave the run to a worker, or to who drives it.")
]
PrincipalOption: TypeAlias = Annotated[
    str | None, typer.Option("--as", metavar="PRINCIPAL", help="Who is acting, instead of LOOM_PRINCIPAL or the user.")
]
ReasonOption: TypeAlias = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, for whoever reads the log.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

# -- of commands that can be for many runs ---------------------------------------------------------------------------

WhereOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help="All runs that are so: status, flow, before, after (2h, or a time), attributes.NAME. May be repeated.",
    ),
]
DryRunOption: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="With --where: list them, and do nothing.")]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="With --where: do not ask before it begins.")]
