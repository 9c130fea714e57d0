"""`loom tail`: the events of all runs, as `loom.subscribe` gives them."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from loom.spi.where import Where, fits
from loom.spi.where_text import WhereInvalid
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.event_lines import EventLine, event_line, globs_of, matches, style_of
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import FlowFilterOption, JsonOption, StoreOption, WhereOption
from loom_cli.readable import readable
from loom_cli.screen import Screen, Styled
from loom_cli.times import date_time, time_of_day

if TYPE_CHECKING:
    from loom.coordination.subscribing import RunEvent
    from loom.spi.event_store import Storage

app = command_app()


@app.command()
def tail(
    ctx: typer.Context,
    *,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Begin behind the event that has this cursor.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Begin with the first event there is, not with what comes now.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Print what there is, all of it or what is behind --after, and end.")
    ] = False,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only such events; `*FAILED` and the like fit; may be repeated."),
    ] = None,
    flow: FlowFilterOption = None,
    where: WhereOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Follow the events of all runs, whoever drives them.

    Each comes once, once it is on disk, those of a run in their order. --json prints one object a line, with the cursor behind it:
    who is given it by --after misses nothing and sees nothing twice. --flow and --where look at a run as it is when its event is
    told; what the rows of read models have is not asked (`loom ps --where` asks it).

    Example: loom tail

    Example: loom tail --flow refund --where 'attr.customer="c7"'

    Example: loom tail --once --type '*_FAILED' --json
    """
    cli = Cli.of(ctx)
    if after is not None and every:
        raise Usage("--after and --all each say where to begin", hint="give one of them")
    wanted = Wanted(globs_of(type_ or []), flow or [], _condition(cli, where))
    cli.run(
        _tail(
            cli,
            cli.reader(store),
            "" if every or (once and after is None) else after,
            wanted,
            once=once,
            as_json=as_json,
        )
    )
    return ExitCode.DONE


def _condition(cli: Cli, where: list[str] | None) -> Where | None:
    """Return the condition on runs.

    Raises:
        WhereInvalid: it cannot be read; that rows of read models are not asked here is said with it.
    """
    try:
        return cli.where(where, None)
    except WhereInvalid as refused:
        refused.hint = f"{refused.hint} Rows of read models are not asked by `loom tail`, but by `loom ps`.".lstrip()
        raise


class Wanted(NamedTuple):
    """Which events are told: those whose type fits, of runs that are so."""

    globs: list[str]
    flows: list[str]
    where: Where | None

    async def has(self, each: RunEvent, storage: Storage) -> bool:
        """Whether *each* is told; one of a run that is gone by now is not, where it matters how that is."""
        if not matches(each.event.type, self.globs):
            return False
        if not self.flows and self.where is None:
            return True
        row = await storage.row(each.event.execution_id)
        if row is None or row.incarnation != each.incarnation:
            return False
        return (not self.flows or row.index.flow in self.flows) and (self.where is None or fits(row, self.where))


async def _tail(cli: Cli, storage: Storage, after: str | None, wanted: Wanted, *, once: bool, as_json: bool) -> None:
    from loom.coordination.subscribing import all_events
    from loom.kernel.errors import LogCorrupt
    from loom.spi.change_feed import ChangeFeed

    if after is None and isinstance(storage, ChangeFeed):
        after = await storage.latest()
    async with aclosing(all_events(storage, after=after or "", follow=not once)) as events:
        while True:
            try:
                each = await anext(events)
            except StopAsyncIteration:
                return
            except LogCorrupt as damaged:
                cli.screen.note(f"{damaged}: it is left out")
                continue
            if await wanted.has(each, storage):
                name = "" if as_json else await _call_of(each, storage)
                _print(cli.screen, each, name, as_json=as_json)


async def _call_of(each: RunEvent, storage: Storage) -> str:
    """Return the identity of the call that *each* is about; where its start is not to be read any more, which event that was."""
    from loom.kernel.codec import decode_events

    start, run_id = getattr(each.event.payload, "start", None), each.event.execution_id
    if start is None:
        return ""
    head = await storage.head(run_id)
    records = await storage.read(run_id, start=start, stop=start + 1)
    if head is not None and head.incarnation == each.incarnation and records:
        [begun] = decode_events(run_id, records)
        return str(getattr(begun.payload, "id", ""))
    return f"the call of event {start}"


def tail_json(each: RunEvent) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md: that of an event in `loom logs`, and what makes it one of many runs."""
    from loom.lenses.folding import event_json

    return {**event_json(each.event), "incarnation": each.incarnation, "cursor": each.cursor}


def _print(screen: Screen, each: RunEvent, call: str, *, as_json: bool) -> None:
    if as_json:
        screen.json(tail_json(each), indent=None)
    else:
        event = each.event
        at = time_of_day(event.at) if screen.terminal else f"{date_time(event.at)}.{event.at % 1000:03}"
        line: EventLine = event_line(event, lambda _: call)
        value = "" if line.value is None else screen.brief(readable(line.value), 10**6)
        says = "  ".join(word for word in (line.about, line.says, value) if word)
        screen.line(
            Styled(f"{at}  ", "dim"),
            f"{event.execution_id}  ",
            Styled(f"{event.sequence:>3}  ", "dim"),
            Styled(f"{event.type}  ", style_of(event.type)),
            Styled(screen.cut(says, max(screen.width // 2, 12)), "red" if line.is_failure else "dim"),
        )
    screen.flush()
