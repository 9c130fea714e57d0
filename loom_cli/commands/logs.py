"""`loom logs`: the events of one execution, durable ones only (kernel rule 3.5)."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Final, cast

import typer

from loom.core.envelope import EventEnvelope
from loom.core.facts import ExecutionContinued
from loom.core.ids import ExecutionId
from loom.driving.chains import is_later_link
from loom.kernel.codec import decode_events
from loom.kernel.fold import EVENTS
from loom.lenses.folding import event_json, legible, states
from loom.spi.event_store import EventRecord, Storage
from loom_cli.calls import is_about
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.event_lines import event_line, matches, style_of, unknown_types
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.ids import meant_id
from loom_cli.options import EVENTS_MAX, ExecutionArgument, JsonOption, StoreOption
from loom_cli.readable import readable
from loom_cli.screen import Screen, Styled
from loom_cli.times import date_time, day, time_of_day

app = command_app()

Event = EventEnvelope[Any]

_WIDTH_WITH_TIME: Final = 60
_TYPE_WIDTH: Final = 19
"""The column of types: the few longer ones push their own line and no other."""


@app.command()
def logs(
    ctx: typer.Context,
    execution_id: ExecutionArgument,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only such events; `*FAILED` and the like fit; may be repeated."),
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option("--step", metavar="CALL", help="Only events of this step, gate or other call; may be repeated."),
    ] = None,
    start: Annotated[
        int, typer.Option("--from", metavar="N", min=0, max=EVENTS_MAX, help="Begin with event number N.")
    ] = 0,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Print the events of an execution, or follow them.

    Of one that has continued as new, all its logs are printed, in order.

    Only what is on disk is printed, in the order of the log. --json prints one object a line.

    Example: loom logs refund-42

    Example: loom logs refund-42 --type 'STEP_*' --type '*FAILED' --json

    Example: loom logs refund-41 --step fetch

    Example: loom logs refund-42 --follow --from 4
    """
    cli = Cli.of(ctx)
    globs = _known(type_ or [])
    listing = _Listing(cli.screen, cli.reader(store), as_json=as_json, calls=step or [])
    cli.run(listing.run(execution_id, start, globs, follow=follow))
    return ExitCode.DONE


class _Listing:
    """Prints events as they come; where one cites a syscall from before the first of them, its name is looked up."""

    def __init__(self, screen: Screen, storage: Storage, *, as_json: bool, calls: list[str]) -> None:
        self._screen, self._storage, self._as_json, self._calls = screen, storage, as_json, calls
        self._names: dict[int, str] = {}
        self._day = ""

    async def run(self, text: str, start: int, globs: list[str], *, follow: bool) -> None:
        run_id = await meant_id(self._storage, text)
        if not follow:
            await self._note_an_end_before(run_id, start)
        while (after := await self._one_log(run_id, start, globs, follow=follow)) and not is_later_link(text):
            run_id, start = after, 0
            self._names, self._day = {}, ""
            if not self._as_json:
                self._screen.line(Styled(f"{run_id}", "bold"))

    async def _one_log(self, run_id: ExecutionId, start: int, globs: list[str], *, follow: bool) -> ExecutionId | None:
        """Print one log, and return the id of the link that follows it in its chain, if one does."""
        after: ExecutionId | None = None
        records = self._followed(run_id) if follow else self._stored(run_id, start)
        async with aclosing(records):
            async for record in records:
                [event] = decode_events(run_id, [record])
                if isinstance(event.payload, ExecutionContinued):
                    after = ExecutionId(event.payload.next)
                if hasattr(event.payload, "id"):
                    self._names[event.sequence] = event.payload.id
                if event.sequence >= start and matches(event.type, globs) and await self._is_asked_for(event):
                    await self._print(event)
                    if follow:
                        self._screen.flush()
        return after

    async def _note_an_end_before(self, run_id: ExecutionId, start: int) -> None:
        head = await self._storage.head(run_id)
        if head is not None and start >= head.length:
            self._screen.note(f"{run_id} has no event {start} yet; its last one is {head.length - 1}")

    async def _stored(self, run_id: ExecutionId, start: int) -> AsyncGenerator[EventRecord]:
        while page := await self._storage.read(run_id, start=start):
            for record in page:
                yield record
            start = page[-1].sequence + 1

    async def _followed(self, run_id: ExecutionId) -> AsyncGenerator[EventRecord]:
        """Yield every event until the run has ended and nothing more is stored (a retry may follow an end)."""
        arrived: deque[Event] = deque()
        folded = states(iter(arrived.popleft, None))
        feed: AsyncIterator[EventRecord] = self._storage.subscribe(run_id)
        async with aclosing(cast("AsyncGenerator[EventRecord]", feed)):
            async for record in feed:
                yield record
                arrived.extend(decode_events(run_id, [record]))
                state = next(folded)
                if state.is_terminal:
                    head = await self._storage.head(run_id)
                    if head is None or head.length <= state.length:
                        return

    async def _is_asked_for(self, event: Event) -> bool:
        if not self._calls:
            return True
        start = getattr(event.payload, "start", None)
        identity = getattr(event.payload, "id", None) if start is None else await self._name(event.execution_id, start)
        return identity is not None and any(is_about(identity, call) for call in self._calls)

    async def _print(self, event: Event) -> None:
        if self._as_json:
            self._screen.json(event_json(event), indent=None)
            return
        start = getattr(event.payload, "start", None)
        if start is not None:
            await self._name(event.execution_id, start)
        line = event_line(event, lambda sequence: self._names[sequence])
        screen = self._screen
        at = f"{date_time(event.at)}.{event.at % 1000:03}  "
        if screen.terminal:
            at = f"{time_of_day(event.at)}  " if screen.width >= _WIDTH_WITH_TIME else ""
        if screen.terminal and self._day != (today := day(event.at)):
            self._day = today
            screen.line(Styled(f"       {today}", "dim"))
        about = f"  {line.about}" if line.about else ""
        left = screen.width - len(f"{event.sequence:>5}  {at}") - max(_TYPE_WIDTH, len(event.type)) - len(about) - 2
        shown = "" if line.value is None else screen.brief(readable(line.value), 10**6)
        says = ", ".join(word for word in (line.says, shown) if word)
        screen.line(
            Styled(f"{event.sequence:>5}  {at}", "dim"),
            Styled(event.type.ljust(_TYPE_WIDTH), style_of(event.type)),
            about,
            Styled(f"  {screen.cut(says, max(left, 12))}", "red" if line.is_failure else "dim"),
        )

    async def _name(self, run_id: ExecutionId, start: int) -> str:
        """Return, and keep, the identity of the call that event *start* asked."""
        if start not in self._names:
            self._names[start] = f"event {start}"
            for event in decode_events(run_id, await self._storage.read(run_id, start=start, stop=start + 1)):
                self._names[start] = str(getattr(legible(event).payload, "id", f"event {start}"))
        return self._names[start]


def _known(types: list[str]) -> list[str]:
    globs = [type_ if "." in type_ else type_.upper() for type_ in types]
    if unknown := unknown_types(globs):
        name = unknown[0]
        begun = [f"'{name}_*'"] if any(each.startswith(f"{name}_") for each in EVENTS) else []
        near = begun or difflib.get_close_matches(name, EVENTS) or ["STEP_COMPLETED"]
        raise Usage(f"no event is of type {name!r}", hint=f"--type {near[0]}")
    return globs
