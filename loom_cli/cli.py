"""What a command works with: the screen, the store it reads, the app it drives. `Cli.of(ctx)` gives it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from loom_cli.errors import Usage
from loom_cli.screen import Screen

if TYPE_CHECKING:
    import typer

    from loom.app.config import LoomApp
    from loom.driving.run_reader import RunReader
    from loom.plugins.postgres.storage import PostgresStorage
    from loom.plugins.sqlite.location import StoreName
    from loom.plugins.sqlite.storage import SqliteStorage
    from loom.spi.archive_store import ArchiveStore
    from loom.spi.event_store import Storage
    from loom.spi.where import Where
    from loom.spi.where_text import Columns

T = TypeVar("T")


class Cli:
    """The surroundings of one command. `main` makes it; a test brings one with its own screen, folder and clock."""

    def __init__(
        self,
        screen: Screen,
        *,
        folder: Path | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.screen, self._folder = screen, folder
        self.now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self.debug = self.json_errors = False

    @property
    def folder(self) -> Path:
        """The folder that the command runs in.

        Raises:
            Usage: it was removed meanwhile.
        """
        try:
            return self._folder or Path.cwd()
        except FileNotFoundError as gone:
            raise Usage("the working directory is no more", hint="cd to a folder that exists") from gone

    @classmethod
    def of_process(cls) -> Cli:
        return cls(Screen.of_process())

    @classmethod
    def of(cls, ctx: typer.Context) -> Cli:
        """Return what `main` made for this command."""
        cli = ctx.find_object(cls)
        assert cli is not None, "main() makes it"
        return cli

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns: the one event loop of a command."""
        import asyncio

        return asyncio.run(work)

    def reader(self, store: str | None) -> Storage:
        """Return the store that *store* or the surroundings name, to read only. It opens nothing yet.

        Raises (when it is used):
            StoreNotFound: there is none; a reader makes none.
        """
        return self._store(store, readonly=True)

    def runs(self, store: str | None) -> RunReader:
        """Return what `reader` does where only runs are looked at: of a database in a file no more is loaded than that takes.

        Raises (when it is used):
            StoreNotFound: there is none; a reader makes none.
        """
        from loom.plugins.sqlite.location import DEFAULT_PATH, is_bundle, is_postgres, path_of, store_name

        name = store_name(store, folder=self.folder)
        if is_bundle(name.text) or is_postgres(name.text):
            return _opened(name, readonly=True)
        from loom.plugins.sqlite.reader import SqliteReader

        return SqliteReader(name.base / (path_of(name.text) if name.text else DEFAULT_PATH))

    @asynccontextmanager
    async def writer(self, store: str | None) -> AsyncIterator[Storage]:
        """Give the store that `reader` reads, open, to change what is in it.

        Raises:
            StoreNotFound: there is none, and none is made.
            StoreError: it cannot be opened.
        """
        from loom.spi.errors import StoreUnavailable

        reader, writer = self._store(store, readonly=True), self._store(store, readonly=False)
        try:
            with suppress(StoreUnavailable):  # its schema is old, say: whoever writes brings it up to date
                await reader.open()
        finally:
            await reader.close()
        await writer.open()
        try:
            yield writer
        finally:
            await writer.close()

    def made(self, store: str | None) -> Storage:
        """Return the same store to write to; it is made by the first write where it is not there."""
        return self._store(store, readonly=False)

    def archive(self, archive: str | None, *, readonly: bool) -> ArchiveStore:
        """Return the archive that *archive* or the surroundings name. It opens nothing yet.

        Raises:
            Usage: nobody names one, or it is a bundle; the store itself is never taken for it.
        """
        from loom.plugins.sqlite.location import archive_name, is_bundle

        name = archive_name(archive, folder=self.folder)
        hint = "name a store for it with --archive URL, LOOM_ARCHIVE, or archive in [tool.loom]"
        if name is None:
            raise Usage("no archive is named", hint=hint)
        if is_bundle(name.text):
            raise Usage(f"{name.text} is a bundle, and no archive", hint=hint)
        return _opened_database(name, readonly=readonly)

    def names_an_archive(self) -> bool:
        """Whether the surroundings name an archive, so that no command needs to."""
        from loom.plugins.sqlite.location import archive_name

        return archive_name(folder=self.folder) is not None

    def _store(self, store: str | None, *, readonly: bool) -> Storage:
        from loom.plugins.sqlite.location import DEFAULT_PATH, store_name

        name = store_name(store, folder=self.folder)
        return _opened(name if name.text else name._replace(text=str(DEFAULT_PATH)), readonly=readonly)

    def where(
        self, wheres: Sequence[str] | None, names: Sequence[str] | None, *, rows_of: Callable[[], Storage] | None = None
    ) -> Where | None:
        """Return the condition that `--where` and the names of saved queries come to, seen from now; None: no condition.

        It may name what rows of read models have in the store that *rows_of* gives; None: those are not asked for.

        Raises:
            WhereInvalid: one cannot be read.
            Usage: there is no such query, or it cannot be used.
        """
        if not wheres and not names:
            return None
        from loom_cli.queries import project_queries, where_of

        now_ms = self.now_ms()
        saved = project_queries(self.folder, now_ms=now_ms) if names else []
        return where_of(wheres or (), names or (), saved, now_ms=now_ms, columns=lambda: self._columns(rows_of))

    def like(self, store: str | None, wheres: Sequence[str] | None, names: Sequence[str] | None) -> Where | None:
        """Return the same for runs of *store*: it may name what rows of read models have there.

        Raises:
            WhereInvalid, Usage: as `where`.
        """
        return self.where(wheres, names, rows_of=lambda: self.reader(store))

    def _columns(self, rows_of: Callable[[], Storage] | None) -> Sequence[Columns]:
        if rows_of is None:
            return ()
        from loom_cli.columns import columns_of

        return self.run(columns_of(rows_of()))

    def app(
        self, reference: str | None, *, store: str | None = None, strict: bool = False, elsewhere: bool = True
    ) -> LoomApp:
        """Import and return the app that *reference* or the surroundings name.

        *strict*: its flows are watched, and with *elsewhere* run again in other processes when they park or end.

        With *store*, an app that was wired with `sqlite_storage()` or `postgres_storage()` and no more uses that store.

        Raises:
            AppNotFound, AppNotImportable: there is none, or it is broken.
            StoreNotTheApps: the app names its own store, which is another.
        """
        from loom_cli.app_location import load_app

        loaded = load_app(reference, store=store, folder=self.folder)
        if not strict:
            return loaded
        from loom.devtools.strict import OTHER_HASHES, Strict

        return loaded.guarded(Strict(elsewhere=OTHER_HASHES if elsewhere else ()))


def _opened(name: StoreName, *, readonly: bool) -> Storage:
    from loom.plugins.sqlite.location import bundle_path, is_bundle

    if is_bundle(name.text):
        from loom.plugins.bundle import BundleStorage

        return BundleStorage(name.base / bundle_path(name.text))
    return _opened_database(name, readonly=readonly)


def _opened_database(name: StoreName, *, readonly: bool) -> SqliteStorage | PostgresStorage:
    from loom.plugins.sqlite.location import is_postgres, path_of

    if is_postgres(name.text):
        from loom.plugins.postgres import PostgresStorage

        return PostgresStorage(name.text, readonly=readonly)
    from loom.plugins.sqlite import SqliteStorage

    return SqliteStorage(name.base / path_of(name.text), readonly=readonly)
