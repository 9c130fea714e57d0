"""Bringing a database to the present schema: numbered migrations, in one transaction, one process at a time.

Who migrates holds an advisory lock of the transaction, which a pooler cannot lose: the others wait for it, and one that is
killed half-way has changed nothing. A *soft* migration makes things better and is not needed. Where it would have to wait for
a lock that somebody keeps, it is put off with one warning, and tried at the next opening.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from loom.plugins.postgres.migrating import VIEWS, Migration, migrations
from loom.spi.errors import StoreCorrupt, StoreNewer, StoreNotFound, StoreUnavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

LOCK_KEY: Final = 0x4C6F6F6D  # "Loom"
HARD_WAIT: Final = "10s"
SOFT_WAIT: Final = "200ms"
PATIENCE_S: Final = 3600.0
"""So long a migration may take, and those who need it wait for it."""

_STAMP: Final = "SELECT to_regclass('loom.migrations') IS NOT NULL, current_setting('server_encoding')"
_OCCUPIED: Final = "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('loom'))"
_MISSING: Final = "SELECT to_regnamespace('loom') IS NULL"
_MADE: Final = "CREATE SCHEMA loom"
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS loom.migrations (
        number bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())
"""
_DONE: Final = "INSERT INTO loom.migrations (number) VALUES ($1)"
_TURN: Final = "SELECT pg_advisory_xact_lock($1)"
_WAIT: Final = "SELECT set_config('lock_timeout', $1, true)"

# Tables cannot change while a view reads them, and a view that is dropped takes along what stands on it and who may read it. So
# the views are replaced by some with the same columns and no rows, until they are written anew.
HOLLOW: Final = """
    DO $$
    DECLARE
        told text;
    BEGIN
        FOR told IN
            SELECT format('CREATE OR REPLACE VIEW loom.%I AS SELECT %s WHERE false', view.relname, string_agg(
                format('NULL::%s%s AS %I', format_type(a.atttypid, a.atttypmod), (
                    SELECT format(' COLLATE %I.%I', n.nspname, o.collname)
                    FROM pg_collation AS o JOIN pg_namespace AS n ON n.oid = o.collnamespace WHERE o.oid = a.attcollation
                ), a.attname), ', ' ORDER BY a.attnum))
            FROM pg_class AS view JOIN pg_attribute AS a ON a.attrelid = view.oid AND a.attnum > 0
            WHERE view.relnamespace = to_regnamespace('loom') AND view.relkind = 'v' AND view.relname = ANY ('{VIEWS}')
            GROUP BY view.relname
        LOOP
            EXECUTE told;
        END LOOP;
    END $$
""".replace("VIEWS", ",".join(VIEWS))

log = logging.getLogger(__name__)


async def accept(raw: PoolConnectionProxy[Any], *, url: str) -> list[Migration]:
    """Return which migrations are missing, changing nothing.

    Raises:
        StoreNewer: the database has one that this code does not know.
        StoreUnavailable: its encoding cannot hold every text.
    """
    present, encoding = await raw.fetchrow(_STAMP) or (False, "UTF8")
    if encoding != "UTF8":
        hint = "Make one with createdb --encoding=UTF8 --template=template0."
        raise StoreUnavailable(f"the encoding of the database is {encoding}", store=url, hint=hint)
    known = migrations()
    done = {row[0] for row in await raw.fetch("SELECT number FROM loom.migrations")} if present else set[int]()
    if done and max(done) > known[-1].number:
        message = f"the schema is version {max(done)}, and this Loom knows {known[-1].number}"
        raise StoreNewer(message, store=url, hint="Upgrade Loom; the database was left as it is.")
    return [each for each in known if each.number not in done]


async def accept_for_reading(raw: PoolConnectionProxy[Any], *, url: str) -> None:
    """Accept a database whose schema is as far as reading needs.

    Raises:
        StoreNotFound: nothing was ever stored in it.
        StoreNewer, StoreUnavailable: as for `accept`, or it is older, and a reader does not migrate.
    """
    async with raw.transaction():
        missing = await accept(raw, url=url)
    needed = [each.number for each in missing if not each.pending]
    if 1 in needed:
        hint = "Run a flow first, or name another database."
        raise StoreNotFound("the database holds no store", store=url, hint=hint)
    if needed:
        message = f"the schema lacks the migrations {needed}"
        raise StoreUnavailable(message, store=url, hint="Run a flow with this Loom: the first writer migrates.")


async def migrate(raw: PoolConnectionProxy[Any], *, url: str) -> None:
    """Run the missing migrations, or wait for the process that does; what is soft may stay out.

    Raises:
        StoreNewer, StoreUnavailable: as for `accept`, and nothing was changed.
        StoreCorrupt: another application has a schema of the name.
    """
    async with raw.transaction():
        missing = await accept(raw, url=url)
    if any(not each.pending for each in missing):
        async with raw.transaction():
            await raw.execute(_TURN, LOCK_KEY, timeout=PATIENCE_S)
            await raw.execute(_WAIT, HARD_WAIT)
            missing = await accept(raw, url=url)
            if any(each.number == 1 for each in missing):
                await _make(raw, url=url)
                await raw.execute(_TABLE)
            await _run_hard(raw, [each for each in missing if not each.pending])
    for each in missing:
        if each.pending:
            await _run_softly(raw, each, url=url)


async def _make(raw: PoolConnectionProxy[Any], *, url: str) -> None:
    """Make the schema, unless somebody made one for it, who may be the only one who may."""
    if await raw.fetchval(_MISSING):
        await raw.execute(_MADE)
    elif await raw.fetchval(_OCCUPIED):
        hint = "Name another database; this one was left as it is."
        raise StoreCorrupt("the schema loom of the database belongs to something else", store=url, hint=hint)


async def _run_hard(raw: PoolConnectionProxy[Any], missing: Sequence[Migration]) -> None:
    """Run what is missing. The views are hollow meanwhile, and made last: see `HOLLOW`."""
    for each in missing:
        await raw.execute(HOLLOW)
        await _run(raw, each)
    if missing and not missing[-1].of_views:
        for views in [each for each in migrations() if each.of_views][-1:]:
            await raw.execute(views.script)


async def _run_softly(raw: PoolConnectionProxy[Any], migration: Migration, *, url: str) -> None:
    try:
        async with raw.transaction():
            await raw.execute(_TURN, LOCK_KEY, timeout=PATIENCE_S)  # who migrates is waited for, whoever else is not
            await raw.execute(_WAIT, SOFT_WAIT)
            if migration in await accept(raw, url=url):
                await _run(raw, migration)
    except (asyncpg.LockNotAvailableError, asyncpg.InsufficientPrivilegeError) as error:
        message = "the migration %04d (%s) of %s is pending: %s; it is tried at the next start"
        log.warning(message, migration.number, migration.pending, url, error)


async def _run(raw: PoolConnectionProxy[Any], migration: Migration) -> None:
    await raw.execute(migration.script, timeout=PATIENCE_S)
    await raw.execute(_DONE, migration.number)
