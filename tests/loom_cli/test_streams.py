"""What happens to a command when nobody takes what it writes: results are missed, messages are not."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from loom_cli.cli import Cli
from loom_cli.main import main
from loom_cli.screen import Screen
from tests.loom_cli.conftest import Project
from tests.loom_cli.desk import effects, state, types
from tests.loom_cli.terminal import environment, process

CLAIM = ("--set", "order=A-17", "--set", "amount=40")
READING = [
    ("ps",),
    ("ps", "--help"),
    ("--help",),
    ("show", "refund-41"),
    ("show", "refund-41", "--json"),
    ("logs", "refund-41"),
    ("logs", "refund-41", "--follow"),
    ("gates",),
    ("doctor",),
]


class Refusing(io.StringIO):
    """A stream that the system refuses: at the flush, as a buffered file does, or at every write."""

    def __init__(self, number: int, *, at_write: bool = False) -> None:
        super().__init__()
        self._number, self._at_write = number, at_write

    def write(self, text: str) -> int:
        taken = super().write(text)
        if self._at_write and text:
            raise OSError(self._number, os.strerror(self._number))
        return taken

    def flush(self) -> None:
        raise OSError(self._number, os.strerror(self._number))


def told(*arguments: str, out: io.StringIO, err: io.StringIO | None = None, folder: Path) -> tuple[int, str]:
    """Return the status of a command on these streams, and its messages."""
    err = err or io.StringIO()
    status = main(arguments, cli=Cli(Screen(out, err), folder=folder))
    return status, err.getvalue()


def shell(command: str, *, folder: Path) -> tuple[int, str]:
    """Return the status and the stdout of *command*, in which `loom` is the command of this checkout."""
    loom = f"{shlex.quote(sys.executable)} -m loom_cli"
    command = command.replace("loom", loom)
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment({}), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


# Results


@pytest.mark.parametrize("at_write", [True, False])
@pytest.mark.parametrize("arguments", READING)
def test_a_result_that_the_disk_does_not_take_is_an_error(
    arguments: tuple[str, ...], at_write: bool, project: Project
) -> None:
    out = Refusing(errno.ENOSPC, at_write=at_write)

    status, err = told(*arguments, out=out, folder=project.folder)

    assert status == 1
    if "--json" in arguments:
        assert json.loads(err)["error"]["code"] == "output"
    else:
        assert err == (
            "error[output]: the output cannot be written: No space left on device\n"
            "try: Nothing in the store was lost.\n"
        )


@pytest.mark.parametrize("arguments", READING)
def test_a_result_that_nobody_reads_any_more_is_no_error(arguments: tuple[str, ...], project: Project) -> None:
    assert told(*arguments, out=Refusing(errno.EPIPE), folder=project.folder) == (0, "")


@pytest.mark.parametrize("arguments", [("run", "hello", "--id", "h1"), ("run", "hello", "--id", "h1", "--json")])
def test_a_run_whose_result_is_not_taken_is_complete_all_the_same(arguments: tuple[str, ...], desk: Path) -> None:
    status, err = told(*arguments, out=Refusing(errno.ENOSPC), folder=desk)

    assert status == 1
    assert "the output cannot be written" in err
    assert "unexpected" not in err
    assert state(desk, "h1").status == "completed"


def test_an_error_is_told_even_if_results_before_it_are_not_taken(project: Project) -> None:
    status, err = told("show", "nobody", out=Refusing(errno.ENOSPC), folder=project.folder)

    assert status == 4
    assert err.startswith("error[execution-not-found]: ")


# Messages


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
@pytest.mark.parametrize("at_write", [True, False])
def test_a_run_goes_on_and_is_told_by_its_status_when_messages_are_lost(
    number: int, at_write: bool, desk: Path
) -> None:
    err = Refusing(number, at_write=at_write)

    status, _ = told("run", "refund", *CLAIM, "--id", "r1", out=io.StringIO(), err=err, folder=desk)

    assert status == 3
    assert types(desk, "r1") == [
        "EXECUTION_STARTED",
        "STEP_STARTED",
        "STEP_COMPLETED",
        "GATE_OPENED",
        "EXECUTION_SUSPENDED",
    ]
    assert effects(desk) == ["assess"]  # its print was lost as well, and failed nothing


def test_an_error_that_cannot_be_told_keeps_its_status(project: Project) -> None:
    assert told("show", "nobody", out=io.StringIO(), err=Refusing(errno.EPIPE), folder=project.folder)[0] == 4


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110  # a device
@pytest.mark.parametrize(
    ("command", "status", "out"),
    [
        ("loom run hello --id h1 2>/dev/full", 0, "hello world\n"),
        ("loom run hello --id h1 2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}", 0, ""),
        ("loom run hello --id h1 2>&- >&-", 0, ""),
        ("loom run hello --id h1 >/dev/full 2>/dev/full", 1, ""),
    ],
)
def test_a_process_ends_as_its_run_does_whoever_listens(command: str, status: int, out: str, desk: Path) -> None:
    assert shell(command, folder=desk) == (status, out)
    assert state(desk, "h1").status == "completed"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110  # a device
@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("loom --version 2>&1 >/dev/full", 1, "error[output]: the output cannot be written: "),
        ("loom --version 2>&1 >&-", 0, ""),
        ("loom --version 2>&1 >/dev/null", 0, ""),
        ("loom --show-completion bash 2>&1 >/dev/full", 1, "error[output]: the output cannot be written: "),
        ("loom ps --help 2>&1 >/dev/full", 1, "error[output]: the output cannot be written: "),
    ],
)
def test_what_is_printed_without_a_command_is_told_as_well(
    command: str, status: int, words: str, project: Project
) -> None:
    done = shell(command, folder=project.folder)

    assert (done[0], done[1][: len(words)]) == (status, words)
    assert "Traceback" not in done[1]
    assert "Exception ignored" not in done[1]


NOISY = """
import os, subprocess, sys
import loom

os.write(1, b"at the import\\n")


@loom.step
async def noise() -> int:
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run([sys.executable, "-c", "print('by a process')"], check=True)
    return 7


@loom.flow
async def noisy(ctx: loom.Context) -> int:
    return await ctx.run(noise)


app = loom.define_config(flows=[noisy], storage=loom.sqlite_storage())
"""


@pytest.mark.proves("CLI-23")
def test_what_is_written_past_python_s_streams_is_no_part_of_the_result(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NOISY, encoding="utf-8")

    done = process("run", "noisy", "--id", "n1", "--json", "--quiet", folder=tmp_path)
    again = process("run", "noisy", "--id", "n2", "--quiet", folder=tmp_path)

    assert (json.loads(done.out)["result"], again.out) == (7, "7\n")
    for ended in (done, again):
        assert ended.status == 0
        assert {"at the import", "by a process", "printed", "written"} <= set(ended.err.splitlines())


def test_a_result_that_nobody_reads_is_missed_though_a_step_writes_to_its_descriptor(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NOISY, encoding="utf-8")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loom_cli", "run", "noisy", "--id", "n1", "--json"],
            cwd=tmp_path,
            env=environment({}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert "the output cannot be written: No space left on device" in done.stderr
