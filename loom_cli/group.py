"""The command line as typer sees it: one group that imports a command when it is asked for."""

from __future__ import annotations

import difflib
import importlib
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from loom_cli.command_table import COMMANDS, ROWS
from loom_cli.errors import Usage

_ABOUT: Final = """Durable, replayable flows in plain Python.

Every command takes --json (its output, and its errors, as JSON), --debug (show tracebacks) and --help. Ids may be
shortened to any beginning that is unique. The store is --store, else LOOM_STORE, else [tool.loom] store in
pyproject.toml, else .loom/loom.db.
"""


class LazyGroup(TyperGroup):
    """Knows its commands by `command_table` alone, and imports the module of the one that runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(ROWS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        row = ROWS.get(cmd_name)
        if row is not None:
            command = get_command(importlib.import_module(row.module).app)
            command.name = row.name
            return command
        if ctx.resilient_parsing or cmd_name.startswith("-"):
            return None
        near = difflib.get_close_matches(cmd_name, ROWS)
        hint = f"loom {near[0]}" if near else "loom --help"
        raise Usage(f"there is no command {cmd_name!r}", hint=hint)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table by its sections; no command is imported for it."""
        name_width = max(map(len, ROWS))
        for section, rows in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(row.name.ljust(name_width), row.summary) for row in rows])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        named = [CompletionItem(row.name, help=row.summary) for row in ROWS.values() if row.name.startswith(incomplete)]
        return [*named, *super(TyperGroup, self).shell_complete(ctx, incomplete)]


def command_app() -> typer.Typer:
    """Return what a command module calls `app` and hangs its function on: `@app.command()`."""
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def root() -> Any:
    """Return the whole command line as one command."""
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(help=_ABOUT)(_root)
    return get_command(app)


def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
