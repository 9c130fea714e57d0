"""Keeping read models current: the rows of runs whose logs have grown are folded on, and put beside the logs.

**Theory.** The index knows how long each log is, and a row after which event it stands. So what is left to do is a question to the
store (`ReadModelStore.behind`), whose answer is exact whatever was missed, by whom and why: there is no cursor over all runs
that could skip what was committed late, and no feed. Whoever drives a run notes that its log has grown (`note`); that only
makes it quicker. Rows go forward only, so any number of processes may do the same work.

Rules to keep: nothing here can fail a run, or hold one up. A fold that raises leaves the row as it is, and is told of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Final, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.ids import ExecutionId
from loom.core.read_model import ReadModel
from loom.fingerprint import fingerprint, readable
from loom.kernel.codec import decode_events
from loom.kernel.errors import LogCorrupt
from loom.services.archived import read_archived
from loom.spi.archive_store import ArchiveStore
from loom.spi.errors import StoreError
from loom.spi.event_store import EventRecord, Head, Storage
from loom.spi.read_model_store import Behind, ModelRow, ReadModelStore
from loom.values import NotSerializable, codec_for, dumps, loads, safe_text

PAGE: Final = 100
_WHY_MAX: Final = 500
NOTED_MAX: Final = 10_000
"""So many grown logs are noted; what is beyond that is found by the next pass over all."""

POLL_S: Final = 0.25
PASS_EVERY_S: Final = 30.0
"""So often a worker asks what lags among all runs: that is how what others drove without a worker is found."""
PASS_SHARE: Final = 20
"""A pass that takes long is made seldom: this many times as long as it took is left between two."""
SAID_MAX: Final = 10_000

R = TypeVar("R")


class ReadModelFailed(LoomError):
    """A fold raised, or its row cannot be kept: the row stays as it was, and the run does not know of it."""

    code = "read-model-failed"
    hint = "Mend the fold; `loom rows update` then goes on from there."

    def __init__(self, *, model: str, execution_id: str, sequence: int, why: str) -> None:
        self.model, self.execution_id, self.sequence, self.why = model, execution_id, sequence, why
        super().__init__(f"the read model {model} stops at event {sequence} of {execution_id}: {why}")


class ReadModelLacksEvents(LoomError):
    """A row cannot be made: compaction has moved events of the run to an archive."""

    code = "read-model-lacks-events"
    hint = "A row that was there before goes on; one that is made anew needs the whole log."

    def __init__(self, *, model: str, execution_id: str, sequence: int) -> None:
        self.model, self.execution_id, self.sequence = model, execution_id, sequence
        super().__init__(f"the read model {model} needs event {sequence} of {execution_id}, which is in an archive")


class UnknownReadModel(LoomError):
    """The app has no read model of that name."""

    code = "unknown-read-model"
    hint = "Name it in define_config(read_models=[...])."

    def __init__(self, *, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, known
        super().__init__(f"the app has no read model {name!r}; it has {', '.join(known) or 'none'}")


class Row(NamedTuple, Generic[R]):
    """What a read model says of a run, after the event at *sequence*."""

    execution_id: ExecutionId
    sequence: int
    value: R


class CaughtUp(NamedTuple):
    """What came of a pass: so many rows went forward, and what could not."""

    advanced: int = 0
    faults: Sequence[LoomError] = ()


class _Kept:
    """A model, the version of its code, and how its rows are written and read."""

    def __init__(self, model: ReadModel[Any]) -> None:
        self.model = model
        self._codec = codec_for(_without_none(model.row_type()), "row")

    @cached_property
    def version(self) -> str:
        """What the code of the fold and the type of its rows come to.

        Raises:
            InvalidDeclaration: its source cannot be read.
        """
        version = fingerprint(self.model.fn, types=[self.model.row_type()])
        if not readable(version):
            hint = "Write it in a module: then a change of it can be told."
            raise InvalidDeclaration(f"the source of the read model {self.model.id} cannot be read", hint=hint)
        return version

    def step(self, row: Any, event: EventEnvelope[Any]) -> Any:
        """Return what the fold makes of *row* and *event*."""
        try:
            return self.model.fn(row, event)
        except Exception as error:  # a fold is the author's, and may raise anything
            raise self._failed(event.execution_id, event.sequence, error) from error

    def decode(self, body: bytes) -> Any:
        return self._codec.decode(loads(body))

    def encode(self, row: Any, execution_id: ExecutionId, sequence: int) -> bytes:
        if row is None:
            return b""
        try:
            return dumps(self._codec.encode(row))
        except NotSerializable as error:
            raise self._failed(execution_id, sequence, error) from error

    def _failed(self, execution_id: ExecutionId, sequence: int, error: Exception) -> ReadModelFailed:
        why = safe_text(f"{type(error).__name__}: {error}", _WHY_MAX)
        return ReadModelFailed(model=self.model.id, execution_id=execution_id, sequence=sequence, why=why)


def _without_none(annotation: Any) -> Any:
    """Return *annotation* without its None, where one type is left: what is written then need not say which it is."""
    left = [each for each in get_args(annotation) if each is not NoneType]
    is_optional = get_origin(annotation) in (Union, UnionType) and len(left) == 1
    return left[0] if is_optional else annotation


class ReadModels:
    """The read models of an app, on its store."""

    def __init__(self, storage: Storage, models: Iterable[ReadModel[Any]]) -> None:
        self._storage = storage
        self._models = {each.id: _Kept(each) for each in models}
        self._noted: dict[ExecutionId, None] = {}

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of each model: what its code comes to."""
        return {name: kept.version for name, kept in self._models.items()}

    def require(self, model: ReadModel[Any] | str) -> None:
        """Raise `UnknownReadModel` where the app does not have *model*."""
        self._kept(model)

    def note(self, event: EventEnvelope[Any]) -> None:
        """Note that the log of a run has grown."""
        if self._models and len(self._noted) < NOTED_MAX:
            self._noted[event.execution_id] = None

    async def advance(self) -> CaughtUp:
        """Fold on the rows of the runs that were noted.

        Raises:
            StoreError: what was noted still is.
        """
        noted, self._noted = self._noted, {}
        try:
            return await self._pass(list(self._models), list(noted)) if noted else CaughtUp()
        except BaseException:
            self._noted |= noted
            raise

    async def catch_up(self, *models: ReadModel[Any] | str, archive: ArchiveStore | None = None) -> CaughtUp:
        """Fold on every row that lags, of *models* or of all of them; return how many, and what could not be.

        Events that compaction has moved away are read from *archive*, where there is one.

        Raises:
            UnknownReadModel: there is none of that name.
            StoreError: what was put so far stays; asking again goes on.
        """
        return await self._pass([self._kept(each).model.id for each in models] or list(self._models), None, archive)

    async def not_again(self, model: ReadModel[Any] | str, *, archive: ArchiveStore | None = None) -> list[ExecutionId]:
        """Return the runs that have a row which could not be made anew: neither their logs nor *archive* have all events up to it.

        Raises:
            UnknownReadModel: there is none of that name.
        """
        kept, after, found = self._kept(model), "", list[ExecutionId]()
        while page := await self._store.model_rows(kept.model.id, kept.version, after=after, limit=PAGE):
            found += [row.execution_id for row in page if not await self._has_all(row, archive)]
            after = page[-1].execution_id
        return found

    async def _has_all(self, row: ModelRow, archive: ArchiveStore | None) -> bool:
        head = Head(row.execution_id, row.incarnation, row.sequence + 1)
        for place in (None,) if archive is None else (None, archive):
            expected = 0
            async for page in self._pages(head, 0, place):
                if [each.sequence for each in page] != list(range(expected, expected + len(page))):
                    break
                expected += len(page)
            if expected == head.length:
                return True
        return False

    async def rows(
        self, model: ReadModel[R], *, ids: Sequence[str] | None = None, prefix: str = ""
    ) -> AsyncIterator[Row[R]]:
        """Yield the rows of *model*, those of *ids*, or whose id starts with *prefix*, by id; what is read is what is kept now.

        Raises:
            UnknownReadModel: the app does not have it.
            RecordUnreadable: the type of its rows has changed, and its code not.
        """
        kept, after = self._kept(model), ""
        wanted = None if ids is None else [ExecutionId(each) for each in ids]
        while page := await self._store.model_rows(
            kept.model.id, kept.version, ids=wanted, after=after, prefix=prefix, limit=PAGE
        ):
            for row in page:
                yield Row(row.execution_id, row.sequence, kept.decode(row.body))
            after = page[-1].execution_id

    async def row(self, model: ReadModel[R], execution_id: str) -> Row[R] | None:
        """Return the row of one run, None where there is none; see `rows`."""
        async for row in self.rows(model, ids=[execution_id]):
            return row
        return None

    @property
    def _store(self) -> ReadModelStore:
        if not isinstance(self._storage, ReadModelStore):
            hint = "Its adapter has to implement ReadModelStore."
            raise InvalidDeclaration(f"{self._storage.url} keeps no read models", hint=hint)
        return self._storage

    def _kept(self, model: ReadModel[Any] | str) -> _Kept:
        name = model if isinstance(model, str) else model.id
        if name not in self._models:
            raise UnknownReadModel(name=name, known=sorted(self._models))
        return self._models[name]

    async def _pass(
        self, names: Sequence[str], ids: Sequence[ExecutionId] | None, archive: ArchiveStore | None = None
    ) -> CaughtUp:
        advanced, faults = 0, list[LoomError]()
        for name in names:
            kept, after = self._models[name], ""
            while page := await self._store.behind(name, kept.version, ids=ids, after=after, limit=PAGE):
                rows = [row for each in page if (row := await self._folded(kept, each, archive, faults)) is not None]
                if rows:
                    advanced += sum(await self._store.put_model_rows(name, kept.version, rows))
                after = page[-1].head.execution_id
        return CaughtUp(advanced, faults)

    async def _folded(
        self, kept: _Kept, behind: Behind, archive: ArchiveStore | None, faults: list[LoomError]
    ) -> ModelRow | None:
        """Return the row of a run after the last event of its log, None where a fault kept it from going forward."""
        try:
            try:
                return await self._fold(kept, behind)
            except ReadModelLacksEvents:
                if archive is None:
                    raise
                return await self._fold(kept, behind, archive)
        except (ReadModelFailed, ReadModelLacksEvents, LogCorrupt) as fault:
            faults.append(fault)
            return None

    async def _fold(self, kept: _Kept, behind: Behind, archive: ArchiveStore | None = None) -> ModelRow | None:
        head, row = behind
        value = kept.decode(row.body) if row is not None and row.body else None
        expected = row.sequence + 1 if row is not None else 0
        async for page in self._pages(head, expected, archive):
            for event in decode_events(head.execution_id, page):
                if event.sequence != expected:
                    raise ReadModelLacksEvents(model=kept.model.id, execution_id=head.execution_id, sequence=expected)
                value, expected = kept.step(value, event), expected + 1
            await asyncio.sleep(0)  # a long log is no reason to hold up what is driven here
        if expected != head.length:  # it was deleted, or begun anew, since it was asked for
            return None
        return ModelRow(
            head.execution_id, head.incarnation, head.length - 1, kept.encode(value, head.execution_id, expected - 1)
        )

    async def _pages(
        self, head: Head, start: int, archive: ArchiveStore | None
    ) -> AsyncIterator[Sequence[EventRecord]]:
        """Yield the events from *start* up to where the log was, in pieces; with an *archive*, those that it keeps, too."""
        if archive is None:
            while start < head.length and (
                page := await self._storage.read(head.execution_id, start=start, stop=head.length)
            ):
                yield page
                start = page[-1].sequence + 1
            return
        piece: list[EventRecord] = []
        async with aclosing(read_archived(self._storage, archive, head.execution_id, start=start)) as story:
            async for record, _ in story:
                if record.sequence >= head.length:
                    break
                piece.append(record)
                if len(piece) == PAGE:
                    yield piece
                    piece = []
        yield piece


class Keeping:
    """Keeps read models current beside a worker: what it drives soon after, and what others drove once in a while."""

    def __init__(self, models: ReadModels, *, every_s: float = PASS_EVERY_S, poll_s: float = POLL_S) -> None:
        self._models, self._every_s, self._poll_s = models, every_s, poll_s
        self._pass_at_s = 0.0
        self._said: set[str] = set()

    async def run(self, told: Callable[[LoomError], None]) -> None:
        """Go on until cancelled; *told* is told of what could not be done, of each thing once."""
        while True:
            await self._once(told, is_due=asyncio.get_running_loop().time() >= self._pass_at_s)
            await asyncio.sleep(self._poll_s)

    async def finish(self, told: Callable[[LoomError], None], *, thoroughly: bool) -> None:
        """Do once more what there is to do: for the runs that were driven here, or *thoroughly* for all."""
        await self._once(told, is_due=thoroughly)

    async def _once(self, told: Callable[[LoomError], None], *, is_due: bool) -> None:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            done = await (self._models.catch_up() if is_due else self._models.advance())
        except StoreError as error:
            self._tell(told, [error])
            return
        self._tell(told, done.faults)
        if is_due:
            took_s = loop.time() - begun_s
            self._pass_at_s = loop.time() + max(self._every_s, took_s * PASS_SHARE)

    def _tell(self, told: Callable[[LoomError], None], faults: Iterable[LoomError]) -> None:
        for fault in faults:
            if str(fault) not in self._said:
                if len(self._said) >= SAID_MAX:
                    self._said.clear()
                self._said.add(str(fault))
                told(fault)
