"""Finding the app and importing it, or saying why not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loom_cli.app_location import app_reference, load_app
from loom_cli.errors import AppNotFound, AppNotImportable, StoreNotTheApps
from loom_cli.flow_names import flow_names

APP = """
import loom

@loom.flow
async def hello(ctx: loom.Context) -> str:
    return "hello"

app = loom.define_config(flows=[hello], storage=loom.sqlite_storage({path}))
"""


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("LOOM_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("app", "desk", "other"):
            del sys.modules[name]


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_app_py_of_the_folder_is_the_app(tmp_path: Path) -> None:
    write(tmp_path / "app.py", APP.format(path=""))

    app = load_app(None, store=None, folder=tmp_path)

    assert list(app.registry.flows) == ["hello"]


def test_the_option_wins_over_the_project_and_the_project_over_app_py(tmp_path: Path) -> None:
    write(tmp_path / "app.py", "")
    write(tmp_path / "pyproject.toml", "[tool.loom]\napp = 'desk.main:desk'\n")

    assert app_reference("other:it", folder=tmp_path)[:2] == ("other", "it")
    assert app_reference("other", folder=tmp_path)[:2] == ("other", "app")
    assert app_reference(None, folder=tmp_path)[:2] == ("desk.main", "desk")
    (tmp_path / "pyproject.toml").unlink()
    assert app_reference(None, folder=tmp_path)[:2] == ("app", "app")


def test_an_app_of_the_project_is_found_from_a_folder_below(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.loom]\napp = 'desk.main'\n")
    write(tmp_path / "desk" / "main.py", APP.format(path=""))
    (tmp_path / "deep").mkdir()

    assert "hello" in load_app(None, store=None, folder=tmp_path / "deep").registry.flows


@pytest.mark.parametrize("text", ["", "a b:c", "app:", ":app", "1a:b", "app.py"])
def test_a_name_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    if text == "app.py":
        with pytest.raises(AppNotFound, match="there is no module"):
            load_app(text, store=None, folder=tmp_path)
    else:
        with pytest.raises(AppNotFound, match="not module:attribute"):
            app_reference(text, folder=tmp_path)


def test_no_app_is_told_with_the_folder_that_was_looked_at(tmp_path: Path) -> None:
    with pytest.raises(AppNotFound, match=f"no app.py in {tmp_path}"):
        app_reference(None, folder=tmp_path)


def test_a_missing_attribute_names_the_app_that_is_there(tmp_path: Path) -> None:
    write(tmp_path / "desk.py", APP.format(path="").replace("app =", "desk ="))

    with pytest.raises(AppNotFound, match="has no 'app'") as refused:
        load_app("desk", store=None, folder=tmp_path)

    assert refused.value.hint == "--app desk:desk"


@pytest.mark.parametrize(
    ("source", "line", "told"),
    [
        ("import loom\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("x = (\n", 1, "SyntaxError: '(' was never closed"),
        ("\nimport nothing_like_this\n", 2, "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("raise SystemExit(3)\n", 1, "SystemExit: 3"),
        ("raise BaseException('no')\n", 1, "BaseException: no"),
        ("import asyncio\n\nraise asyncio.CancelledError\n", 3, "CancelledError"),
        (
            "import loom\napp = loom.define_config(flows=[7])\n",
            2,
            "InvalidDeclaration: flows holds 7, which is no flow",
        ),
    ],
)
def test_an_app_that_does_not_import_is_told_with_file_and_line(
    source: str, line: int, told: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "app.py", source)

    with pytest.raises(AppNotImportable) as refused:
        load_app(None, store=None, folder=tmp_path)

    assert (refused.value.file, refused.value.line, refused.value.error) == (str(file), line, told)


def test_the_advice_of_a_refused_declaration_is_passed_on(tmp_path: Path) -> None:
    write(tmp_path / "app.py", "import loom\n\n\n@loom.step\ndef pieces():\n    yield 1\n")

    with pytest.raises(AppNotImportable, match="pieces is a generator") as refused:
        load_app(None, store=None, folder=tmp_path)

    assert refused.value.hint == "A step returns one value; use ctx.stream for pieces."


def test_the_line_is_the_authors_own_even_if_a_library_raised(tmp_path: Path) -> None:
    file = write(tmp_path / "app.py", "import json\n\njson.loads('{')\n")

    with pytest.raises(AppNotImportable) as refused:
        load_app(None, store=None, folder=tmp_path)

    assert (refused.value.file, refused.value.line) == (str(file), 3)


def test_an_app_without_a_path_uses_the_store_of_the_command_line(tmp_path: Path) -> None:
    write(tmp_path / "app.py", APP.format(path=""))

    assert load_app(None, store="x/y.db", folder=tmp_path).storage.url == f"sqlite:{tmp_path / 'x' / 'y.db'}"


def test_an_app_with_a_path_of_its_own_refuses_another_store(tmp_path: Path) -> None:
    write(tmp_path / "app.py", APP.format(path="'own.db'"))

    with pytest.raises(StoreNotTheApps, match=r"own\.db, not in"):
        load_app(None, store="other.db", folder=tmp_path)
    del sys.modules["app"]
    assert load_app(None, store="own.db", folder=tmp_path).storage.url.endswith("own.db")


# What the shell completes, read off the source


def test_flow_names_are_read_without_importing() -> None:
    source = """
import loom
from loom import flow

@loom.flow
async def plain(ctx): ...

@loom.flow(id="named-one", version="2")
async def f(ctx): ...

@flow()
async def bare(ctx): ...

@other.thing
async def no_flow(ctx): ...

MANIFEST = [{"kind": "flow", "id": "listed", "module": "x"}, {"kind": "step", "id": "no"}, {**other}]
1 / 0
"""
    assert flow_names(source) == ["bare", "listed", "named-one", "plain"]
