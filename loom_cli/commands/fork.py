"""`loom fork`: begin a run as a copy of another, to try another way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import (
    EVENTS_MAX,
    AppOption,
    ExecutionArgument,
    JsonOption,
    PrincipalOption,
    ReasonOption,
    StoreOption,
)

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom.core.state import ExecutionState
    from loom_cli.hints import Hints

app = command_app()

ReuseOption: TypeAlias = Annotated[
    bool, typer.Option("--reuse", help="Serve what it asks alike from the other run, and do none of it again.")
]


@app.command()
def fork(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="N", min=0, max=EVENTS_MAX, help="The last event that the fork shares, from 0."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="CALL", help="Give this step, gate, decision or receive another outcome."),
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", metavar="CALL", help="Ask this step with other arguments.")
    ] = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="What it is given instead: JSON, @FILE, or -.")
    ] = None,
    reuse: ReuseOption = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="With --reuse: do what the other run has no outcome for, instead of stopping."),
    ] = False,
    new_id: Annotated[str | None, typer.Option("--id", metavar="NEW", help="The id of the fork.")] = None,
    reason: ReasonOption = None,
    principal: PrincipalOption = None,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Begin a run as a copy of another, to try another way.

    The other run is not touched. What stood open when event N had happened is asked anew: gates get answers of their own, and a
    step that was under way is done again. Nobody drives the fork until it is resumed. With --output or --input one thing is
    another in the fork, which begins just before it. Of a run that has continued as new the last log is meant, as in `loom show`; ID~1
    and the like name another. With --reuse that is all that is done when it is resumed: results, answers,
    messages and sleeps come from the other run, as long as it asks the same.

    Example: loom fork refund-42 --at 3

    Example: loom fork refund-41 --output approval --value false --reason 'had she said no'

    Example: loom fork refund-41 --input assess_risk --value '{"claim": "c-8"}' --reuse --live
    """
    from loom_cli.forks import edit_given, reuse_given
    from loom_cli.hints import Hints
    from loom_cli.principals import principal_of
    from loom_cli.reading import log_named

    cli = Cli.of(ctx)
    edit, acting = edit_given(at, output, input_, value, folder=cli.folder), principal_of(principal)
    loaded = _app(cli, app_, store)
    wish: Any = {"edit": edit, "reuse": reuse_given(reuse=reuse, live=live), "reason": reason, "principal": acting}

    async def forked() -> ExecutionState:
        async with loaded:
            run_id = await log_named(loaded.storage, execution_id)
            outcome = await loaded.runtime.fork(run_id, at=at, id=new_id, **wish)
            return await loaded.runtime.load_state(outcome.execution_id)

    state = cli.run(forked())
    _tell(cli, state, Hints(state.execution_id, app_, store), as_json=as_json)
    return ExitCode.DONE


def _tell(cli: Cli, state: ExecutionState, hints: Hints, *, as_json: bool) -> None:
    from loom_cli.forks import fork_json, fork_words
    from loom_cli.screen import Styled

    if as_json:
        cli.screen.json(fork_json(state), indent=None)
        return
    cli.screen.line(Styled(state.execution_id, "bold"), "  ", fork_words(state))
    cli.screen.line(Styled("  try   ", "dim"), hints.command("resume"))


def _app(cli: Cli, app: str | None, store: str | None) -> LoomApp:
    """Return the app; where there is none, one without flows: none of their code is needed to copy a log."""
    from loom_cli.errors import AppNotFound

    try:
        return cli.app(app, store=store)
    except AppNotFound:
        if app is not None:
            raise
    from loom.app.config import define_config

    cli.run(_must_be_there(cli, store))
    return define_config(storage=cli.made(store))


async def _must_be_there(cli: Cli, store: str | None) -> None:
    async with cli.writer(store):
        pass
