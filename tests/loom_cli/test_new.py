"""`loom new` makes a project that works as it is, or says why not and writes nothing."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from loom_cli.files import template_files
from tests.house import ROOT
from tests.loom_cli.projects import loom, python, tree

FILES = [
    ".gitignore",
    "README.md",
    "app.py",
    "flows/__init__.py",
    "flows/hello.py",
    "loom_gen.py",
    "pyproject.toml",
    "tests/test_hello.py",
    "tools/__init__.py",
    "tools/greeting.py",
]


# What is made


def test_a_new_project_has_ten_files_and_three_commands_to_go_on(tmp_path: Path) -> None:
    done = loom("new", "demo", folder=tmp_path)

    assert done.status == 0
    assert list(tree(tmp_path / "demo")) == FILES
    assert done.out.split("\n") == [
        "  cd demo",
        "  loom run hello",
        "  pip install pytest && python -m pytest",
        "",
    ]


@pytest.mark.proves("CLI-01")
def test_its_flow_runs_waits_and_delivers_once_it_is_answered(tmp_path: Path) -> None:
    loom("new", "demo", folder=tmp_path)
    project = tmp_path / "demo"

    waiting = python("-m", "loom_cli", "run", "hello", "--input", '"Ada"', "--id", "first", folder=project)
    answered = python("-m", "loom_cli", "resume", "first", "--set", "approved=true", folder=project)

    assert waiting.status == 3, waiting.err
    assert answered.status == 0, answered.err
    assert answered.out == "Hello, Ada!\n"
    assert (project / "greeting.txt").read_text(encoding="utf-8") == "Hello, Ada!\n"


def test_no_placeholder_is_left(tmp_path: Path) -> None:
    loom("new", "refund-desk", folder=tmp_path)

    texts = tree(tmp_path / "refund-desk")

    assert tomllib.loads(texts["pyproject.toml"].decode())["project"]["name"] == "refund-desk"
    assert [path for path, text in texts.items() if b"{{" in text or b"{%" in text] == []
    assert [path for path, text in texts.items() if b"TODO" in text or b"FIXME" in text or b"your" in text] == []


def test_the_json_lists_the_files(tmp_path: Path) -> None:
    done = loom("new", "demo", "--json", folder=tmp_path)

    assert done.json == {"name": "demo", "folder": str((tmp_path / "demo").resolve()), "files": FILES}
    assert done.err == ""


def test_in_says_where_and_the_next_command_says_so_too(tmp_path: Path) -> None:
    (tmp_path / "my apps").mkdir()

    done = loom("new", "demo", "--in", "my apps", folder=tmp_path)

    assert done.out.startswith("  cd 'my apps/demo'\n")
    assert list(tree(tmp_path / "my apps" / "demo")) == FILES


def test_an_empty_folder_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()

    assert loom("new", "demo", folder=tmp_path).status == 0
    assert list(tree(tmp_path / "demo")) == FILES


# What is refused


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "class", "json", "loom", "pydantic", "two words", "9x"])
def test_a_name_that_would_do_harm_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()

    done = loom("new", name, folder=inside)

    assert (done.status, done.out) == (2, "")
    assert f"error[name-refused]: a project cannot be called {name!r}: it" in done.err
    assert "try: " in done.err
    assert list(tmp_path.rglob("*")) == [inside]


def test_an_absolute_path_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    done = loom("new", str(tmp_path / "x"), folder=tmp_path)

    assert done.status == 2
    assert "it is a path" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("mine", encoding="utf-8")

    done = loom("new", "demo", folder=tmp_path)

    assert done.status == 2
    assert "error[folder-taken]" in done.err
    assert "is a folder that is not empty" in done.err
    assert tree(tmp_path) == {"demo/mine.txt": b"mine"}


def test_a_file_of_that_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine", encoding="utf-8")

    assert loom("new", "demo", folder=tmp_path).status == 2
    assert tree(tmp_path) == {"demo": b"mine"}


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_is_refused_and_nothing_is_written_where_it_leads(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "demo").symlink_to(target)

    done = loom("new", "demo", folder=tmp_path)

    assert done.status == 2
    assert "is a link" in done.err
    assert tree(tmp_path) == {"demo": b"-> " + target.encode()}


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = loom("new", "demo", "--in", "nowhere", folder=tmp_path)

    assert done.status == 2
    assert "there is no folder nowhere" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is allowed here")
def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    done = loom("new", "demo", folder=tmp_path)

    tmp_path.chmod(0o700)
    assert done.status == 1
    assert "error[file-not-usable]" in done.err


def test_nothing_half_made_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def full(file: Path, data: bytes) -> int:
        written.append(file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    done = loom("new", "demo", folder=tmp_path)

    assert written
    assert done.status == 1
    assert "No space left on device" in done.err
    assert list(tmp_path.iterdir()) == []


# The templates


def test_the_wheel_and_the_sdist_are_told_to_ship_the_templates() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]

    assert "templates" in build["wheel"]["only-include"]
    assert build["wheel"]["sources"] == {"templates": "loom_cli/_templates"}
    assert "/templates" in build["sdist"]["include"]
    assert ".gitignore.jinja" in template_files("app")


@pytest.mark.slow
def test_what_its_readme_says_to_install_works_with_the_pip_of_a_new_environment(tmp_path: Path) -> None:
    loom("new", "demo", folder=tmp_path)
    project = tmp_path / "demo"
    readme = (project / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"pip install [^`#\n]*[^`# \n]", readme)
    assert python("-m", "venv", "venv", folder=tmp_path).status == 0

    for command in [*commands, "pytest", "mypy", "ruff check", "loom gen --check"]:
        words = command.replace("PATH/TO/CLONE", str(ROOT)).replace("'", "").split()
        done = subprocess.run([tmp_path / "venv" / "bin" / words[0], *words[1:]], cwd=project, check=False)
        assert done.returncode == 0, command

    assert len(commands) == 2


@pytest.mark.slow
def test_a_wheel_makes_the_same_project(tmp_path: Path) -> None:
    built = python("-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(ROOT), folder=tmp_path)
    assert built.status == 0, built.err
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from loom_cli.main import main; sys.exit(main())"

    here = tmp_path / "here"
    here.mkdir()
    done = python("-c", start, str(installed), "new", "demo", folder=tmp_path)
    loom("new", "demo", folder=here)

    assert done.status == 0, done.err
    assert (installed / "loom_cli" / "_templates").is_dir()
    assert tree(tmp_path / "demo") == tree(here / "demo")


def test_help_loads_no_template_engine() -> None:
    code = "import sys; from loom_cli.main import main; main(['--help']); print('jinja2' in sys.modules)"

    assert python("-c", code, folder=ROOT).out.endswith("False\n")
