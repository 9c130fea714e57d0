"""What the commands of read models do and print."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.ids import ExecutionId
from loom.core.ids import execution_id as as_id
from loom.driving.errors import ExecutionNotFound
from loom.spi.event_store import ExecutionQuery, Storage
from loom.spi.read_model_store import ModelErasure, ModelRow, ModelRows, ReadModelStore
from loom.spi.where import Where
from loom_cli.errors import CommandRefused
from loom_cli.exits import ExitCode
from loom_cli.ids import meant_id
from loom_cli.readable import readable
from loom_cli.times import date_time
from loom_cli.wording import counted

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom.spi.archive_store import ArchiveStore
    from loom_cli.cli import Cli

PAGE: Final = 1000
_NAMED: Final = 20
"""So many runs are named in one sentence."""

_SHORT: Final = 12
"""So much of a version tells it from others, in a list for people."""


class RowsNotFound(CommandRefused):
    """The store has no rows of that read model, or of that version."""

    code = "rows-not-found"
    exit_code = ExitCode.NOT_FOUND

    def __init__(self, *, name: str, known: Sequence[str], store: str) -> None:
        self.name, self.known, self.store = name, known, store
        self.hint = f"There are {', '.join(known)}." if known else "`loom rows update` makes them."
        super().__init__(f"there are no rows of {name} in {store}")


class RowsLost(CommandRefused):
    """Rows would be thrown away that cannot be made anew: events of their runs are in an archive that is not at hand."""

    code = "rows-lost"

    def __init__(self, *, model: str, runs: Sequence[str], has_archive: bool) -> None:
        self.model, self.runs, self.has_archive = model, tuple(runs), has_archive
        where = "in an archive that is not this one" if has_archive else "in an archive"
        told = f"{', '.join(self.runs[:_NAMED])}{', ...' if len(self.runs) > _NAMED else ''}"
        self.hint = (
            "Name the archive that has them (--archive URL), or leave --afresh out, and they keep what they have; "
            "--drop-lacking throws these rows away with the others. Nothing was done."
        )
        super().__init__(
            f"the rows of {model} of {counted(len(self.runs), 'run', 'runs')} cannot be made anew, "
            f"since events are {where}: {told}"
        )


class Wanted(NamedTuple):
    """Which rows are wanted: of the newest version unless one is named, whose run's id has the *prefix* and comes *after*."""

    model: str
    version: str | None
    prefix: str
    after: str
    limit: int


class Updated(NamedTuple):
    """What became of a *model*: so many rows went forward, so many that earlier code had made were *removed*, and what could not be.

    *lacking* are the runs whose row cannot be made anew, since events of theirs are in an archive: what they have stays.
    """

    model: str
    version: str
    advanced: int
    removed: int
    faults: Sequence[LoomError]
    lacking: Sequence[str] = ()


def kept_in(storage: Storage) -> ReadModelStore:
    """Return *storage* as what keeps read models.

    Raises:
        InvalidDeclaration: it does not.
    """
    if not isinstance(storage, ReadModelStore):
        raise InvalidDeclaration(
            f"{storage.url} keeps no read models", hint="Its adapter has to implement ReadModelStore."
        )
    return storage


async def models_of(storage: Storage) -> Sequence[ModelRows]:
    """Return which models have rows."""
    try:
        return await kept_in(storage).models()
    finally:
        await storage.close()


async def rows_meant(storage: Storage, wanted: Wanted, text: str) -> Sequence[ModelRow]:
    """Return the rows that are *wanted* of the run that *text* means, with those of all its links; of all runs where it is empty.

    Raises:
        RowsNotFound: as `rows_of`.
        AmbiguousExecution, ExecutionNotFound: *text* means no run, or several.
    """
    if not text:
        return await rows_of(storage, wanted)
    await rows_of(storage, wanted._replace(limit=1))
    try:
        run_id = await meant_id(storage, text)
    finally:
        await storage.close()
    own = await rows_of(storage, wanted._replace(prefix=run_id, limit=1))
    links = await rows_of(storage, wanted._replace(prefix=f"{run_id}~"))
    return [*(row for row in own if row.execution_id == run_id), *links][: wanted.limit]


async def rows_of(storage: Storage, wanted: Wanted) -> Sequence[ModelRow]:
    """Return the rows that are *wanted*.

    Raises:
        RowsNotFound: the store has none of it; those it has are told.
    """
    try:
        store = kept_in(storage)
        models = await store.models()
        versions = [each.version for each in models if each.model == wanted.model]
        meant = [each for each in versions if wanted.version is None or each.startswith(wanted.version)]
        if not meant:
            known = sorted(
                {each.model if wanted.version is None else f"{each.model} {each.version}" for each in models}
            )
            name = " ".join(filter(None, wanted[:2]))
            raise RowsNotFound(name=name, known=known, store=storage.url)
        found: list[ModelRow] = []
        after = wanted.after
        while len(found) < wanted.limit:
            limit = min(PAGE, wanted.limit - len(found))
            page = await store.model_rows(wanted.model, meant[0], after=after, prefix=wanted.prefix, limit=limit)
            if not page:
                break
            found += page
            after = page[-1].execution_id
        return found
    finally:
        await storage.close()


def archive_of(cli: Cli, archive: str | None) -> ArchiveStore | None:
    """Return the archive that *archive* or the surroundings name, None where nobody names one."""
    from loom.plugins.sqlite.location import archive_name

    named = archive_name(archive, folder=cli.folder)
    return None if named is None else cli.archive(archive, readonly=True)


async def update(
    app: LoomApp,
    names: Sequence[str],
    *,
    afresh: bool,
    archive: ArchiveStore | None = None,
    drop_lacking: bool = False,
) -> list[Updated]:
    """Bring the models *names* of *app*, or all of them, up to date; then remove what earlier code made.

    What was moved to *archive* is read there, which is closed then. *afresh*: all rows are thrown away first, those that cannot be
    made anew only if *drop_lacking*.

    Raises:
        RowsLost: some could not be made anew; nothing was done.
        UnknownReadModel, StoreError: what was done so far is done.
    """
    from loom.services.read_models import ReadModelLacksEvents

    async with app, AsyncExitStack() as closing:
        if archive is not None:
            closing.push_async_callback(archive.close)
        models, store = app.read_models, kept_in(app.storage)
        for name in names:
            models.require(name)
        done = []
        wanted = names or list(models.versions)
        for name in wanted if afresh and not drop_lacking else ():
            if lost := await models.not_again(name, archive=archive):
                raise RowsLost(model=name, runs=lost, has_archive=archive is not None)
        for name in wanted:
            version = models.versions[name]
            if afresh:
                await store.drop_model(name, version)
            caught = await models.catch_up(name, archive=archive)
            earlier = [each.version for each in await store.models() if each.model == name and each.version != version]
            removed = 0 if caught.faults else sum([await store.drop_model(name, each) for each in earlier])
            lacking = [each.execution_id for each in caught.faults if isinstance(each, ReadModelLacksEvents)]
            faults = [each for each in caught.faults if not isinstance(each, ReadModelLacksEvents)]
            done.append(Updated(name, version, caught.advanced, removed, faults, lacking))
        return done


async def chosen_runs(storage: Storage, ids: Sequence[str], where: Where | None) -> list[ExecutionId]:
    """Return the runs with *ids*, or all that are *where*.

    Raises:
        ExecutionNotFound: one of *ids* is not there.
    """
    try:
        for each in ids:
            if await storage.head(as_id(each)) is None:
                raise ExecutionNotFound(execution_id=each, store=storage.url)
        found = [as_id(each) for each in ids]
        query = ExecutionQuery(where=where, limit=PAGE)
        while where is not None and (rows := await storage.find(query)):
            found += [row.execution_id for row in rows]
            last = rows[-1]
            query = ExecutionQuery(where=where, limit=PAGE, before=(last.index.started_at, last.execution_id))
        return found
    finally:
        await storage.close()


async def erase(cli: Cli, store: str | None, runs: Sequence[ExecutionId], *, dry_run: bool) -> int:
    """Take *runs* out of every model, and return how many rows that removes."""
    async with _opened(cli, store, readonly=dry_run) as storage:
        if not isinstance(storage, ModelErasure):
            raise InvalidDeclaration(f"{storage.url} cannot erase", hint="Its adapter has to implement ModelErasure.")
        pages = [runs[place : place + PAGE] for place in range(0, len(runs), PAGE)]
        return sum([await storage.erase_model_rows(page, dry_run=dry_run) for page in pages])


@asynccontextmanager
async def _opened(cli: Cli, store: str | None, *, readonly: bool) -> AsyncIterator[Storage]:
    """Give the store: to change what is in it, or to look only."""
    if not readonly:
        async with cli.writer(store) as storage:
            yield storage
        return
    reader = cli.reader(store)
    try:
        yield reader
    finally:
        await reader.close()


def model_json(model: ModelRows) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {"model": model.model, "version": model.version, "rows": model.rows, "since_at": model.since}


def listed(model: ModelRows) -> tuple[str, str, str, str]:
    """Return the cells of a line."""
    return model.model, model.version[:_SHORT], f"{model.rows:,}", date_time(model.since)


def row_json(row: ModelRow) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {"execution_id": row.execution_id, "sequence": row.sequence, "row": json.loads(row.body)}


def row_cells(row: ModelRow) -> tuple[str, str, str]:
    """Return the cells of a line."""
    shown = json.dumps(readable(json.loads(row.body)), ensure_ascii=False)
    return row.execution_id, str(row.sequence), shown


def updated_json(done: Updated) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    faults = [{"code": each.code, "message": str(each)} for each in done.faults]
    return {**done._asdict(), "faults": faults, "lacking": list(done.lacking)}


def updated_lines(done: Sequence[Updated]) -> Iterator[str]:
    """Yield what people are told."""
    for each in done:
        removed = f"; removed {counted(each.removed, 'row', 'rows')} of earlier code" if each.removed else ""
        yield f"{each.model}: {counted(each.advanced, 'row', 'rows')} went forward{removed}"
    if not done:
        yield "the app has no read models"


def lacking_words(done: Updated, *, has_archive: bool) -> str:
    """Return what is said of the runs whose row cannot be made anew, and what can be done."""
    runs = counted(len(done.lacking), "run", "runs")
    where = "an archive that is not this one" if has_archive else "an archive"
    way = "" if has_archive else "--archive URL reads them there; "
    return (
        f"{done.model}: rows of {runs} cannot be made anew, since events are in {where}; what they have stays. {way}"
        f"`loom rows erase ID` takes a run out, for good (docs/guide/rows.md)"
    )


def erased_json(runs: Sequence[str], rows: int, *, dry_run: bool) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {"runs": len(runs), "rows": rows, "dry_run": dry_run}


def erased_words(runs: Sequence[str], rows: int, *, dry_run: bool) -> str:
    """Return what people are told."""
    told = f"{counted(rows, 'row', 'rows')} of {counted(len(runs), 'run', 'runs')}"
    return f"would erase {told}; nothing was done" if dry_run else f"erased {told}"
