"""What a server is set to, and what it lacks: it works all the same, or it is told in words and with a status."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.admission_store import started
from loom.devtools.conformance.logs import REFUND, after, appended, first, payloads
from loom.plugins.postgres import PostgresStorage, session
from loom.spi.errors import StoreUnavailable
from tests.loom_cli.terminal import Ended, loom, process
from tests.plugins.postgres.server import Server
from tests.plugins.postgres.standby import Standby
from tests.plugins.postgres.test_command import APP

HARD = "p@ss w%rd/#?:&=é'\"\\"
"""A password with all that means something in a URL or a shell."""


_NUMBERS = itertools.count(1)


@pytest.fixture
async def role(server: Server) -> AsyncIterator[str]:
    """The name of a role that may log in, and no more."""
    name = f"teller_{next(_NUMBERS)}"
    await server.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    await server.execute(f"ALTER ROLE {name} NOLOGIN")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.loom]\n", encoding="utf-8")
    return tmp_path


def as_role(dsn: str, role: str) -> str:
    return dsn.replace("postgres:secret@", f"{role}@")


def refunds(project: Path, dsn: str, run: str, **environ: str) -> Ended:
    return process("run", "refund", "--input", "5", "--id", run, folder=project, environ={"LOOM_STORE": dsn, **environ})


# Who asks


async def test_a_password_of_any_signs_is_taken_from_the_url_and_the_environment_and_never_shown(
    server: Server, dsn: str, role: str, project: Path
) -> None:
    [[quoted]] = await server.execute("SELECT quote_literal($1::text)", HARD)
    await server.execute(f"ALTER ROLE {role} PASSWORD {quoted}")
    await server.execute(f"GRANT ALL ON SCHEMA loom TO {role}", dsn=dsn)
    await server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA loom TO {role}", dsn=dsn)
    server.ask_for_passwords(role)
    named, bare = dsn.replace("postgres:secret", f"{role}:{quote(HARD, safe='')}"), as_role(dsn, role)

    ended = [
        refunds(project, named, "r-1"),
        refunds(project, bare, "r-2", PGPASSWORD=HARD),
        refunds(project, bare, "r-3", PGPASSWORD="wrong " + HARD),
        refunds(project, named.replace("p%40", "q%40"), "r-4"),
    ]

    assert [each.status for each in ended] == [3, 3, 1, 1], ended
    for each in ended:
        for secret in (HARD, "wrong", quote(HARD, safe=""), "w%25rd"):
            assert secret not in each.out + each.err
    assert "refused the user" in ended[2].err
    assert f"{role}:***@" in ended[3].err


async def test_who_may_only_read_reads_and_is_told_that_it_may_not_write(
    dsn: str, server: Server, role: str, project: Path
) -> None:
    refunds(project, dsn, "r-1")
    await server.execute(f"GRANT USAGE ON SCHEMA loom TO {role}", dsn=dsn)
    await server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA loom TO {role}", dsn=dsn)
    reader = as_role(dsn, role)

    told = {
        command: await asyncio.to_thread(loom, *command.split(), "--store", reader, folder=project)
        for command in ("ps", "show r-1", "logs r-1", "gates", "inbox r-1")
    }
    written = refunds(project, reader, "r-2")

    assert {command: ended.status for command, ended in told.items()} == dict.fromkeys(told, 0), told
    assert written.status == 1
    assert "the user may not do that" in written.err


@pytest.mark.parametrize("path", ["''", "nowhere", "mine, pg_catalog"])
async def test_a_search_path_changes_nothing(bare: str, server: Server, path: str) -> None:
    """Not where it is empty, nor where something else has the names of what is ours."""
    await server.execute("CREATE SCHEMA mine", dsn=bare)
    for table in ("executions", "events", "requests", "migrations"):
        await server.execute(f"CREATE TABLE mine.{table} (nothing int)", dsn=bare)
    await server.execute(
        "CREATE FUNCTION mine.clock_ms(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'", dsn=bare
    )
    await server.execute(f"ALTER DATABASE {bare.partition('?')[0].rpartition('/')[2]} SET search_path = {path}")
    store = PostgresStorage(bare)

    begun = await appended(store, first(REFUND, b"1"))
    await appended(store, after(begun, REFUND, b"2"))

    assert await payloads(store, REFUND) == [b"1", b"2"]
    assert (await started(store, "line")).stage == "begun"
    assert await store.now_ms() > 0
    await store.close()


async def test_a_schema_of_that_name_that_is_anothers_is_left_alone(bare: str, server: Server, project: Path) -> None:
    await server.execute("CREATE SCHEMA loom", dsn=bare)
    await server.execute("CREATE TABLE loom.carpets (width int)", dsn=bare)

    ended = refunds(project, bare, "r-1")

    assert ended.status == 1, ended
    assert "belongs to something else" in ended.err
    assert await server.execute("SELECT relname FROM pg_class WHERE relnamespace = 'loom'::regnamespace", dsn=bare) == [
        ("carpets",)
    ]


async def test_a_schema_that_was_made_for_us_and_is_empty_is_taken(bare: str, server: Server, role: str) -> None:
    await server.execute(f"CREATE SCHEMA loom AUTHORIZATION {role}", dsn=bare)
    store = PostgresStorage(as_role(bare, role))

    await appended(store, first(REFUND, b"1"))

    assert await payloads(store, REFUND) == [b"1"]
    await store.close()


# Time, room and connections


async def test_a_statement_that_the_server_cancels_is_told(bare: str, server: Server, project: Path) -> None:
    refunds(project, bare, "r-1")
    raw = await _holding(bare, "LOCK TABLE loom.executions IN ACCESS EXCLUSIVE MODE")
    await server.execute("ALTER ROLE postgres SET statement_timeout = '300ms'")
    try:
        ended = await asyncio.to_thread(refunds, project, bare, "r-2")
    finally:
        await server.execute("ALTER ROLE postgres RESET statement_timeout")
        await raw.close()

    assert ended.status == 1, ended
    assert "cancelled the statement" in ended.err
    assert "statement_timeout" in ended.err


async def test_a_process_that_stands_still_in_a_transaction_loses_it_and_begins_anew(server: Server, bare: str) -> None:
    store = PostgresStorage(bare, connections=1)
    await store.open()
    [[kept]] = await store._read(lambda raw: raw.fetch("SHOW idle_in_transaction_session_timeout"))
    await store._read(lambda raw: raw.execute("SET idle_in_transaction_session_timeout = '20ms'"))
    stands = [True]

    async def stands_still(raw: object) -> object:
        async with raw.transaction():  # type: ignore[attr-defined]
            if stands.pop() if stands else False:
                await _cut_off(server)
            return await raw.fetchval("SELECT 1")  # type: ignore[attr-defined]

    assert kept == "15s"
    assert await store._change(stands_still) == 1
    await store.close()


async def test_many_processes_share_few_connections(server: Server, dsn: str, role: str) -> None:
    await server.execute(f"GRANT ALL ON SCHEMA loom TO {role}", dsn=dsn)
    await server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA loom TO {role}", dsn=dsn)
    await server.execute(f"ALTER ROLE {role} CONNECTION LIMIT 2")
    names = [ExecutionId(f"run-{number}") for number in range(12)]

    async def one(name: ExecutionId) -> None:
        store = PostgresStorage(as_role(dsn, role))
        await appended(store, first(name))
        await store.close()

    await asyncio.gather(*(one(name) for name in names))

    assert len(await server.execute("SELECT FROM loom.executions", dsn=dsn)) == 12


async def test_where_no_connection_comes_free_it_is_told(
    server: Server, dsn: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CROWDED_S", 0.2)
    await server.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
    store = PostgresStorage(as_role(dsn, role))

    with pytest.raises(StoreUnavailable, match="no connection free"):
        await store.head(REFUND)
    await store.close()


@pytest.fixture
def small_disk(server: Server) -> Iterator[Path]:
    """A folder on a disk of 48 MB."""
    folder = server.home / "small"
    folder.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0
    if (
        not mounted
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", folder], check=False).returncode
    ):
        pytest.skip("A FULL DISK IS NOT TESTED: no small disk can be mounted here")
    server.give_away(folder)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_a_full_disk_is_told_and_once_there_is_room_it_goes_on(server: Server, small_disk: Path) -> None:
    await server.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    await server.execute("CREATE DATABASE crowded TEMPLATE template0 TABLESPACE small")
    store = PostgresStorage(server.dsn("crowded"))
    begun = await appended(store, first(REFUND, b"1"))
    filler = small_disk / "filler"
    _fill(filler)

    with pytest.raises(StoreUnavailable, match="out of disk") as refused:
        await store.append([after(begun, REFUND, os.urandom(2 << 20))])
    filler.unlink()

    assert "Free some" in refused.value.hint
    await appended(store, after(begun, REFUND, b"2"))
    assert await payloads(store, REFUND) == [b"1", b"2"]
    await store.close()
    await server.drop(server.dsn("crowded"))
    await server.execute("DROP TABLESPACE small")


# A standby


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    server = Server(options="-c shared_buffers=32MB -c fsync=off")
    yield server
    server.remove()


@pytest.mark.slow
async def test_a_standby_is_read_and_refuses_to_be_written_in_words(primary: Server, project: Path) -> None:
    dsn = await primary.database()
    assert refunds(project, dsn, "r-1").status == 3
    standby = Standby(primary)
    await standby.catch_up()

    listed = await asyncio.to_thread(loom, "ps", "--store", standby.of(dsn), folder=project)
    written = refunds(project, standby.of(dsn), "r-2")
    standby.remove()

    assert listed.status == 0, listed
    assert "r-1" in listed.out
    assert written.status == 1, written
    assert "read-only" in written.err
    assert "primary" in written.err


async def _holding(dsn: str, statement: str) -> asyncpg.Connection:
    raw = await asyncpg.connect(dsn)
    await raw.execute("BEGIN")
    await raw.execute(statement)
    return raw


async def _cut_off(server: Server) -> None:
    """Return once the server has ended a transaction that stood still."""
    async with asyncio.timeout(10):
        while await server.execute("SELECT FROM pg_stat_activity WHERE state = 'idle in transaction'"):
            await asyncio.sleep(0.01)


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as disk:
        try:
            while True:
                disk.write(b"\0" * (1 << 16))
        except OSError:
            return
