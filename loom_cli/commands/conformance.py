"""`loom conformance`: holds an adapter to the interface that it implements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.app_location import named_object
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import JsonOption
from loom_cli.screen import Screen, Styled

if TYPE_CHECKING:
    from loom.devtools.conformance.running import Check

app = command_app()


@app.command()
def conformance(
    ctx: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which interface: event-store, clock, scheduler, ...")],
    factory: Annotated[str, typer.Argument(metavar="MODULE:FACTORY", help="What makes an adapter for each check.")],
    *,
    as_json: JsonOption = False,
) -> ExitCode:
    """Hold an adapter to its interface.

    KIND is an interface: event-store, clock, scheduler, and so on; one that there is not lists them all. The factory returns an
    adapter, or an awaitable or an async context manager of one; it may take `folder`, an empty folder, and `clock`, the time to
    go by. The same checks are classes to inherit in a test: `loom.devtools.conformance`.

    Example: loom conformance event-store loom.spi.memory:MemoryStorage
    """
    from loom.devtools.conformance import running

    cli = Cli.of(ctx)
    running.kit_of(kind)
    make = named_object(factory, "MODULE:FACTORY", folder=cli.folder)

    def told(check: running.Check) -> None:
        if not as_json:
            _tell(cli.screen, check)

    checks = cli.run(running.run(kind, make, told=told))
    failed = [check for check in checks if check.failure]
    if as_json:
        cli.screen.json({"kind": kind, "factory": factory, "checks": [check._asdict() for check in checks]})
    else:
        word = Styled("does not conform", "red") if failed else Styled("conforms", "green")
        cli.screen.line(f"{factory} ", word, f": {len(checks) - len(failed)} of {len(checks)} checks hold")
    return ExitCode.FAILED if failed else ExitCode.DONE


def _tell(screen: Screen, check: Check) -> None:
    words = check.name.removeprefix("test_").replace("_", " ")
    sign, style = ("failed", "red") if check.failure else ("done", "green")
    screen.line(Styled(f"{screen.sign(sign)} ", style), words)
    for line in filter(None, (check.failure, check.where)):
        screen.line("    ", Styled(line, "dim"))
