"""The project keeps its house rules, and each rule can tell a breach."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests import house
from tests.house import ROOT, Source, sources

Rule = Callable[[Source], Iterable[str]]

KERNEL_ROOMS: Final = ("loom/core", "loom/spi", "loom/kernel", "loom/rings")
IMPURE_KERNEL: Final = frozenset(
    {
        "asking",
        "block",
        "calls",
        "closing",
        "context",
        "delivery",
        "drive",
        "entering",
        "flights",
        "frontier",
        "gates",
        "journal",
        "patches",
        "records",
        "requests",
        "scopes",
        "steps",
        "succession",
        "threads",
        "unwinding",
    }
)
"""The kernel modules that wait for a store, a step, a thread or an answer. All others are pure: a replay may call them."""

HEAVY: Final = frozenset({"aiosqlite", "jinja2", "pydantic", "rich", "textual", "typer", "watchfiles"})

OPENED_BY_IMPORT: Final = """
import importlib, sys, threading

def watch(event, args):
    loud = event in {"socket.__new__", "subprocess.Popen", "sqlite3.connect"}
    if loud or (event == "open" and not str(args[0]).endswith((".py", ".pyc"))):
        print(event, *args[:1])

def start(thread, start=threading.Thread.start):
    print("thread", thread.name)
    start(thread)

sys.addaudithook(watch)
threading.Thread.start = start  # no audit event before Python 3.13
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
"""Prints what importing the modules named in its arguments opens. A loop opens a pair of sockets."""


def breaches(rule: Rule, over: Iterable[Source]) -> list[str]:
    return list(chain.from_iterable(rule(source) for source in over))


def pure_sources() -> Iterator[Source]:
    for source in sources("loom/core", "loom/lenses", "loom/kernel"):
        impure = (
            source.path.startswith("loom/kernel/") and Path(source.path).parts[2].removesuffix(".py") in IMPURE_KERNEL
        )
        if not impure:
            yield source


def bad(text: str, path: str = "loom/kernel/fold.py") -> Source:
    return Source(path, text)


# Size and names


def test_no_function_is_over_50_lines() -> None:
    assert breaches(lambda s: house.long_functions(s, limit=50), sources("loom", "loom_cli")) == []


def test_no_kernel_function_is_over_30_lines() -> None:
    assert breaches(lambda s: house.long_functions(s, limit=30), sources("loom/kernel")) == []


def test_no_class_is_over_300_lines() -> None:
    assert breaches(lambda s: house.long_classes(s, limit=300), sources("loom", "loom_cli")) == []


def test_no_file_is_over_500_lines() -> None:
    assert breaches(lambda s: house.long_files(s, limit=500), sources("loom", "loom_cli", "tests")) == []


def test_the_kernel_stays_under_3000_lines_of_code() -> None:
    assert sum(map(house.code_lines, sources("loom/kernel"))) < 3000


def test_names_say_something() -> None:
    assert breaches(house.banned_names, sources("loom", "loom_cli")) == []


def test_a_long_function_is_seen_and_its_docstring_is_free() -> None:
    body = "\n".join(f"    x = {n}" for n in range(9))
    source = bad(f'def f():\n    """One.\n\n    Two.\n    """\n{body}\n')

    assert list(house.long_functions(source, limit=10)) == []
    assert list(house.long_functions(source, limit=9)) == ["loom/kernel/fold.py:1: f has 10 lines, over 9"]


def test_a_long_class_and_a_long_file_are_seen() -> None:
    source = bad('"""Free."""\nclass C:\n    """Free."""\n    a = 1\n    b = 2\n')

    assert list(house.long_classes(source, limit=2)) == ["loom/kernel/fold.py:2: C has 3 lines, over 2"]
    assert list(house.long_files(source, limit=2)) == ["loom/kernel/fold.py:1: 3 lines, over 2"]


@pytest.mark.parametrize(
    "text",
    [
        "if x: ...\nelse:\n    {}",
        "for x in y: ...\nelse:\n    {}",
        "try: ...\nexcept E:\n    {}",
        "try: ...\nfinally:\n    {}",
        "match x:\n  case 1:\n    {}",
        "with x:\n    {}",
        "async def f():\n    {}",
    ],
)
def test_a_class_is_seen_wherever_it_stands(text: str) -> None:
    assert breaches(house.banned_names, [bad(text.format("class BaseStore: ..."))])


def test_only_code_counts_as_code() -> None:
    source = bad('"""Doc."""\n\n# Comment.\ndef f() -> str:\n    """Doc."""\n    return "#"\n')

    assert house.code_lines(source) == 2


@pytest.mark.parametrize("name", ["BaseStore", "AbstractStore", "StoreImpl", "_BaseStore", "StoreManager", "RunHelper"])
def test_an_empty_class_name_is_seen(name: str) -> None:
    assert breaches(house.banned_names, [bad(f"class {name}: ...")])


@pytest.mark.parametrize("path", ["loom/utils.py", "loom/kernel/_helpers.py", "loom/common/fold.py"])
def test_an_empty_module_name_is_seen(path: str) -> None:
    assert breaches(house.banned_names, [bad("", path)])


def test_a_plain_name_passes() -> None:
    assert breaches(house.banned_names, [bad("class Baseline: ...\nclass EventStore: ...")]) == []


# Reach


@pytest.mark.proves("PRN-03")
def test_no_clock_chance_or_environment_in_core_kernel_and_lenses() -> None:
    over = sources("loom/core", "loom/kernel", "loom/lenses")

    assert breaches(lambda s: house.uses(s, house.CHANCE_AND_CLOCKS), over) == []


@pytest.mark.proves("PRN-03")
def test_what_a_replay_calls_is_pure() -> None:
    assert breaches(house.impurities, pure_sources()) == []


@pytest.mark.proves("PRN-03")
@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "from time import monotonic as m",
        "import random as r",
        "import os as o\no.environ['X']",
        "from os import environ",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4 as fresh",
        "import datetime as dt\ndt.datetime.now()",
        "from datetime import datetime\ndatetime.now(tz)",
        "from datetime import date\ndate.today()",
        "def f():\n    import secrets",
        "open('x')",
        "from pathlib import Path\nPath('x').read_text()",
        "import asyncio",
        "async def f(store): await store.read()",
        "async def f(store):\n    async with store: ...",
    ],
)
def test_an_impurity_is_seen(text: str) -> None:
    assert breaches(house.impurities, [bad(text)])


def test_pure_code_passes() -> None:
    text = "from datetime import datetime\nfrom uuid import UUID\nx = datetime.fromisoformat(s)\nstate.time\nevent.open()\nf(input, open=1)"

    assert breaches(house.impurities, [bad(text)]) == []


@pytest.mark.proves("PRN-07")
def test_the_runtime_discovers_nothing() -> None:
    runtime = [s for s in sources("loom") if not s.path.startswith(("loom/devtools/", "loom/plugins/"))]

    assert breaches(house.discovery, runtime) == []


@pytest.mark.proves("PRN-07")
@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.walk('flows')",
        "import pkgutil",
        "from importlib.metadata import entry_points",
        "import importlib.metadata\nimportlib.metadata.entry_points()",
        "from pathlib import Path\nPath('flows').glob('*.py')",
        "folder.iterdir()",
        "import os\nos.getenv('LOOM_FLOWS')",
    ],
)
def test_discovery_is_seen(text: str) -> None:
    assert breaches(house.discovery, [bad(text, "loom/app/registry.py")])


@pytest.mark.proves("COM-10")
def test_the_kernel_rooms_import_no_vendor() -> None:
    assert breaches(house.foreign_imports, sources(*KERNEL_ROOMS)) == []


@pytest.mark.proves("COM-10")
@pytest.mark.parametrize("text", ["import aiosqlite", "from sqlite3 import connect", "def f():\n    import rich.table"])
def test_a_vendor_is_seen(text: str) -> None:
    assert breaches(house.foreign_imports, [bad(text)])


# Import direction: the contract of pyproject.toml, tried on a copy of the tree


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    command = "from importlinter.cli import lint_imports_command as main; main()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache"], cwd=tree, capture_output=True, text=True, check=False
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of our packages and of the contract that holds them."""
    for package in ("loom", "loom_cli"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def add(tree: Path, path: str, text: str) -> None:
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    (file.parent / "__init__.py").touch()
    file.write_text(text, encoding="utf-8")


@pytest.mark.proves("PRN-14")
def test_imports_point_inward(tree: Path) -> None:
    done = lint_imports(tree)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proves("PRN-14", "COM-10")
@pytest.mark.parametrize(
    ("path", "text", "broken"),
    [
        ("loom/kernel/reach.py", "import loom.plugins.edge", "Rooms import inward only BROKEN"),
        ("loom/core/reach.py", "import loom.kernel", "Rooms import inward only BROKEN"),
        ("loom/kernel/reach.py", "import loom_cli", "The library does not know the command BROKEN"),
        ("loom/kernel/reach.py", "import aiosqlite", "name no vendor and no terminal BROKEN"),
        ("loom/elsewhere/reach.py", "", "elsewhere"),
    ],
)
def test_an_outward_import_or_an_unlisted_room_is_seen(tree: Path, path: str, text: str, broken: str) -> None:
    add(tree, "loom/plugins/edge.py", "")
    add(tree, path, text)

    done = lint_imports(tree)

    assert done.returncode != 0
    assert broken in done.stdout


# Importing


def run_python(code: str, *arguments: str, cwd: Path = ROOT) -> str:
    command = [sys.executable, "-B", "-c", code, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def loaded_by(module: str) -> list[str]:
    return run_python(
        "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules)", module
    ).split()


def modules_below(folder: str) -> list[str]:
    return [source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for source in sources(folder)]


@pytest.mark.proves("KER-01")
def test_importing_loom_and_its_core_opens_nothing() -> None:
    assert run_python(OPENED_BY_IMPORT, "loom", *modules_below("loom/core")) == ""


@pytest.mark.proves("KER-01")
@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("import asyncio\nasyncio.new_event_loop()", "socket.__new__"),
        ("import threading\nthreading.Thread(target=print).start()", "thread Thread-1"),
        ("open('left.txt', 'w')", "open left.txt"),
        ("import socket\nsocket.socket()", "socket.__new__"),
    ],
)
def test_what_an_import_opens_is_seen(tmp_path: Path, text: str, event: str) -> None:
    (tmp_path / "opens.py").write_text(text, encoding="utf-8")

    assert event in run_python(OPENED_BY_IMPORT, "opens", cwd=tmp_path)


@pytest.mark.parametrize("module", ["loom", *(name for name in modules_below("loom_cli") if name == "loom_cli.main")])
def test_an_import_loads_nothing_heavy(module: str) -> None:
    assert HEAVY.isdisjoint(loaded_by(module))


def test_a_heavy_import_is_seen() -> None:
    assert "jinja2" in loaded_by("jinja2")


# The repository


def tracked_files() -> list[Path]:
    # safe.directory: CI may run as another user than the one who owns the checkout.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_folder_of_one_machine() -> None:
    texts = [Source(file.relative_to(ROOT).as_posix(), file.read_text("utf-8", "replace")) for file in tracked_files()]

    assert breaches(house.machine_paths, texts) == []


def test_a_machine_path_is_seen_and_a_web_address_is_none() -> None:
    seen = Source("docs/a.md", "see /" + "root/.config\nand ../" + "shared/x\n")

    assert len(breaches(house.machine_paths, [seen])) == 2
    assert (
        breaches(house.machine_paths, [Source("docs/a.md", f"https://example.org/{'work'}/ and frame/{'work'}/x")])
        == []
    )
