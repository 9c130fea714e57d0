"""Where mortal processes live, and who bears them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery
from tests.crash.places import Ground, on_postgres, on_sqlite
from tests.memory import memory
from tests.plugins.postgres.server import NoPostgres, Server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where the machine has one: a killed process loses nothing there that a disk would keep."""
    place = tempfile.mkdtemp(prefix="loom-crash-", dir=memory())
    yield Path(place)
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that may be made to fall."""
    try:
        server = Server(options="-c shared_buffers=32MB")
    except NoPostgres as reason:
        pytest.skip(f"NOTHING IS KILLED ON POSTGRES: {reason}")
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest, folder: Path) -> Iterator[Ground]:
    """Where each test has its places, on one store after the other."""
    if request.param == "sqlite":
        yield on_sqlite(folder)
        return
    with on_postgres(folder, request.getfixturevalue("server")) as ground:
        yield ground


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery
