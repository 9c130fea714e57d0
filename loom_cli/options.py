"""Arguments and options that several commands share, each with one spelling and one help text."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, TypeAlias

import typer

from loom.core.changes import OnChange
from loom.core.changes import on_change as checked
from loom.core.errors import InvalidDeclaration
from loom_cli.completion import complete_flows, complete_ids, complete_queries
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
    str | None,
    typer.Option(
        "--store", metavar="URL", help="The store: a path, or the URL of an SQLite file or a Postgres database."
    ),
]
ArchiveOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--archive", metavar="URL", help="The archive: a path, or the URL of an SQLite file or a Postgres database."
    ),
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

AttrOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--attr",
        metavar="NAME=VALUE",
        help="What it can be found by: loom ps --where 'attr.NAME=VALUE'. The value is JSON, else text. May be repeated.",
    ),
]


def seconds(given: str | float) -> float:
    """Return the number of seconds that *given* is, `inf` for ever."""
    try:
        number = float(given)
    except ValueError:
        number = -1
    if not number >= 0:  # `nan` is not, either
        raise typer.BadParameter(f"{given} is no number of seconds")
    return number


WaitOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        parser=seconds,
        help="How long to wait in place for a timer before parking; inf: for ever.",
    ),
]
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def span(given: str | timedelta) -> timedelta:
    """Return the time that *given* is: seconds, or a number with its unit, such as `90s`, `2h` or `3d`."""
    if isinstance(given, timedelta):
        return given
    number, unit = (given[:-1], given[-1:]) if given[-1:] in _UNITS_S else (given, "s")
    try:
        taken = timedelta(seconds=float(number) * _UNITS_S[unit])
    except (ValueError, OverflowError):
        taken = timedelta(0)
    if not taken > timedelta(0):
        raise typer.BadParameter(f"{given} is no time to take: write seconds, or 90s, 2h, 3d")
    return taken


DeadlineOption: TypeAlias = Annotated[
    timedelta | None,
    typer.Option(
        "--deadline", metavar="TIME", parser=span, help="Cancel it after so long, its waiting included: 90s, 2h, 3d."
    ),
]
DetachOption: TypeAlias = Annotated[
    bool, typer.Option("--detach", help="Drive nothing here: leave the run to a worker, or to who drives it.")
]
StrictOption: TypeAlias = Annotated[
    bool, typer.Option("--strict", help="Stop a flow that does itself what only a step may: docs/guide/strict.md.")
]
PrincipalOption: TypeAlias = Annotated[
    str | None, typer.Option("--as", metavar="PRINCIPAL", help="Who is acting, instead of LOOM_PRINCIPAL or the user.")
]


def _on_change(word: str) -> OnChange:
    try:
        return checked(word, "--on-change")
    except InvalidDeclaration:
        raise typer.BadParameter(f"{word} is none of check, refuse and allow") from None


OnChangeOption: TypeAlias = Annotated[
    OnChange | None,
    typer.Option(
        "--on-change",
        metavar="check|refuse|allow",
        parser=_on_change,
        help="If the code has changed since: go on where it fits, refuse to, or be lenient about arguments.",
    ),
]
SimulateOption: TypeAlias = Annotated[
    bool, typer.Option("--simulate", help="Drive a fork with the app's simulators, and touch nothing in the world.")
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
        metavar="EXPR",
        help="All runs that are so, as in 'status=failed and attr.customer=\"c7\" and started > -2h' "
        "(docs/guide/searching.md). May be repeated: all must hold.",
    ),
]
QueryOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--query",
        metavar="NAME",
        help="All runs that a query saved in [tool.loom.queries] is for. May be repeated.",
        autocompletion=complete_queries,
    ),
]
DryRunOption: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="With --where: list them, and do nothing.")]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="With --where: do not ask before it begins.")]
