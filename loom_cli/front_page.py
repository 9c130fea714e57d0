"""`loom --help`: drawn from the command table alone, so that it needs no typer and no command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loom_cli.command_table import COMMANDS, ROWS, Row
from loom_cli.screen import Column, Screen, Styled

_EVERYWHERE: Final = (
    ("--json", "Print JSON, errors too (docs/reference/json.md)"),
    ("--store URL", "The store; else LOOM_STORE, pyproject.toml, .loom/loom.db"),
    ("--debug", "Show the traceback of an error"),
    ("--help", "Say what the command does, with an example"),
)
_ALONE: Final = (
    ("--version", "Print the version"),
    ("--install-completion", "Complete commands, ids and flows with Tab"),
    ("--show-completion", "Print the script that does so"),
)


def draw_front_page(screen: Screen) -> None:
    """Print what there is, by what it is for."""
    screen.line(Styled("loom", "bold"), ": durable, replayable flows in plain Python")
    width = max(map(len, [*ROWS, *(name for name, _ in _EVERYWHERE)]))
    for section, rows in COMMANDS.items():
        _draw(screen, section, [(row.name, row.summary) for row in rows], width)
    _draw(screen, "With every command", _EVERYWHERE, width)
    _draw(screen, "Alone", _ALONE)


def draw_family(print_line: Callable[..., None], family: Sequence[Row]) -> None:
    """Print the commands that begin with the same word, each with what it does."""
    width = max(len(row.name) for row in family)
    for row in family:
        print_line("  ", Styled(f"loom {row.name.ljust(width)}", "cyan"), f"  {row.summary}")


def _draw(screen: Screen, title: str, rows: Sequence[tuple[str, str]], width: int = 0) -> None:
    screen.line()
    screen.line(Styled(title, "bold"))
    columns = (Column(""), Column(""))
    screen.table(columns, [(Styled(name.ljust(width), "cyan"), text) for name, text in rows], indent="  ")
