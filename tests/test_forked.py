"""A command that is forked cannot tell, nor can who runs it: it is given what a process is given, and ends as one does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.forked import Forks

SCRIPT = """\
import atexit, os, sys
import beside, elsewhere
print(__name__, sys.argv, os.getcwd(), os.environ["SAID"], sys.stdin.read(), beside.WORD, elsewhere.WORD)
atexit.register(print, "bye")
print("complaint", file=sys.stderr)
exec(sys.argv[1])
"""


def ran(forks: Forks, folder: Path, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{forks.programs}{os.pathsep}{os.environ['PATH']}", "SAID": "a=b", "PYTHONPATH": "more"}
    return subprocess.run(
        ["sh", "-c", '"$@"', "sh", *command],
        cwd=folder,
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("then", "status", "complains"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("sys.exit()", 0, ""),
        ("assert 'PYTHONDONTWRITEBYTECODE' not in os.environ", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
    ],
)
def test_a_script_is_given_its_own_and_ends_as_it_ends(
    then: str, status: int, complains: str, forks: Forks, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "beside.py").write_text("WORD = 'beside'", encoding="utf-8")
    (tmp_path / "more" / "elsewhere.py").write_text("WORD = 'elsewhere'", encoding="utf-8")

    done = ran(forks, tmp_path, "python", "script.py", then, "é \n", given="typed")

    assert done.returncode == status
    told = f"__main__ {['script.py', then, 'é ' + chr(10)]} {tmp_path} a=b typed beside elsewhere\n"
    assert done.stdout == f"{told}bye\n"
    assert done.stderr.startswith("complaint\n")
    assert done.stderr.endswith(complains)


def test_one_that_dies_of_a_signal_ends_as_a_shell_says_it(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os\nos.kill(os.getpid(), 9)", encoding="utf-8")

    assert ran(forks, tmp_path, "python", "script.py").returncode == 128 + 9


def test_two_run_at_once_each_in_its_own(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "give.py").write_text("import os\nprint(os.getpid())", encoding="utf-8")
    (tmp_path / "take.py").write_text("import os\nprint(int(input()) != os.getpid())", encoding="utf-8")

    assert ran(forks, tmp_path, "sh", "-c", "python give.py | python take.py").stdout == "True\n"


def test_the_command_is_the_one_that_a_process_runs(forks: Forks, tmp_path: Path) -> None:
    done = ran(forks, tmp_path, "loom", "show", "nobody", "--store", "nowhere.db")

    assert done.returncode == 4
    assert done.stderr.startswith("error[store-not-found]")
