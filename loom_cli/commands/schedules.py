"""`loom schedules`: what the app declares, when it ticks next, and what became of past ticks."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from loom_cli.cli import Cli
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, StoreOption
from loom_cli.screen import Column, Styled

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom.core.schedule import Schedule
    from loom.spi.schedule_store import ScheduleCursor, ScheduleEntry

app = command_app()

_LISTED: Final = (
    Column("ID"),
    Column("FLOW", shrink=True),
    Column("CRON"),
    Column("ZONE", shrink=True),
    Column("NEXT"),
    Column("IN", right=True),
)
_RECORD: Final = (Column("TICK"), Column("BECAME"), Column("EXECUTION OR REASON"))
_BARE: Final = (Column(""), Column(""), Column(""))


@app.command()
def schedules(
    ctx: typer.Context,
    schedule_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Show this one, with the record of its ticks.")
    ] = None,
    *,
    next_: Annotated[
        int, typer.Option("--next", metavar="N", min=0, max=1000, help="How many ticks to come, of one or with --json.")
    ] = 3,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many entries of the record at most.")
    ] = 20,
    app_: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """List schedules and their next ticks, or the record of one.

    The record says what each tick started, or why it was skipped. Times are on the wall clock of the schedule's zone.

    Example: loom schedules

    Example: loom schedules nightly --next 10 --json
    """
    from loom_cli.schedule_views import listed, schedule_json

    cli = Cli.of(ctx)
    loaded = cli.app(app_, store=store)
    if schedule_id is not None:
        _show(cli, loaded, schedule_id, next_=next_, limit=limit, as_json=as_json)
        return ExitCode.DONE
    declared = list(loaded.registry.schedules.values())
    if as_json:
        cli.screen.json([schedule_json(each, cli.now_ms(), next_) for each in declared])
    elif declared:
        cli.screen.table(_LISTED, [listed(each, cli.now_ms()) for each in declared])
    else:
        cli.screen.note("the app declares no schedules")
        cli.screen.note(Styled("try: ", "bold"), "define_config(schedules=[loom.schedule(...)])")
    return ExitCode.DONE


def _show(cli: Cli, loaded: LoomApp, schedule_id: str, *, next_: int, limit: int, as_json: bool) -> None:
    from loom_cli.schedule_views import became, policies, record_json, schedule_json, upcoming

    schedule = _found(loaded, schedule_id)
    cursor, entries = cli.run(_record(loaded, schedule_id, limit))
    now_ms = cli.now_ms()
    after_ms = max(now_ms, cursor.at) if cursor is not None else now_ms
    if as_json:
        cli.screen.json({**schedule_json(schedule, after_ms, next_), **record_json(cursor, entries)})
        return
    screen = cli.screen
    screen.line(Styled(schedule.id, "bold"), f"  {schedule.flow.id}  {schedule.cron}  {schedule.tz}")
    for name, policy in policies(schedule):
        screen.line("  ", Styled(name.ljust(10), "dim"), policy)
    if ticks := upcoming(schedule, after_ms, next_, now_ms=now_ms):
        screen.line()
        screen.table(_BARE, ticks, indent="  ")
    if entries:
        screen.line()
        screen.table(_RECORD, [became(schedule, entry) for entry in entries], indent="  ")
    else:
        told = "was not seen by a worker yet" if cursor is None else "has not ticked yet"
        screen.flush()  # what is said of the list stands below it
        screen.note(f"{schedule.id} {told}, in {loaded.storage.url}")


def _found(loaded: LoomApp, schedule_id: str) -> Schedule:
    """Return the schedule.

    Raises:
        UnknownFlow: the app declares none of that id; near ones are told.
    """
    from loom.core.errors import UnknownFlow

    declared = loaded.registry.schedules
    if schedule_id not in declared:
        near = difflib.get_close_matches(schedule_id, declared)
        raise UnknownFlow(kind="schedule", name=schedule_id, near=near, known=list(declared))
    return declared[schedule_id]


async def _record(
    loaded: LoomApp, schedule_id: str, limit: int
) -> tuple[ScheduleCursor | None, Sequence[ScheduleEntry]]:
    """Return the cursor and the newest entries; a store that is not there yet has none, and is not made."""
    from loom.services.scheduling import schedule_store
    from loom.spi.errors import StoreNotFound
    from loom_cli.app_location import read_only

    storage = read_only(loaded.storage)
    try:
        record = schedule_store(storage)
        return await record.schedule_cursor(schedule_id), await record.schedule_entries(schedule_id, limit=limit)
    except StoreNotFound:
        return None, ()
    finally:
        await storage.close()
