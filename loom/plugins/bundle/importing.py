"""Bringing the runs of a bundle into a store: all of them or none, and none that would be driven in two places.

Every log is read through, and folded by this code, before anything is written; its row is what that fold says, and not what the
bundle does. A run that has not ended goes on, if it does, where it comes from: here its log ends with one more fact, that
it was imported. So nobody drives it, answers it or takes it up, and it can be looked at, forked and deleted like any other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core import facts as f
from loom.core.claims import ContentNotWired
from loom.core.collecting import collected_later
from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.ids import ContentRef, ExecutionId, Incarnation
from loom.core.links import is_later_link
from loom.core.state import ExecutionState, empty_state
from loom.driving.reading import refuse_newer, refuse_newer_rules
from loom.driving.snapshots import state_of
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import evolve
from loom.plugins.bundle.file import BundleFile
from loom.plugins.bundle.shapes import LogEntry
from loom.plugins.bundle.storage import BundleStorage
from loom.rings.citing import named_in
from loom.spi.content_store import Citer, ContentStore
from loom.spi.errors import StoreCorrupt
from loom.spi.event_import import Arrival, EventImport, Taken
from loom.spi.event_store import EventRecord, Storage
from loom.spi.indexing import gates_text, index_row
from loom.spi.ref_store import Family, RefStore

_TRIES: Final = 5
ENDED_HERE: Final = "it goes on where it comes from, if it does; fork it to go on here"

Became: TypeAlias = Literal["imported", "there"]
"""What became of a log: it was brought in, or one with the same events was there already."""


class ImportConflict(LoomError):
    """Under an id that is in the bundle, the store has a log with other events; nothing was written."""

    code = "import-conflict"
    hint = "Import the bundle into another store, or delete the run that is there: loom retention run."

    def __init__(self, *, execution_id: str, sequence: int, store: str) -> None:
        self.execution_id, self.sequence, self.store = execution_id, sequence, store
        super().__init__(f"{execution_id} is there already, and is another run from event {sequence} on ({store})")


class BundleRedacted(LoomError):
    """A redacted bundle was to be taken for the runs that it tells of; nothing was done."""

    code = "bundle-redacted"
    hint = "Look at it with --store. Ask for a bundle that is not redacted where the run itself is needed."

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"values were left out of the bundle, so that it is for looking only ({store})")


class ImportedLog(NamedTuple):
    """One log of a bundle, and what *became* of it; *status* is how the run stood in the bundle, *length* how many events it had."""

    execution_id: ExecutionId
    status: str
    length: int
    became: Became
    is_ended_here: bool


class Imported(NamedTuple):
    """What became of all logs of a bundle, and how many *contents* were put into the store."""

    logs: Sequence[ImportedLog]
    contents: int


class _Coming(NamedTuple):
    """A log of the bundle as it will be: *extra* is the fact that it ends with here, *refs* is what it cites."""

    entry: LogEntry
    arrival: Arrival
    status: str
    extra: Sequence[EventRecord]
    refs: Sequence[ContentRef]


Phase: TypeAlias = Literal["reading", "writing"]
"""What an import does with events: it reads all of them, and then writes those that are not there."""


class Importing:
    """One import of *bundle* into *target*, whose contents are *contents*; *principal* is who does it.

    *told* hears how many events more were read, to be folded and checked, and later written; from a thread of the store's, too.
    """

    def __init__(
        self,
        bundle: BundleStorage,
        target: Storage,
        contents: ContentStore | None,
        *,
        principal: str | None,
        told: Callable[[Phase, int], None] = lambda _phase, _events: None,
    ) -> None:
        self._told = told
        self._bundle, self._target, self._contents, self._principal = bundle, target, contents, principal
        self._file: BundleFile = bundle.file

    async def run(self) -> Imported:
        """Bring in what is not there yet.

        Raises:
            BundleRedacted, ImportConflict, ContentNotWired: nothing was written.
            StoreCorrupt, LogCorrupt, LogNewerThanCode: the bundle is damaged, or newer than this code; the same.
            StoreError: all logs are there or none. Contents that were put already are swept in time.
        """
        manifest, target = self._file.manifest, self._target
        if manifest.redacted is not None:
            raise BundleRedacted(store=self._bundle.url)
        if not isinstance(target, EventImport):
            raise InvalidDeclaration(f"{target.url} takes in no logs", hint="Its adapter has to implement EventImport.")
        if manifest.contents and self._contents is None:
            raise ContentNotWired(what="loom import")
        await target.open()
        now_ms = await target.now_ms()
        logs = [self._coming(log, now_ms) for log in manifest.logs]
        _refuse_strays([log.arrival for log in logs], self._bundle.url)
        for _ in range(_TRIES):
            there = {log.arrival.execution_id for log in logs if await self._is_there(log)}
            coming = [log for log in logs if log.arrival.execution_id not in there]
            put = await self._put_contents(coming)
            if coming and isinstance(await target.bring([log.arrival for log in coming]), Taken):
                continue  # somebody else has brought one of them in meanwhile, or has begun another under its id
            await self._name(logs)
            return Imported([_imported(log, there) for log in logs], put)
        raise ImportConflict(execution_id=manifest.runs[0], sequence=0, store=target.url)

    # -- what comes --------------------------------------------------------------------------------------------------------

    def _coming(self, log: LogEntry, now_ms: int) -> _Coming:
        refs: dict[ContentRef, None] = {}
        state = self._folded(log, refs)
        extra: list[EventRecord] = []
        status, ended = state.status, state
        if not state.is_terminal:
            ended, record = self._ended(state, now_ms)
            extra.append(record)
        index = index_row(ended, gates_text(ended))
        source = self._source(log)
        arrival = Arrival(
            execution_id=log.row.execution_id,
            index=index,
            length=ended.length,
            pages=lambda: _with(self._pages(log, "writing"), extra),
            checkpoint=self._file.checkpoint(log),
            source=source,
        )
        return _Coming(log, arrival, status, extra, list(refs))

    def _folded(self, log: LogEntry, refs: dict[ContentRef, None]) -> ExecutionState:
        """Return the state of a log, and note what it cites.

        Raises:
            LogCorrupt: it is not whole, or does not fit itself.
        """
        run_id, checkpoint = log.row.execution_id, self._file.checkpoint(log)
        state = empty_state(run_id)
        if checkpoint is not None:
            state = state_of(checkpoint, is_needed=True)
            refuse_newer_rules(run_id, state.facts.rules)
            refs.update(dict.fromkeys(named_in(checkpoint.body)))
        for page in self._pages(log, "reading"):
            with collected_later():
                events = decode_events(run_id, page)
                refuse_newer(events)
                for record, event in zip(page, events, strict=True):
                    refs.update(dict.fromkeys(named_in(record.payload)))
                    state = _next(
                        state, event, is_kept=checkpoint is not None and event.sequence <= checkpoint.head.sequence
                    )
        if state.length != log.row.length:
            why = f"the log should hold {log.row.length} events without a gap"
            raise LogCorrupt(execution_id=run_id, sequence=state.length, why=why)
        return state

    def _pages(self, log: LogEntry, phase: Phase) -> Iterator[Sequence[EventRecord]]:
        for page in self._file.pages(log):
            yield page
            self._told(phase, len(page))

    def _ended(self, state: ExecutionState, now_ms: int) -> tuple[ExecutionState, EventRecord]:
        """Return the state of a run that ends here, and the fact with which it does."""
        fact = f.ExecutionCancelled("imported", ENDED_HERE)
        about = {"principal": self._principal} if self._principal else {}
        at = max(now_ms, state.at)
        event = EventEnvelope(state.execution_id, state.length, "EXECUTION_CANCELLED", at, fact, about)
        return evolve(state, event), encode_event(event)

    def _source(self, log: LogEntry) -> tuple[ExecutionId, int] | None:
        """Return what a log is a fork of, where that is in the bundle before it."""
        if log.source is None:
            return None
        logs = self._file.manifest.logs
        before = {each.row.execution_id for each in logs[: logs.index(log)]}
        return (log.source.execution_id, log.source.through) if log.source.execution_id in before else None

    # -- what is there -----------------------------------------------------------------------------------------------------

    async def _is_there(self, log: _Coming) -> bool:
        """Whether the store has the log already, as it is in the bundle or gone on from there.

        Raises:
            ImportConflict: it has another under its id.
        """
        run_id, whole = log.arrival.execution_id, log.entry.row.length
        head = await self._target.head(run_id)
        if head is None:
            return False
        for page in self._file.pages(log.entry):
            start, stop = page[0].sequence, page[-1].sequence + 1
            kept = {record.sequence: record async for record in _between(self._target, run_id, start, stop)}
            for record in page:
                mine = kept.get(record.sequence)
                is_compacted = mine is None and record.sequence < head.length
                if not is_compacted and mine != record:
                    raise ImportConflict(execution_id=run_id, sequence=record.sequence, store=self._target.url)
        if head.length < whole:
            raise ImportConflict(execution_id=run_id, sequence=head.length, store=self._target.url)
        return True

    # -- what is written ---------------------------------------------------------------------------------------------------

    async def _put_contents(self, coming: Sequence[_Coming]) -> int:
        """Put what the logs cite, and note that they do, before they are there; return how many contents were not there."""
        contents, inside = self._contents, self._file.manifest.contents
        cited = [(ref, Citer(log.arrival.execution_id, None)) for log in coming for ref in log.refs if ref in inside]
        if contents is None or not cited:
            return 0
        wanted = sorted({ref for ref, _ in cited})
        lacking = [ref for ref in wanted if ref not in await contents.sizes([ref])]
        for ref in lacking:
            await contents.put_stream(_pieces(self._file.content(ref)))
        await contents.cite(cited)
        return len(lacking)

    async def _name(self, logs: Sequence[_Coming]) -> None:
        """Let the branches have their names, as far as the store has none that are others."""
        target = self._target
        if not isinstance(target, RefStore):
            return
        for log in logs:
            head = await target.head(log.arrival.execution_id) if log.entry.names else None
            for name, moves in log.entry.names.items() if head is not None else ():
                family = Family(log.arrival.execution_id, head.incarnation if head is not None else Incarnation(0))
                there = len(await target.ref_moves(family, name))
                for move in moves[there:]:
                    await target.move_ref(family, name, move)


def _next(state: ExecutionState, event: EventEnvelope[Any], *, is_kept: bool) -> ExecutionState:
    """Return the state after *event*; one that compaction has kept is in the state already."""
    if is_kept:
        return state
    if event.sequence != state.length:
        why = f"event {state.length} is missing"
        raise LogCorrupt(execution_id=state.execution_id, sequence=event.sequence, why=why)
    return evolve(state, event)


def _refuse_strays(arrivals: Sequence[Arrival], url: str) -> None:
    """Refuse a later link without the first of its chain: it would stand for a chain of the store's.

    Raises:
        StoreCorrupt: there is one.
    """
    ids = {arrival.execution_id for arrival in arrivals}
    for arrival in arrivals:
        id, chain = arrival.execution_id, arrival.index.chain
        if chain not in ids or (id != chain and not (is_later_link(id) and id.startswith(f"{chain}~"))):
            raise StoreCorrupt(f"{id} says that it is of {chain}, which is no run of the bundle", store=url)


def _with(pages: Iterable[Sequence[EventRecord]], extra: Sequence[EventRecord]) -> Iterator[Sequence[EventRecord]]:
    yield from pages
    if extra:
        yield extra


def _imported(log: _Coming, there: set[ExecutionId]) -> ImportedLog:
    run_id, is_there = log.arrival.execution_id, log.arrival.execution_id in there
    ended_here = bool(log.extra) and not is_there
    return ImportedLog(run_id, log.status, log.entry.row.length, "there" if is_there else "imported", ended_here)


async def _between(storage: Storage, run_id: ExecutionId, start: int, stop: int) -> AsyncIterator[EventRecord]:
    while start < stop and (page := await storage.read(run_id, start=start, stop=stop)):
        for record in page:
            yield record
        start = page[-1].sequence + 1


async def _pieces(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
