"""The command line as typer sees it: one group that imports a command when it is asked for."""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from loom_cli.cli import Cli
from loom_cli.command_table import REFUSED, ROWS, Row, family_of
from loom_cli.errors import Usage
from loom_cli.front_page import draw_family, draw_front_page


class LazyGroup(TyperGroup):
    """Knows its commands by `command_table` alone, and imports the module of the one that runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(ROWS)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that *args* begin with, and what follows its name, which may be of two words.

        Raises:
            Usage: there will be no such command.
        """
        name = " ".join(args[:2])
        if name in REFUSED:
            why, instead = REFUSED[name]
            raise Usage(why, hint=instead)
        if name in ROWS and len(args) > 1:
            return name, self.get_command(ctx, name), args[2:]
        if args[0] not in ROWS and (family := family_of(args[0])) and not ctx.resilient_parsing:
            _tell_family(Cli.of(ctx), args[0], family, args[1:])
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command.

        Raises:
            Usage: there is no such command; one that is spelled like it is told.
        """
        row = ROWS.get(cmd_name)
        if row is not None:
            command = get_command(importlib.import_module(row.module).app)
            command.name = row.name
            return command
        if ctx.resilient_parsing or cmd_name.startswith("-"):
            return None
        near = [name for name in ROWS if name.startswith(f"{cmd_name} ")] or difflib.get_close_matches(cmd_name, ROWS)
        raise Usage(f"there is no command {cmd_name!r}", hint=f"loom {near[0]}" if near else "loom --help")

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Offer the table: no command is imported for it."""
        from typer._click.shell_completion import CompletionItem

        named = [CompletionItem(row.name, help=row.summary) for row in ROWS.values() if row.name.startswith(incomplete)]
        return [*named, *super(TyperGroup, self).shell_complete(ctx, incomplete)]


def _tell_family(cli: Cli, word: str, family: Sequence[Row], rest: Sequence[str]) -> NoReturn:
    """List the commands that begin with *word*: that is what its help is, and what it has to say by itself.

    Raises:
        Usage: there is no such command among them, or none is named.
    """
    if rest and rest[0] in ("--help", "-h"):
        draw_family(cli.screen.line, family)
        raise typer.Exit
    if rest and not rest[0].startswith("-"):
        name = f"{word} {rest[0]}"
        near = difflib.get_close_matches(name, [row.name for row in family], n=1)
        raise Usage(f"there is no command {name!r}", hint=f"loom {near[0]}" if near else f"loom {word} --help")
    if not cli.json_errors:
        draw_family(cli.screen.note, family)
    raise Usage(f"{word!r} is the first word of {len(family)} commands", hint=f"loom {family[0].name}")


class Command(TyperCommand):
    """A command that takes each option once, unless it says that it may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*.

        Raises:
            Usage: an option stands twice, and one of the two would be dropped without a word.
        """
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            counts = Counter(
                param for param in order if param.param_type_name == "option" and not getattr(param, "is_flag", False)
            )
            for param, count in counts.items():
                if count > 1 and not param.multiple:
                    raise Usage(f"{param.opts[0]} is given {count} times, and has one value", hint="Leave one of them.")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what authors print meanwhile, when the app is imported too, is no part of its result."""
        with Cli.of(ctx).screen.prints_beside_the_result():
            return super().invoke(ctx)


class CommandApp(typer.Typer):
    """Where a command module hangs its function: `@app.command()` makes a `Command` of it."""

    def command(self, *arguments: Any, **options: Any) -> Any:
        return super().command(*arguments, **{"cls": Command, **options})


def command_app() -> typer.Typer:
    """Return what a command module calls `app`."""
    return CommandApp(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def root(*, completion: bool) -> Any:
    """Return the whole command line as one command; what *completion* adds takes time that no other command needs."""
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=completion,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    return get_command(app)


def _root(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        draw_front_page(Cli.of(ctx).screen)
