"""The story's store, told once and read by many tests."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.loom_cli.desk import APP
from tests.loom_cli.story import store_at


class Project(NamedTuple):
    """A folder with a store in `.loom/loom.db`, and the time at which the story is over."""

    folder: Path
    now_ms: int

    @property
    def store(self) -> Path:
        return self.folder / ".loom" / "loom.db"


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the developer's own shell says must not matter."""
    for name in [name for name in os.environ if name.startswith(("LOOM_", "_LOOM"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture(scope="session")
def _told(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("story")
    return Project(folder, store_at(folder / ".loom" / "loom.db"))


@pytest.fixture
def project(_told: Project, tmp_path: Path) -> Project:
    """A folder of the test's own with the story's store in it."""
    shutil.copytree(_told.folder / ".loom", tmp_path / ".loom")
    return Project(tmp_path, _told.now_ms)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the app of `desk.py`, as the working folder; its module is forgotten afterwards."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOM_PRINCIPAL", "ada")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield tmp_path
    for name in ("app", "other"):
        sys.modules.pop(name, None)
