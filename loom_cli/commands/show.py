"""`loom show`: one execution, from the fold of its log."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loom.core.state import ExecutionState
from loom.driving.stored_log import StoredLog
from loom.fingerprint import same
from loom.lenses.differing import change_json, changes
from loom.lenses.folding import fold_at
from loom_cli.calls import call_json, call_meant
from loom_cli.cli import Cli
from loom_cli.drawing import draw_call, draw_execution
from loom_cli.drivers import left_words
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.hints import Hints
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, StoreOption
from loom_cli.screen import Column
from loom_cli.standing import (
    again_words,
    answered_at,
    cancelling_at,
    has_stopped,
    require_events,
    stood,
    unread_at,
    view_of,
    whole_json,
)

app = command_app()


@app.command()
def show(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    call: Annotated[
        str | None,
        typer.Argument(metavar="CALL", help="Only this step, gate or other call of it, in full.", show_default=False),
    ] = None,
    *,
    at: Annotated[
        int | None, typer.Option("--at", metavar="N", min=0, help="As it stood after event number N, from 0.")
    ] = None,
    against: Annotated[
        int | None,
        typer.Option("--against", metavar="N", min=0, help="Only what is different from how it stood after event N."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every branch of a large scope, and every one of many like steps.")
    ] = False,
    code: Annotated[bool, typer.Option("--code", help="Compare its code with that of the app as it is.")] = False,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Say where an execution stands and what it waits for.

    The app is imported only for --code: is the code that the run is pinned to that of the app as it is?

    Example: loom show refund-42

    Example: loom show refund-42 --at 3 --json

    Example: loom show refund-42 --at 3 --against 2

    Example: loom show refund-41 map/0/fetch
    """
    cli = Cli.of(ctx)
    found = cli.run(stood(cli.reader(store), execution_id))
    log, row = found.log, found.row
    require_events(log, {"--at": at, "--against": against})
    if against is not None:
        return _tell_changes(cli, log, against, at, as_json=as_json)
    view = view_of(found, at)
    present = _present(cli, app_, store, view.flow) if code else None
    meant = call_meant(view, call) if call is not None else None
    if meant is not None and as_json:
        cli.screen.json(call_json(view, meant))
    elif meant is not None:
        draw_call(cli.screen, view, meant)
    elif as_json:
        cli.screen.json(whole_json(found, view, at, present=present_json(view.fingerprint, present)))
    else:
        left = left_words(row) if at is None and row is not None else ""
        about: Any = {"unread": unread_at(found, at) or {}, "is_cancelling": cancelling_at(found, view, at)}
        about |= {"answered": answered_at(found, view, at) or ()}
        about |= {"present": present, "left_by": left, "has_stopped": has_stopped(found, view, at)}
        about |= {"again": again_words(found, view), "main": found.main if at is None else None}
        draw_execution(cli.screen, view, Hints(view.id, store=store), now_ms=cli.now_ms(), every=every, **about)
    return ExitCode.DONE


def _state(log: StoredLog, at: int | None) -> ExecutionState:
    return fold_at(log.events, at, base=log.base)


def _tell_changes(cli: Cli, log: StoredLog, against: int, at: int | None, *, as_json: bool) -> ExitCode:
    """Print what is different between the states after two events."""
    found = changes(_state(log, against), _state(log, at))
    if as_json:
        cli.screen.json([change_json(change) for change in found])
        return ExitCode.DONE
    if not found:
        cli.screen.note("nothing is different")
        return ExitCode.DONE
    from loom_cli.changed import changed_lines

    cli.screen.table((Column("", shrink=True),), [(line,) for line in changed_lines(log, found)])
    return ExitCode.DONE


def _present(cli: Cli, app: str | None, store: str | None, flow: str) -> str:
    """Return the fingerprint of the code of *flow* as the app has it, "" if it has none."""
    runtime = cli.app(app, store=store).runtime
    return runtime.fingerprint(flow) if flow in runtime.flows else ""


def present_json(pinned: str, present: str | None) -> dict[str, Any] | None:
    """Return what is known of the code as it is, None where it was not asked for."""
    return None if present is None else {"fingerprint": present or None, "same": same(pinned, present)}
