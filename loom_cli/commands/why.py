"""`loom why`: what led to a call of a run, or to how the run stands."""

from __future__ import annotations

from typing import Annotated

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import ExecutionArgument, JsonOption, StoreOption

app = command_app()


@app.command()
def why(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    call: Annotated[
        str | None,
        typer.Argument(
            metavar="CALL", help="The step, gate or other call that is to be explained.", show_default=False
        ),
    ] = None,
    *,
    part: Annotated[
        str | None,
        typer.Option(
            "--part",
            metavar="PATH",
            help="Only this part of it, such as result[7] or claim.amount.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show all that is otherwise counted.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Say what led to a call of a run, or to its failure.

    What it was asked with is traced to the results, answers, messages and inputs that it equals, and these to theirs; then comes what
    the flow had been told before, and the code that was in force. Without CALL the failure is explained, or what the run waits
    for, or its result.

    Example: loom why refund-40

    Example: loom why refund-41 approval --all

    Example: loom why refund-42 approval --part show.claim
    """
    from loom.lenses.execution import execution_view
    from loom.lenses.folding import fold_at
    from loom.lenses.provenance import Provenance, Questions, provenance_json
    from loom_cli.calls import call_meant
    from loom_cli.explaining import draw_why, no_such_part
    from loom_cli.reading import log_meant

    cli = Cli.of(ctx)
    log = cli.run(log_meant(cli.reader(store), execution_id))
    state = fold_at(log.events, base=log.base)
    view = execution_view(state, log.events, base=log.base)
    meant = call_meant(view, call) if call is not None else None

    def asked(named: str | None) -> list[Provenance]:
        questions = Questions(view, state, log.events, part=named)
        return [questions.call(meant)] if meant is not None else questions.run()

    found = asked(part)
    if part is not None and not any(each.parts for each in found):
        raise no_such_part(part, asked(None))
    if as_json:
        cli.screen.json([provenance_json(each) for each in found])
        return ExitCode.DONE
    for each in found:
        draw_why(cli.screen, each, every=every)
    return ExitCode.DONE
