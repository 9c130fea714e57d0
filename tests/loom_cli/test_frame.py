"""The frame: what is imported when, how errors are told, and with which status a process ends."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from loom.core.errors import LoomError
from loom.plugins.sqlite import SqliteStorage
from loom_cli import exits
from loom_cli.cli import Cli
from loom_cli.command_table import ROWS, Row
from loom_cli.exits import ExitCode, exit_code_of_error, exit_code_of_status
from loom_cli.main import main
from loom_cli.screen import Screen
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import environment, loom, process

HEAVY = ("asyncio", "pydantic", "rich", "textual", "jinja2", "orjson", "typer", "loom.kernel", "loom_cli.commands")
ROOMS = ("loom.core", "loom.spi", "loom.driving", "loom.plugins", "loom.plugins.sqlite")
LOADED_BY_PS = [
    "loom.core.changes",
    "loom.core.child_names",
    "loom.core.envelope",
    "loom.core.errors",
    "loom.core.identity",
    "loom.core.ids",
    "loom.core.links",
    "loom.core.sides",
    "loom.driving.run_reader",
    "loom.plugins.sqlite.connection",
    "loom.plugins.sqlite.failures",
    "loom.plugins.sqlite.location",
    "loom.plugins.sqlite.reader",
    "loom.plugins.sqlite.reading",
    "loom.plugins.sqlite.schema",
    "loom.plugins.sqlite.searching",
    "loom.plugins.sqlite.session",
    "loom.plugins.sqlite.thread",
    "loom.plugins.sqlite.wal",
    "loom.spi.admission_store",
    "loom.spi.change_feed",
    "loom.spi.clock",
    "loom.spi.errors",
    "loom.spi.event_store",
    "loom.spi.feed",
    "loom.spi.host",
    "loom.spi.sessions",
    "loom.spi.tables",
    "loom.spi.where",
    "loom.spi.where_tables",
]
"""What it may load of the library: each module here takes time of every `loom ps`. What is added has to earn its place."""


def loaded_by(*arguments: str) -> set[str]:
    code = "import sys; from loom_cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment({}), capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def command_of(row: Row) -> Any:
    return get_command(importlib.import_module(row.module).app)


def function_of(row: Row) -> Any:
    return command_of(row).callback


# Starting


def test_the_version_is_told_before_anything_is_imported(project: Project) -> None:
    done = process("--version", folder=project.folder)

    assert re.fullmatch(r"loom \d+\.\d+\.\d+\S*\n", done.out)
    assert not loaded_by("--version") & {*HEAVY, "typing", "dataclasses"}


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_the_front_page_imports_no_command_and_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not loaded_by(*arguments) & set(HEAVY)


def test_the_front_page_lists_every_command_with_its_summary(project: Project) -> None:
    shown = loom("--help", folder=project.folder)

    assert shown.status == ExitCode.DONE
    for row in ROWS.values():
        assert re.search(rf"^  {row.name} +{re.escape(row.summary)}$", shown.out, re.MULTILINE)


def test_the_front_page_fits_a_terminal_of_80_cells(project: Project) -> None:
    assert max(map(len, loom(folder=project.folder).out.splitlines())) < 80


def test_a_reading_command_imports_neither_pydantic_nor_rich(project: Project) -> None:
    assert not loaded_by("ps", "--store", str(project.store)) & {
        "pydantic",
        "rich",
        "textual",
        "jinja2",
        "loom.driving.runtime",
    }


def test_a_list_of_runs_loads_what_reads_rows_and_no_more(project: Project) -> None:
    loaded = loaded_by("ps", "--status", "completed", "--store", str(project.store))

    assert sorted(name for name in loaded if name.startswith("loom.") and name not in ROOMS) == LOADED_BY_PS
    assert not loaded & {"zoneinfo", "decimal", "rpds", "rfc8785"}


@pytest.mark.parametrize("command", ["show", "logs", "gates"])
def test_what_reads_logs_loads_nothing_that_drives_runs_or_revives_values(command: str, project: Project) -> None:
    arguments = [] if command == "gates" else ["refund-42"]

    loaded = loaded_by(command, *arguments, "--store", str(project.store))

    assert not loaded & {"pydantic", "loom.driving.driver", "loom.driving.runtime", "loom.app.config"}


def test_what_a_command_has_imported_is_left_to_the_system_unless_code_of_an_author_was_run(project: Project) -> None:
    code = (
        "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count() > 0, file=sys.stderr));"
        " from loom_cli.main import main; main()"
    )

    def left(*arguments: str) -> str:
        found = [sys.executable, "-c", code, *arguments]
        environ = environment({})
        return subprocess.run(
            found, env=environ, cwd=project.folder, capture_output=True, text=True, check=True
        ).stderr.split()[-1]

    assert left("ps") == "True"
    assert left("doctor") == "False"


def test_the_module_runs_as_a_command(project: Project) -> None:
    assert process("ps", folder=project.folder).status == ExitCode.DONE


# The table


@pytest.mark.parametrize("row", list(ROWS.values()), ids=lambda row: row.name)
def test_a_row_says_what_the_help_of_its_command_says(row: Row) -> None:
    first_line = (command_of(row).help or "").split("\n", 1)[0]

    assert first_line == f"{row.summary}."


@pytest.mark.parametrize("row", list(ROWS.values()), ids=lambda row: row.name)
def test_every_command_prints_its_help_and_has_json(row: Row, project: Project) -> None:
    shown = loom(row.name, "--help", folder=project.folder)

    assert shown.status == ExitCode.DONE
    assert f"Usage: loom {row.name}" in shown.out
    assert "Example: loom" in shown.out
    assert "--json" in shown.out or row.name in ("new", "gen")


def test_help_is_a_command_as_well(project: Project) -> None:
    assert loom("help", "ps", folder=project.folder) == loom("ps", "--help", folder=project.folder)
    assert loom("help", folder=project.folder) == loom("--help", folder=project.folder)


def examples() -> Iterator[Any]:
    for name in ("ps", "show", "logs", "watch", "gates", "inspect", "doctor"):
        for line in re.findall(r"^Example: loom (.*)$", command_of(ROWS[name]).help, re.MULTILINE):
            yield pytest.param(line, id=line)


async def archive_at(path: Path) -> None:
    """Make an archive in which nothing is, yet."""
    archive = SqliteStorage(path)
    await archive.open()
    await archive.close()


@pytest.mark.parametrize("line", list(examples()))
def test_the_examples_of_the_reading_commands_run(line: str, project: Project) -> None:
    arguments = [word for word in shlex.split(line) if word not in ("--follow", "-f")]
    asyncio.run(archive_at(project.folder / "archive.db"))

    assert loom(*arguments, folder=project.folder, now_ms=project.now_ms).status == ExitCode.DONE


# Errors


def test_an_error_says_what_happened_and_what_to_do(project: Project) -> None:
    ended = loom("show", "refund-4", folder=project.folder)

    assert ended == (
        ExitCode.USAGE,
        "",
        "error[execution-ambiguous]: 'refund-4' fits 2 executions\ntry: Name one of them: refund-41, refund-42.\n",
    )


@pytest.mark.proves("CLI-23")
def test_with_json_an_error_is_json_too(project: Project) -> None:
    ended = loom("show", "refund-4", "--json", folder=project.folder)

    assert ended.error == {
        "code": "execution-ambiguous",
        "message": "'refund-4' fits 2 executions",
        "hint": "Name one of them: refund-41, refund-42.",
        "fields": {"text": "refund-4", "candidates": ["refund-41", "refund-42"], "more": False},
    }
    assert ended.out == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ps", "--foo"), "error[usage]: no such option: --foo"),
        (("show",), "error[usage]: missing argument 'ID'\ntry: loom show --help\n"),
        (("ps", "--limit", "0"), "error[usage]: invalid value for '--limit' / '-n': 0"),
        (("--foo",), "error[usage]: no such option: --foo"),
        (("pss",), "error[usage]: there is no command 'pss'\ntry: loom ps\n"),
        (("zzz",), "try: loom --help"),
        (("help", "pss"), "error[usage]: there is no command 'pss'\ntry: loom ps\n"),
        (("ps", "--limit", "1", "-n", "2"), "error[usage]: --limit is given 2 times, and has one value\n"),
        (("run", "hello", "--wait", "abc"), "error[usage]: invalid value for '--wait': abc is no number of seconds\n"),
        (("run", "hello", "--id", "a", "--id", "b"), "error[usage]: --id is given 2 times, and has one value\n"),
    ],
)
def test_wrong_usage_is_told_in_the_same_form(arguments: tuple[str, ...], told: str, project: Project) -> None:
    ended = loom(*arguments, folder=project.folder)

    assert ended.status == ExitCode.USAGE
    assert told in ended.err
    assert "Traceback" not in ended.err


def test_wrong_usage_is_json_with_json(project: Project) -> None:
    assert loom("ps", "--foo", "--json", folder=project.folder).error["code"] == "usage"


def test_debug_shows_the_traceback_wherever_it_stands(project: Project) -> None:
    for arguments in (("--debug", "show", "nobody"), ("show", "nobody", "--debug")):
        ended = loom(*arguments, folder=project.folder)

        assert ended.status == ExitCode.NOT_FOUND
        assert "Traceback (most recent call last)" in ended.err
        assert "error[execution-not-found]" in ended.err


def test_what_nobody_expected_is_one_line_that_asks_for_debug(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(cli: Cli, store: str | None) -> None:
        raise ZeroDivisionError("boom \x1b[2J")

    monkeypatch.setattr(Cli, "runs", explode)

    ended = loom("ps", folder=project.folder)

    assert ended.status == ExitCode.FAILED
    assert ended.err.startswith("error[unexpected]: ZeroDivisionError: boom \\x1b[2J\ntry: --debug shows where.")
    assert "Traceback" not in ended.err


def test_ctrl_c_ends_with_130(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(cli: Cli, store: str | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cli, "runs", interrupt)

    assert loom("ps", folder=project.folder).status == ExitCode.INTERRUPTED


def test_a_command_that_exits_by_typer_keeps_its_status(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(cli: Cli, store: str | None) -> None:
        raise typer.Exit(3)

    monkeypatch.setattr(Cli, "runs", leave)

    assert loom("ps", folder=project.folder).status == 3


@pytest.mark.parametrize("code", [None, 0, 5, "bye"])
def test_code_of_the_app_that_exits_never_ends_a_command_as_done(
    code: Any, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(cli: Cli, store: str | None) -> None:
        sys.exit(code)

    monkeypatch.setattr(Cli, "runs", leave)

    ended = loom("ps", folder=project.folder)

    assert ended.status == ExitCode.FAILED
    assert ended.err.startswith("error[exited]: code of the app ended the command by SystemExit")
    assert str(code) in ended.err or code is None


# Statuses


def all_errors(kind: type[LoomError] = LoomError) -> Iterator[type[LoomError]]:
    for each in kind.__subclasses__():
        yield each
        yield from all_errors(each)


def test_every_code_of_the_table_of_statuses_is_that_of_an_error() -> None:
    for module in (
        "loom.kernel.errors",
        "loom.app.registry",
        "loom.values",
        "loom.services.compacting",
        "loom.services.answer_links",
        "loom.plugins.bundle.naming",
        "loom.plugins.bundle.redacting",
        "loom.services.snapshot_taking",
        "loom.devtools.scaffold",
        "loom.devtools.dst.world",
        "loom.devtools.graphing.reading",
    ):
        importlib.import_module(module)
    for module in ("loom.devtools.codegen", "loom.devtools.declarations", "loom_cli.app_location"):
        importlib.import_module(module)

    assert set(exits._BY_ERROR) - {error.code for error in all_errors()} == set()


def test_an_error_without_a_row_is_a_failure() -> None:
    assert exit_code_of_error(LoomError("what")) is ExitCode.FAILED


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("completed", 0),
        ("accepted", 0),
        ("failed", 1),
        ("cancelled", 1),
        ("suspended", 3),
        ("in_doubt", 3),
        ("diverged", 3),
    ],
)
def test_a_run_that_stands_so_has_this_status(status: str, code: int) -> None:
    assert exit_code_of_status(status) == code


# Pipes


@pytest.mark.parametrize("arguments", [("logs", "refund-41"), ("logs", "refund-41", "-f"), ("--version",), ("--help",)])
def test_a_pipe_that_nobody_reads_is_no_fault(arguments: tuple[str, ...], project: Project) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    with subprocess.Popen(
        [sys.executable, "-m", "loom_cli", *arguments],
        cwd=project.folder,
        env=environment({}),
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as running:
        os.close(writing)
        _, err = running.communicate()

    assert (running.returncode, err) == (ExitCode.DONE, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_closed_streams_are_no_fault(project: Project) -> None:
    command = f"{shlex.quote(sys.executable)} -m loom_cli ps >&- 2>&-"

    done = subprocess.run(command, shell=True, cwd=project.folder, env=environment({}), check=False)

    assert done.returncode == ExitCode.DONE


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_a_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    err = io.StringIO()

    status = main(["ps"], cli=Cli(Screen(io.StringIO(), err)))

    assert status == ExitCode.USAGE
    assert err.getvalue().startswith("error[usage]: the working directory is no more\n")


# Encodings and hostile text (field faults 57 and 58)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "utf-8"])
def test_no_encoding_is_too_poor_for_a_command(encoding: str, project: Project) -> None:
    commands = [["show", "refund-42"], ["logs", "broken"], ["ps"], ["gates"], ["--help"]]
    code = f"import sys; from loom_cli.main import main; sys.exit(max(map(main, {commands})))"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.folder,
        env=environment({"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}),
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (ExitCode.DONE, b"")
    assert b"refund-42" in done.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_json_is_the_same_json_in_every_encoding(encoding: str, project: Project) -> None:
    ended = process("logs", "broken", "--json", folder=project.folder, environ={"PYTHONIOENCODING": encoding})

    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["sequence"] for line in lines] == [0, 1, 2, 3]
    assert "\u0417\u0434\u0440" in lines[2]["payload"]["failure"]["message"]
    assert encoding == "utf-8" or ended.out.isascii()


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "refund-42"),
        ("show", "broken"),
        ("show", "broken", "--json"),
        ("logs", "broken"),
        ("logs", "broken", "--json"),
        ("logs", "refund-42"),
        ("gates",),
        ("gates", "--json"),
        ("ps", "--json"),
        ("show", "\x1b]52;c;aGk=\x07\u202e[red]"),
    ],
)
@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_from_a_log_drives_the_terminal(arguments: tuple[str, ...], terminal: bool, project: Project) -> None:
    ended = loom(*arguments, folder=project.folder, now_ms=project.now_ms, terminal=terminal)

    printed = ended.out + ended.err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", printed)


# Completion


def complete(line: str, project: Project) -> list[str]:
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "loom_cli"],
        cwd=project.folder,
        env=environment({"_LOOM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_shell_completes_commands_ids_and_flows(project: Project) -> None:
    (project.folder / "app.py").write_text("import loom\n@loom.flow(id='parcel')\nasync def f(ctx): ...\n1/0\n")

    assert complete("loom sh", project) == ["show"]
    assert complete("loom show ref", project) == ["refund-41", "refund-42"]
    assert complete("loom ps --flow pa", project) == ["parcel", "payout"]


def test_completion_offers_nothing_where_there_is_no_store(tmp_path: Any) -> None:
    assert complete("loom show re", Project(tmp_path, 0)) == []


def test_the_script_for_the_shell_is_printed(project: Project) -> None:
    done = process("--show-completion", "bash", folder=project.folder)

    assert done.status == ExitCode.DONE
