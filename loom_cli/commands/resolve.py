"""`loom resolve`: the verdict of a person on an effect in doubt."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, QuietOption, StoreOption, WaitOption

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom.core.state import ExecutionState

app = command_app()


class Verdict(StrEnum):
    """What came of an effect: it happened, it did not, or it is to be run again under its old key."""

    DONE = "done"
    FAILED = "failed"
    RETRY = "retry"


@app.command()
def resolve(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    step: Annotated[
        str | None, typer.Argument(metavar="STEP", help="Which step, where several are in doubt.", show_default=False)
    ] = None,
    *,
    verdict: Annotated[
        Verdict | None, typer.Option("--as", help="What came of it: done, failed, or retry to run it again.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="JSON", help="Its result (done) or why (failed): JSON, @FILE, or - for stdin."),
    ] = None,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Who decides, instead of LOOM_PRINCIPAL.")
    ] = None,
    wait_s: WaitOption = 10.0,
    app_: AppOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> ExitCode:
    """Say what came of an effect in doubt.

    A step that must not run twice is in doubt when its process was lost, or its time was up, while it ran. Find out
    what happened; then the run goes on: with its result, with a failure, or by running the step again under the same key.

    Example: loom resolve refund-42 pay --as done --value '{"receipt": "R-9"}'
    """
    from loom.values import InvalidPayload
    from loom_cli.driving import Driving
    from loom_cli.principals import principal_of
    from loom_cli.resuming import load

    if verdict is None:
        raise Usage("say what came of it", hint="--as done, --as failed or --as retry")
    cli = Cli.of(ctx)
    given = _value(value, verdict, cli)
    loaded = cli.app(app_, store=store)
    run_id, past = cli.run(load(loaded, execution_id))
    driving = Driving(cli, loaded, quiet=quiet, as_json=as_json, options={"app": app_, "store": store})
    acting: str = principal_of(principal)
    chosen: Any = verdict.value
    try:
        return driving.go_on(
            run_id,
            past,
            lambda runtime: runtime.resolve(run_id, step, chosen, value=given, principal=acting, linger_s=wait_s),
        )
    except InvalidPayload as refused:
        refused.hint = _result_hint(loaded, past.state(), step)
        raise


def _result_hint(app: LoomApp, state: ExecutionState, address: str | None) -> str:
    """Return how to give the result of the step that is in doubt."""
    from loom import values
    from loom.core.flow import resolved_hints
    from loom.core.missing import MISSING
    from loom.driving.addressing import doubt_meant
    from loom_cli.driving import steps_of
    from loom_cli.schemas import example, words
    from loom_cli.wording import step_id

    declared = {step.id: step for step in steps_of(app)}.get(step_id(state.open[doubt_meant(state, address).start]))
    schema = values.schema(resolved_hints(declared.fn).get("return", MISSING)) if declared is not None else {}
    return f"It returns {words(schema, schema)}: {example(schema, '--value', fields=False)}"


def _value(text: str | None, verdict: Verdict, cli: Cli) -> Any:
    from loom.core.missing import MISSING
    from loom_cli.payloads import json_or_text, payload_given

    if text is None:
        return None
    if verdict is Verdict.RETRY:
        raise Usage("a step that is tried again has no value yet", hint="leave --value off")
    if verdict is Verdict.FAILED and text != "-" and not text.startswith("@"):
        return json_or_text(text, "--value")
    given = payload_given(text, [], flag="--value", folder=cli.folder)
    return None if given is MISSING else given
