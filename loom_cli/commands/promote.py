"""`loom promote`: let a branch be the one that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, PrincipalOption, ReasonOption, StoreOption

if TYPE_CHECKING:
    from loom.driving.promoting import Promotion

app = command_app()


@app.command()
def promote(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name that is moved to it.")] = "main",
    reason: ReasonOption = None,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Let a branch be the one that counts.

    The name is moved to it, and who did so, when and why is kept. A branch that was simulated is forked once more, and the name
    moved to that: `loom resume` then does for real what was tried. All other branches stay as they are.

    Example: loom promote refund-42-fork-x --reason 'the cheapest of the three'
    """
    from loom.driving.chains import last_link
    from loom_cli.branches import promotion_words, result_words
    from loom_cli.hints import Hints
    from loom_cli.ids import meant_id
    from loom_cli.principals import principal_of
    from loom_cli.screen import Styled

    cli = Cli.of(ctx)
    acting, loaded = principal_of(principal), cli.app(app_, store=store)

    async def promoted() -> tuple[Promotion, str]:
        async with loaded:
            run_id = await meant_id(loaded.storage, execution_id)
            promotion = await loaded.runtime.promote(run_id, name=name, reason=reason, principal=acting)
            row = await loaded.storage.row(promotion.execution_id)
            last = promotion.execution_id if row is None else (await last_link(loaded.storage, row)).execution_id
            return promotion, result_words(await loaded.runtime.load_state(last))

    promotion, lacks = cli.run(promoted())
    if as_json:
        cli.screen.json(promotion._asdict(), indent=None)
        return ExitCode.DONE
    hints = Hints(promotion.execution_id, app_, store)
    cli.screen.line(Styled(promotion.execution_id, "bold"), "  ", promotion_words(promotion))
    if promotion.again:
        cli.screen.line(Styled("  try   ", "dim"), hints.command("resume"))
    elif lacks:
        cli.screen.flush()
        cli.screen.note(lacks)
    return ExitCode.DONE
