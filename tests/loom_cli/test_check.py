"""`loom check`: what it reads, how it tells, and how it ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.loom_cli.projects import loom, python

BUG = """\
import loom
from steps import fetch


@loom.flow
async def order(ctx: loom.Context, items: list[str]) -> list[str]:
    return [await ctx.run(fetch.named("fetch"), item) for item in items]
"""
STEPS = "import loom\n\n\n@loom.step\nasync def fetch(item: str) -> str:\n    return item\n"
MIXED = "import time\nimport loom\n\n\n@loom.flow\nasync def f(ctx: loom.Context) -> float:\n    print('x')\n    return time.time()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, "pyproject.toml", '[project]\nname = "demo"\n')
    write(tmp_path, "app/flows.py", BUG)
    write(tmp_path, "app/steps.py", STEPS)
    return tmp_path


def write(folder: Path, path: str, text: str) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.proves("CLI-09", "RPL-02", "GOV-03")
def test_a_loop_id_bug_ends_with_1_and_names_rule_file_line_and_the_change(project: Path) -> None:
    done = loom("check", "--fix-hints", folder=project)

    assert done.status == 1
    place, instead, before, after = done.out.splitlines()
    assert place.startswith("app/flows.py:7:27: loop-id `fetch.named('fetch')` is asked in a loop")
    assert instead.startswith("    instead: put what varies into the id")
    assert before == '    - return [await ctx.run(fetch.named("fetch"), item) for item in items]'
    assert after == '    + return [await ctx.run(fetch.named(f"fetch#{item}"), item) for item in items]'
    assert done.err == "✗ 1 error, 0 warnings: 1 flow in 2 files\n"


@pytest.mark.proves("CLI-09", "RPL-02")
def test_the_change_clears_it(project: Path) -> None:
    write(project, "app/flows.py", BUG.replace('"fetch"', 'f"fetch#{item}"'))

    done = loom("check", folder=project)

    assert (done.status, done.out, done.err) == (0, "", "✓ nothing found: 1 flow in 2 files\n")


def test_nothing_is_imported_or_run(project: Path) -> None:
    write(project, "app/flows.py", "open('ran', 'w')\nraise SystemExit(7)\n")

    assert loom("check", folder=project).status == 0
    assert not (project / "ran").exists()


# Rules


@pytest.mark.proves("CLI-09")
@pytest.mark.parametrize(
    ("arguments", "status", "rules"),
    [
        ((), 1, ["clock", "log"]),
        (("--select", "log"), 0, ["log"]),
        (("--select", "log,clock"), 1, ["clock", "log"]),
        (("--ignore", "clock"), 0, ["log"]),
        (("--ignore", "clock", "--ignore", "log"), 0, []),
    ],
)
def test_each_rule_has_a_switch_and_only_errors_fail(
    project: Path, arguments: tuple[str, ...], status: int, rules: list[str]
) -> None:
    write(project, "app/flows.py", MIXED)

    done = loom("check", "--json", *arguments, folder=project)

    assert done.status == status
    assert sorted(each["rule"] for each in done.json["findings"]) == rules


@pytest.mark.parametrize(
    ("table", "arguments", "rules"),
    [
        ('ignore = ["log"]', (), ["clock"]),
        ('select = ["log"]', (), ["log"]),
        ('select = ["log"]', ("--select", "clock"), ["clock"]),
        ('ignore = ["log"]', ("--select", "log"), ["log"]),
        ('ignore = ["log"]', ("--ignore", "clock"), []),
        ('exclude = ["app/*"]', (), []),
        ('exclude = ["app"]', (), []),
    ],
)
def test_a_project_has_settings_and_the_command_line_the_last_word(
    project: Path, table: str, arguments: tuple[str, ...], rules: list[str]
) -> None:
    write(project, "app/flows.py", MIXED)
    write(project, "pyproject.toml", f"[tool.loom.check]\n{table}\n")

    done = loom("check", "--json", *arguments, folder=project)

    assert sorted(each["rule"] for each in done.json["findings"]) == rules


# Usage


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("nowhere",), 4, "error[path-not-found]: there is no nowhere"),
        (("--select", "clok"), 2, "there is no rule 'clok'\ntry: Did you mean clock?"),
        (("--format", "xml"), 2, "xml"),
        (("--json", "--format", "sarif"), 2, "--json does not go with --format sarif"),
    ],
)
def test_what_cannot_be_done_is_told(project: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = loom("check", *arguments, folder=project)

    assert done.status == status
    assert said in done.err
    assert done.out == ""


@pytest.mark.parametrize("table", ["check = 3", "[tool.loom.check]\nignores = []", "[tool.loom.check]\nignore = 'log'"])
def test_settings_that_cannot_be_used_are_told(project: Path, table: str) -> None:
    write(project, "pyproject.toml", f"[tool.loom]\n{table}\n")

    done = loom("check", folder=project)

    assert done.status == 2
    assert "[tool.loom.check]" in done.err


def test_a_file_that_is_not_python_is_a_finding_and_the_others_are_checked(project: Path) -> None:
    write(project, "app/broken.py", "def broken(:\n")
    write(project, "app/bytes.py", "x = 1\n").write_bytes(b"\xff\xfe\x00")

    done = loom("check", folder=project)

    assert done.status == 1
    assert [line.split(":")[0] + line.split(":")[3].split()[0] for line in done.out.splitlines() if line[0] != " "] == [
        "app/broken.pysyntax",
        "app/bytes.pysyntax",
        "app/flows.pyloop-id",
    ]


# Paths


def test_one_file_is_checked_and_what_it_imports_is_followed(project: Path) -> None:
    write(
        project,
        "app/flows.py",
        MIXED.replace("time.time()", "later()").replace("import time", "from clocks import later"),
    )
    write(project, "app/clocks.py", "import time\n\n\ndef later() -> float:\n    return time.time()\n")

    done = loom("check", "app/flows.py", "--ignore", "log", folder=project)

    assert done.out.splitlines()[:2] == [
        "app/clocks.py:5:12: clock `time.time()` reads a clock, which says something else at every replay",
        "    reached by f (app/flows.py:6) > later (app/clocks.py:4)",
    ]
    assert loom("check", "flows.py", "--ignore", "log", folder=project / "app").out.startswith("clocks.py:5:12: clock")


def test_environments_caches_and_hidden_folders_are_left_out(project: Path) -> None:
    for folder in (".venv/lib", "env/lib", "node_modules/x", "app/__pycache__", "build"):
        write(project, f"{folder}/flows.py", MIXED)
    write(project, "env/pyvenv.cfg", "")

    assert loom("check", "--json", folder=project).json["files"] == 2


def test_a_folder_without_flows_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path, "plain.py", "x = 1\n")

    assert loom("check", folder=tmp_path).err == "✓ nothing found: 0 flows in 1 file\n"


def test_a_folder_without_python_is_not_said_to_be_checked(tmp_path: Path) -> None:
    done = loom("check", folder=tmp_path)

    assert (done.status, done.err) == (0, "nothing was checked: there is no Python file here\n")


# Machines


@pytest.mark.proves("GOV-03")
def test_sarif_is_printed_for_other_tools(project: Path) -> None:
    done = loom("check", "--format", "sarif", folder=project)

    assert done.status == 1
    [run] = done.json["runs"]
    [result] = run["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "app/flows.py"
    assert done.json["version"] == "2.1.0"


def test_a_hundred_modules_take_about_a_second(project: Path) -> None:
    for n in range(100):
        steps = "\n".join(f"    x = await ctx.run(fetch.keyed('{i}'), x + str({i}))" for i in range(30))
        before = f"from flows_{n - 1} import help_{n - 1}\n" if n else ""
        helper = f"async def help_{n}(ctx, x):\n{steps}\n    return x\n"
        flow = f"@loom.flow\nasync def flow_{n}(ctx: loom.Context, x: str) -> str:\n    return await help_{n}(ctx, x)\n"
        write(project, f"app/flows_{n}.py", f"import loom\nfrom steps import fetch\n{before}\n\n{helper}\n\n{flow}")

    began = time.process_time()
    done = loom("check", "--ignore", "loop-id", folder=project)

    assert done.err == "✓ nothing found: 101 flows in 102 files\n"
    assert time.process_time() - began < 8  # about 1.5 on a quiet machine


def test_the_help_loads_none_of_the_checker(project: Path) -> None:
    code = "import sys; from loom_cli.main import main; main(['check', '--help']); print('loom.devtools.checking.checker' in sys.modules)"

    assert python("-c", code, folder=project).out.splitlines()[-1] == "False"
