"""`loom show`: one execution, from the fold of its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from loom.core.missing import MISSING
from loom.core.state import TERMINAL, ExecutionState
from loom.driving.stored_log import StoredLog
from loom.fingerprint import same
from loom.lenses.differing import change_json, changes
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at
from loom.lenses.inbox import UnreadMessage
from loom.lenses.shapes import execution_json
from loom.spi.event_store import ExecutionRow, Storage
from loom_cli.calls import call_json, call_meant
from loom_cli.cli import Cli
from loom_cli.drawing import draw_call, draw_execution
from loom_cli.drivers import is_cancelling, left_words
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.hints import Hints
from loom_cli.options import AppOption, ExecutionArgument, JsonOption, StoreOption
from loom_cli.reading import children_of, log_meant, unread_of
from loom_cli.screen import Styled

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
    log, row, pending, children = cli.run(_read(cli.reader(store), execution_id))
    _require_events(log, {"--at": at, "--against": against})
    if against is not None:
        return _tell_changes(cli, log, against, at, as_json=as_json)
    view = execution_view(_state(log, at), log.events, base=log.base, children=children)
    present = _present(cli, app_, store, view.flow) if code else None
    unread = dict(Counter(message.topic for message in pending)) if at is None else None  # past ones are not kept
    is_asked = at is None and row is not None and is_cancelling(row)  # by a request that no driver has journaled yet
    cancelling = view.status not in TERMINAL and (view.cancel is not None or is_asked)
    meant = call_meant(view, call) if call is not None else None
    if meant is not None and as_json:
        cli.screen.json(call_json(view, meant))
    elif meant is not None:
        draw_call(cli.screen, view, meant)
    elif as_json:
        beside = {"cancelling": cancelling, "unread": unread, "present": present_json(view.fingerprint, present)}
        cli.screen.json({**execution_json(view), **beside})
    else:
        left = left_words(row) if at is None and row is not None else ""
        about: Any = {"unread": unread or {}, "is_cancelling": cancelling, "present": present, "left_by": left}
        draw_execution(cli.screen, view, Hints(view.id, store=store), now_ms=cli.now_ms(), every=every, **about)
    return ExitCode.DONE


def _state(log: StoredLog, at: int | None) -> ExecutionState:
    return fold_at(log.events, at, base=log.base)


def _require_events(log: StoredLog, numbers: Mapping[str, int | None]) -> None:
    for flag, number in numbers.items():
        if number is not None and number >= log.length:
            raise Usage(f"there is no event {number}", hint=f"{flag} {log.length - 1} is the last one")


def _tell_changes(cli: Cli, log: StoredLog, against: int, at: int | None, *, as_json: bool) -> ExitCode:
    """Print what is different between the states after two events."""
    found = changes(_state(log, against), _state(log, at))
    if as_json:
        cli.screen.json([change_json(change) for change in found])
        return ExitCode.DONE
    for change in found:
        cli.screen.line(Styled(".".join(change.path), "bold"))
        for sign, style, side in (("-", "red", change.before), ("+", "green", change.after)):
            if side is not MISSING:
                cli.screen.line(Styled(f"  {sign} ", style), cli.screen.brief(side, cli.screen.width - 4))
    if not found:
        cli.screen.note("nothing is different")
    return ExitCode.DONE


def _present(cli: Cli, app: str | None, store: str | None, flow: str) -> str:
    """Return the fingerprint of the code of *flow* as the app has it, "" if it has none."""
    runtime = cli.app(app, store=store).runtime
    return runtime.fingerprint(flow) if flow in runtime.flows else ""


def present_json(pinned: str, present: str | None) -> dict[str, Any] | None:
    """Return what is known of the code as it is, None where it was not asked for."""
    return None if present is None else {"fingerprint": present or None, "same": same(pinned, present)}


async def _read(
    storage: Storage, text: str
) -> tuple[StoredLog, ExecutionRow | None, list[UnreadMessage], Sequence[ExecutionRow]]:
    """Return the log of an execution, its row of the index, its unread messages, and its children."""
    log = await log_meant(storage, text)
    row, unread = await storage.row(log.run_id), await unread_of(storage, log.run_id)
    return log, row, unread, await children_of(storage, log.events)
