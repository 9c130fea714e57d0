"""Where the store is when code does not say so: the same for the library and the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom.core.errors import InvalidDeclaration
from loom.plugins.sqlite import sqlite_storage, store_location
from loom.plugins.sqlite.location import path_of


def write_project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder / "pyproject.toml"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOM_STORE", raising=False)


def test_the_first_that_names_a_store_wins(tmp_path: Path) -> None:
    project = write_project(tmp_path, "[tool.loom]\nstore = 'data/p.db'\n")
    below = tmp_path / "src"
    below.mkdir()

    assert store_location("a.db", folder=below, environ={"LOOM_STORE": "e.db"}) == (below / "a.db", "--store")
    assert store_location(folder=below, environ={"LOOM_STORE": "e.db"}) == (below / "e.db", "LOOM_STORE")
    assert store_location(folder=below, environ={}).path == tmp_path / "data" / "p.db"
    project.unlink()
    assert store_location(folder=below, environ={}) == (below / ".loom" / "loom.db", "the default")


def test_the_nearest_pyproject_counts_even_if_it_names_no_store(tmp_path: Path) -> None:
    write_project(tmp_path, "[tool.loom]\nstore = 'p.db'\n")
    (tmp_path / "inner").mkdir()
    write_project(tmp_path / "inner", "[project]\nname = 'inner'\n")

    assert store_location(folder=tmp_path / "inner", environ={}).named_by == "the default"


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("x/y.db", "x/y.db"),
        ("/tmp/y.db", "/tmp/y.db"),
        ("sqlite:y.db", "y.db"),
        ("sqlite:/tmp/y.db", "/tmp/y.db"),
        ("sqlite:///x/y.db", "x/y.db"),
        ("sqlite:////tmp/y.db", "/tmp/y.db"),
    ],
)
def test_a_store_is_a_path_or_a_url(store: str, path: str) -> None:
    assert path_of(store) == Path(path)


def test_the_name_that_messages_give_a_store_names_it(tmp_path: Path) -> None:
    storage = sqlite_storage(tmp_path / "x.db")

    assert path_of(storage.url) == tmp_path / "x.db"


@pytest.mark.parametrize("store", ["postgres://host/db", "sqlite://host/x.db", "sqlite:", "sqlite:///"])
def test_what_is_no_sqlite_store_is_refused(store: str) -> None:
    with pytest.raises(InvalidDeclaration):
        path_of(store)


@pytest.mark.parametrize("text", ["[tool.loom", "[tool.loom]\nstore = 7\n", "[tool]\nloom = 7\n"])
def test_a_broken_project_file_is_named(text: str, tmp_path: Path) -> None:
    project = write_project(tmp_path, text)

    with pytest.raises(InvalidDeclaration, match=str(project)):
        store_location(folder=tmp_path, environ={})


def test_an_app_without_a_path_keeps_its_logs_where_the_command_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path, "[tool.loom]\nstore = 'p.db'\n")

    assert sqlite_storage().url == f"sqlite:{tmp_path / 'p.db'}"
    monkeypatch.setenv("LOOM_STORE", "e.db")
    assert sqlite_storage().url == f"sqlite:{tmp_path / 'e.db'}"
    assert sqlite_storage("own.db").url == f"sqlite:{tmp_path / 'own.db'}"
