"""`loom logs`: the events of one execution, durable ones only (kernel rule 3.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, TypeAlias, cast

import typer

from loom.core.envelope import EventEnvelope
from loom.core.facts import ExecutionContinued
from loom.core.ids import ExecutionId
from loom.core.links import FIRST, link_named
from loom.core.state import ExecutionState, empty_state
from loom.driving.errors import ExecutionNotFound, SnapshotUnusable
from loom.driving.snapshots import state_of
from loom.driving.stored_log import base_beyond, checkpoint_of, log_of
from loom.kernel.codec import decode_events
from loom.lenses.folding import event_json, legible, state_digest, states
from loom.lenses.timeline import is_about
from loom.services.archived import ArchivedEvent, read_archived
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import EventRecord, Storage
from loom_cli.cli import Cli
from loom_cli.errors import AmbiguousExecution, Usage
from loom_cli.event_lines import EventLine, event_line, globs_of, matches, style_of
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.ids import meant_id
from loom_cli.options import EVENTS_MAX, ArchiveOption, ExecutionArgument, JsonOption, StoreOption
from loom_cli.readable import readable
from loom_cli.screen import Screen, Styled
from loom_cli.sought import around, holds
from loom_cli.times import date_time, day, time_of_day

app = command_app()

Event = EventEnvelope[Any]

_WIDTH_WITH_TIME: Final = 60
_MOVED: Final = " --archive URL (the one that it was moved to)"
_CANDIDATES_MAX: Final = 10
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
    text: Annotated[
        str | None,
        typer.Option(
            "--grep", metavar="TEXT", help="Only events that hold this text; a capital in it is taken as it is."
        ),
    ] = None,
    start: Annotated[
        int, typer.Option("--from", metavar="N", min=0, max=EVENTS_MAX, help="Begin with event number N.")
    ] = 0,
    archived: Annotated[
        bool, typer.Option("--archived", help="With the events that compaction moved to the archive, each marked.")
    ] = False,
    archive: ArchiveOption = None,
    with_digests: Annotated[
        bool,
        typer.Option("--digest", help="With the digest of the state after each event, as `loom show --at N` has it."),
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Print the events of an execution, or follow them.

    Of one that has continued as new, all its logs are printed, in order, or the one that is named (ID~2, the first as ID~1).

    Only what is on disk is printed, in the order of the log. --json prints one object a line.

    Example: loom logs refund-42

    Example: loom logs refund-42 --type 'STEP_*' --type '*FAILED' --json

    Example: loom logs refund-41 --step fetch

    Example: loom logs refund-42 --grep timeout

    Example: loom logs refund-42 --follow --from 4

    Example: loom logs refund-42 --archived --archive archive.db

    Example: loom logs refund-42 --digest --json
    """
    cli = Cli.of(ctx)
    globs = globs_of(type_ or [])
    if follow and archived:
        raise Usage("what is in an archive grows no more", hint="leave --follow or --archived off")
    if follow and with_digests:
        raise Usage("a state is named of what is on disk by now", hint="leave --follow or --digest off")
    if archive is not None and not archived:
        raise Usage("--archive goes with --archived", hint="add --archived, or leave it off")
    kept = cli.archive(archive, readonly=True) if archived else None
    storage = cli.reader(store)
    named = digests(storage) if with_digests else None
    moved = "" if cli.names_an_archive() else _MOVED
    listing = _Listing(
        cli.screen, storage, kept, as_json=as_json, calls=step or [], text=text, named=named, moved=moved
    )
    cli.run(listing.run(execution_id, start, globs, follow=follow))
    return ExitCode.DONE


Naming: TypeAlias = Callable[[ExecutionId, int], Awaitable[str | None]]
"""Gives the digest of the state of a run after an event; None where the events before it are not here."""


def digests(storage: Storage) -> Naming:
    """Return what names the states of the logs in *storage*, one log after the other."""
    kept: dict[ExecutionId, dict[int, ExecutionState]] = {}

    async def named(run_id: ExecutionId, sequence: int) -> str | None:
        if run_id not in kept:
            kept.clear()
            log = await log_of(storage, run_id)
            found = [log.base] if log.base is not None else []
            kept[run_id] = {state.sequence: state for state in [*found, *states(log.tail, base=log.base)]}
        state = kept[run_id].get(sequence)
        return None if state is None else state_digest(state)

    return named


class _Listing:
    """Prints events as they come; where one cites a syscall from before the first of them, its name is looked up.

    With an *archive*, those that it keeps come in their places, and are marked. With a *text*, only those that hold it. *named* names the state after an event.
    """

    def __init__(
        self,
        screen: Screen,
        storage: Storage,
        archive: ArchiveStore | None,
        *,
        as_json: bool,
        calls: list[str],
        text: str | None,
        named: Naming | None,
        moved: str,
    ) -> None:
        self._screen, self._storage, self._as_json, self._calls = screen, storage, as_json, calls
        self._text, self._named = text, named
        self._archive, self._moved = archive, moved
        self._names: dict[int, str] = {}
        self._day, self._printed = "", 0

    async def run(self, text: str, start: int, globs: list[str], *, follow: bool) -> None:
        run_id = await self._meant(text.removesuffix(FIRST))
        if not follow:
            await self._note_an_end_before(run_id, start)
        await self._logs(text, run_id, start, globs, follow=follow)
        if self._text is not None and not self._printed:
            self._screen.flush()
            self._screen.note(f"no event holds {self._text!r}{' and is like that' if globs or self._calls else ''}")

    async def _logs(self, text: str, run_id: ExecutionId, start: int, globs: list[str], *, follow: bool) -> None:
        while (after := await self._one_log(run_id, start, globs, follow=follow)) and link_named(text) is None:
            run_id, start = after, 0
            self._names, self._day = {}, ""
            if not self._as_json:
                self._screen.line(Styled(f"{run_id}", "bold"))

    async def _one_log(self, run_id: ExecutionId, start: int, globs: list[str], *, follow: bool) -> ExecutionId | None:
        """Print one log, and return the id of the link that follows it in its chain, if one does."""
        after: ExecutionId | None = None
        records = self._followed(run_id) if follow else self._stored(run_id, start)
        expected = 0 if follow else start
        async with aclosing(records):
            async for record, is_archived in records:
                if record.sequence > expected:
                    await self._note_gone(run_id, max(expected, start), record.sequence - 1)
                expected = record.sequence + 1
                [event] = decode_events(run_id, [record])
                if isinstance(event.payload, ExecutionContinued):
                    after = ExecutionId(event.payload.next)
                if hasattr(event.payload, "id"):
                    self._names[event.sequence] = event.payload.id
                if event.sequence >= start and matches(event.type, globs) and await self._is_asked_for(event):
                    await self._print(event, is_archived=is_archived)
                    self._printed += 1
                    if follow:
                        self._screen.flush()
        return after

    async def _note_gone(self, run_id: ExecutionId, first: int, last: int) -> None:
        """Say what became of the events from *first* to *last*, which the store does not have."""
        if first > last:
            return
        head = await self._storage.head(run_id)
        checkpoint = await checkpoint_of(self._storage, run_id, head.incarnation) if head is not None else None
        with suppress(SnapshotUnusable):  # then calls from before are named by their numbers
            state = state_of(checkpoint, is_needed=True) if checkpoint is not None else empty_state(run_id)
            starts = [*state.open.values(), *(settled.start for settled in state.settled)]
            self._names = {start.sequence: str(start.payload.id) for start in starts} | self._names
        events = f"event {first} is" if first == last else f"events {first} to {last} are"
        if self._archive is not None:
            where = f"neither here nor in {self._archive.url}"
        elif checkpoint is not None:
            where = f"in an archive: loom logs {run_id} --archived{self._moved}"
        else:
            where = "missing"
        self._screen.note(f"{events} {where}")

    async def _meant(self, text: str) -> ExecutionId:
        """Return the id that *text* is, or begins; one that only the archive knows, where there is an archive."""
        try:
            return await meant_id(self._storage, text)
        except ExecutionNotFound:
            if self._archive is None:
                raise
            lives = await self._archive.archived_lives(prefix=text)
            known = list(dict.fromkeys(life.execution_id for life in lives))
            if text in known or len(known) == 1:
                return known[0]
            if not known:
                raise
            raise AmbiguousExecution(
                text=text, candidates=known[:_CANDIDATES_MAX], more=len(known) > _CANDIDATES_MAX
            ) from None

    async def _note_an_end_before(self, run_id: ExecutionId, start: int) -> None:
        head = await self._storage.head(run_id)
        if head is not None and start >= head.length:
            self._screen.note(f"{run_id} has no event {start} yet; its last one is {head.length - 1}")

    async def _stored(self, run_id: ExecutionId, start: int) -> AsyncGenerator[ArchivedEvent]:
        if self._archive is not None:
            async for event in read_archived(self._storage, self._archive, run_id, start=start):
                yield event
            return
        while page := await self._storage.read(run_id, start=start):
            for record in page:
                yield ArchivedEvent(record, is_archived=False)
            start = page[-1].sequence + 1

    async def _followed(self, run_id: ExecutionId) -> AsyncGenerator[ArchivedEvent]:
        """Yield every event until the run has ended and nothing more is stored (a retry may follow an end)."""
        arrived: deque[Event] = deque()
        folded, state = states(iter(arrived.popleft, None)), empty_state(run_id)
        feed: AsyncIterator[EventRecord] = self._storage.subscribe(run_id)
        async with aclosing(cast("AsyncGenerator[EventRecord]", feed)):
            async for record in feed:
                yield ArchivedEvent(record, is_archived=False)
                if record.sequence > state.length and (base := await base_beyond(self._storage, run_id, state.length)):
                    folded, state = states(iter(arrived.popleft, None), base=base), base
                if record.sequence < state.length:
                    continue
                arrived.extend(decode_events(run_id, [record]))
                state = next(folded)
                if state.is_terminal:
                    head = await self._storage.head(run_id)
                    if head is None or head.length <= state.length:
                        return

    async def _is_asked_for(self, event: Event) -> bool:
        if self._calls:
            start = getattr(event.payload, "start", None)
            identity = (
                getattr(event.payload, "id", None) if start is None else await self._name(event.execution_id, start)
            )
            if identity is None or not any(is_about(identity, call) for call in self._calls):
                return False
        return self._text is None or holds(event, await self._line(event), self._text)

    async def _line(self, event: Event) -> EventLine:
        start = getattr(event.payload, "start", None)
        if start is not None:
            await self._name(event.execution_id, start)
        return event_line(event, lambda sequence: self._names[sequence])

    async def _print(self, event: Event, *, is_archived: bool) -> None:
        named = {} if self._named is None else {"digest": await self._named(event.execution_id, event.sequence)}
        if self._as_json:
            mark = {"archived": is_archived} if self._archive is not None else {}
            self._screen.json({**event_json(event), **mark, **named}, indent=None)
            return
        await self._draw(event, is_archived=is_archived)
        if named:
            self._screen.line(Styled(f"       state {named['digest'] or 'not known here any more'}", "dim"))

    async def _draw(self, event: Event, *, is_archived: bool) -> None:
        line, screen = await self._line(event), self._screen
        at = f"{date_time(event.at)}.{event.at % 1000:03}  "
        if screen.terminal:
            at = f"{time_of_day(event.at)}  " if screen.width >= _WIDTH_WITH_TIME else ""
        if screen.terminal and self._day != (today := day(event.at)):
            self._day = today
            screen.line(Styled(f"       {today}", "dim"))
        about = f"  {line.about}" if line.about else ""
        left = screen.width - len(f"{event.sequence:>5}  {at}") - max(_TYPE_WIDTH, len(event.type)) - len(about) - 2
        shown = "" if line.value is None else screen.brief(readable(line.value), 10**6)
        says = ", ".join(word for word in ("archived" if is_archived else "", line.says, shown) if word)
        screen.line(
            Styled(f"{event.sequence:>5}  {at}", "dim"),
            Styled(event.type.ljust(_TYPE_WIDTH), style_of(event.type)),
            about,
            Styled(
                f"  {screen.cut(self._around(says, max(left, 12)), max(left, 12))}", "red" if line.is_failure else "dim"
            ),
        )

    def _around(self, says: str, width: int) -> str:
        """Return *says* from shortly before the text that is looked for, where a terminal would cut it off before that."""
        is_cut = self._screen.terminal and self._text is not None
        return around(says, self._text or "", width, mark=self._screen.sign("ellipsis")) if is_cut else says

    async def _name(self, run_id: ExecutionId, start: int) -> str:
        """Return, and keep, the identity of the call that event *start* asked."""
        if start not in self._names:
            self._names[start] = f"event {start}"
            records = await self._storage.read(run_id, start=start, stop=start + 1)
            if not records and self._archive is not None:
                stored = read_archived(self._storage, self._archive, run_id, start=start)
                found = await anext(stored, None)
                await stored.aclose()
                records = [found.record] if found is not None and found.record.sequence == start else []
            for event in decode_events(run_id, records):
                self._names[start] = str(getattr(legible(event).payload, "id", f"event {start}"))
        return self._names[start]
