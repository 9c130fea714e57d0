"""What is refused is told in words, with no secret in them."""

from __future__ import annotations

import subprocess
import sys
import traceback

import asyncpg
import pytest

import loom
from loom.core.errors import InvalidDeclaration, LoomError
from loom.devtools.conformance.logs import REFUND, after, appended, first, payloads
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.dsn import address
from loom.plugins.postgres.failures import store_error
from loom.spi.errors import StoreCorrupt, StoreUnavailable
from tests.plugins.postgres.server import Server

SECRET = "hush"


@pytest.mark.parametrize(
    ("dsn", "url"),
    [
        (f"postgres://me:{SECRET}@h:5433/db", "postgresql://me:***@h:5433/db"),
        (
            f"postgresql://me@h/db?password={SECRET}&sslmode=require",
            "postgresql://me@h/db?password=***&sslmode=require",
        ),
        ("postgresql:///db?host=/run/pg", "postgresql:///db?host=/run/pg"),
        (f"postgresql://me:{SECRET}@a:1,b:2/db", "postgresql://me:***@a:1,b:2/db"),
        (f"POSTGRESQL://me:{SECRET}%2F@h/db?pooler=transaction", "postgresql://me:***@h/db?pooler=transaction"),
    ],
)
def test_the_name_of_a_store_hides_its_password(dsn: str, url: str) -> None:
    assert address(dsn).url == PostgresStorage(dsn).url == url
    assert SECRET in address(dsn).dsn or SECRET not in dsn
    assert "pooler" not in address(dsn).dsn


@pytest.mark.parametrize(
    "dsn",
    [f"mysql://me:{SECRET}@h/db", f"postgresql://me:{SECRET}@h:port/db", f"postgresql://h/db?pooler={SECRET}", ""],
)
def test_what_is_no_name_is_refused_without_being_repeated(dsn: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        PostgresStorage(dsn)

    assert SECRET not in "".join(traceback.format_exception(refused.value))


async def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: object) -> None:
    store = PostgresStorage(f"postgresql://me:{SECRET}@/db?host={tmp_path}&port=1", timeout_s=5)

    with pytest.raises(StoreUnavailable, match=r"cannot be reached.*me:\*\*\*@") as refused:
        await store.open()

    assert SECRET not in "".join(traceback.format_exception(refused.value)) + refused.value.hint
    await store.close()


async def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    store = PostgresStorage(server.dsn("none_such"))

    with pytest.raises(StoreUnavailable, match=r"none_such.* does not exist") as refused:
        await store.open()

    assert "createdb" in refused.value.hint
    await store.close()


async def test_a_database_that_cannot_be_written_can_be_read(server: Server, bare: str) -> None:
    store = PostgresStorage(bare)
    begun = await appended(store, first(REFUND, b"1"))
    await store.close()
    name = bare.partition("?")[0].rpartition("/")[2]
    await server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.append([after(begun, REFUND, b"2")])

    assert await payloads(store, REFUND) == [b"1"]
    await store.close()


async def test_who_may_not_make_a_schema_is_told_what_to_grant(server: Server, bare: str) -> None:
    await server.execute("DROP ROLE IF EXISTS guest")
    await server.execute("CREATE ROLE guest LOGIN")
    store = PostgresStorage(bare.replace("postgres:secret@", "guest@"))

    with pytest.raises(StoreUnavailable, match="may not") as refused:
        await store.open()

    assert "Grant" in refused.value.hint
    await store.close()


async def test_a_database_of_another_encoding_is_refused(server: Server) -> None:
    await server.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    store = PostgresStorage(server.dsn("latin"))

    with pytest.raises(StoreUnavailable, match="LATIN1"):
        await store.open()
    await store.close()


@pytest.mark.parametrize(
    ("error", "expected", "told"),
    [
        (asyncpg.DiskFullError("could not extend file"), StoreUnavailable, "out of disk"),
        (asyncpg.TooManyConnectionsError("too many clients"), StoreUnavailable, "no connection free"),
        (asyncpg.InvalidPasswordError("password authentication failed"), StoreUnavailable, "refused the user"),
        (asyncpg.DataCorruptedError("invalid page"), StoreCorrupt, "damaged"),
        (asyncpg.UniqueViolationError("events_pkey"), StoreCorrupt, "disagree"),
        (TimeoutError(), StoreUnavailable, "in time"),
        (asyncpg.SyntaxOrAccessError("?"), StoreUnavailable, "42000"),
    ],
)
def test_what_the_server_reports_is_told(error: Exception, expected: type[LoomError], told: str) -> None:
    found = store_error(error, url="postgresql://h/db")

    assert type(found) is expected
    assert told in str(found)


WITHOUT_DRIVER = """
import sys
sys.modules["asyncpg"] = None
import loom
from loom.core.errors import LoomError
assert loom.postgres_storage.__doc__
try:
    loom.postgres_storage("postgresql://h/db")
except LoomError as error:
    print(error, error.hint)
"""


def test_without_the_driver_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER], capture_output=True, text=True, check=True, timeout=60
    )

    assert 'pip install "loom-runtime[postgres]"' in done.stdout


def test_a_store_that_nobody_names_is_asked_for(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.delenv("LOOM_STORE", raising=False)
    with pytest.raises(InvalidDeclaration, match="nobody names"):
        loom.postgres_storage()

    monkeypatch.setenv("LOOM_STORE", f"postgresql://me:{SECRET}@h/db")
    assert loom.postgres_storage().url == "postgresql://me:***@h/db"
    with pytest.raises(InvalidDeclaration, match="no store") as refused:
        loom.sqlite_storage()
    assert "postgres_storage" in refused.value.hint
