"""Where mortal processes live, and who bears them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where the machine has one: a killed process loses nothing there that a disk would keep."""
    place = tempfile.mkdtemp(prefix="loom-crash-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    yield Path(place)
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery
