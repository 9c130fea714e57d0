"""ps, show, logs, gates and doctor: what they print of a store, without the app."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loom.driving.runtime import WorkflowRuntime
from loom.lenses.folding import fold_at, state_digest
from loom.plugins.sqlite import SqliteStorage
from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.story import FLOWS, log_of
from tests.loom_cli.terminal import Ended, environment, loom, process

Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    time.tzset()
    yield
    time.tzset()


@pytest.fixture
def run(project: Project) -> Run:
    return lambda *arguments, **how: loom(*arguments, folder=project.folder, now_ms=project.now_ms, **how)


# ps


def test_ps_lists_executions_the_newest_first(run: Run) -> None:
    assert run("ps").out == (
        "ID         FLOW    STATUS     AGE  WAITS FOR\n"
        "payout-1   payout  in doubt    3m  pay\n"
        "nap-1      nap     suspended   3m  the clock, in 2h\n"
        "broken-1   broken  failed      3m\n"
        "refund-42  refund  suspended   4m  approval\n"
        "refund-41  refund  completed   5m\n"
    )


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "suspended"], ["nap-1", "refund-42"]),
        (["--status", "in-doubt", "--status", "failed"], ["payout-1", "broken-1"]),
        (["--flow", "refund"], ["refund-42", "refund-41"]),
        (["--flow", "refund", "--gates"], ["refund-42"]),
        (["--gates"], ["payout-1", "refund-42"]),
        (["--limit", "2"], ["payout-1", "nap-1"]),
        (["--flow", "nobody"], []),
    ],
)
def test_ps_filters(options: list[str], ids: list[str], run: Run) -> None:
    assert [row["id"] for row in run("ps", "--json", *options).json] == ids


def test_ps_goes_on_after_a_cursor(run: Run) -> None:
    first = run("ps", "--json", "--limit", "2")
    rest = run("ps", "--json", "--before", first.json[-1]["cursor"])

    assert "--before 1700000120529:nap-1" in first.err
    assert [row["id"] for row in rest.json] == ["broken-1", "refund-42", "refund-41"]
    assert run("ps", "--before", "yesterday").status == ExitCode.USAGE


def test_ps_tells_a_flow_that_is_spelt_like_the_one_asked_for(run: Run) -> None:
    assert run("ps", "--flow", "refnud").err.endswith("did you mean --flow refund?\n")
    assert "did you mean" not in run("ps", "--flow", "refund", "--status", "running").err


@pytest.mark.parametrize(
    "arguments",
    [
        ("ps", "--before", "99999999999999999999:x"),
        ("ps", "--before", "9" * 5000 + ":x"),
        ("ps", "--limit", "9" * 5000),
        ("gates", "--limit", "9" * 5000),
        ("logs", "refund-41", "--from", "99999999999999999999"),
        ("logs", "refund-41", "--from", "9" * 5000),
        ("show", "refund-41", "--at", "99999999999999999999"),
        ("show", "refund-41", "--at", "9" * 5000),
    ],
)
def test_a_number_that_no_store_has_is_wrong_usage(arguments: tuple[str, ...], run: Run) -> None:
    done = run(*arguments)

    assert (done.status, done.out) == (ExitCode.USAGE, "")
    assert done.err.startswith("error[usage]: ")


@pytest.mark.parametrize(
    "arguments", [("gates", "--limit", "99999999999999999999"), ("logs", "refund-41", "--from", str(2**63 - 1))]
)
def test_a_large_number_is_no_fault(arguments: tuple[str, ...], run: Run) -> None:
    assert run(*arguments).status == ExitCode.DONE


@pytest.mark.parametrize(
    "arguments",
    [("ps", "--flow", "\udcff"), ("ps", "--before", "1:\udcff"), ("gates", "--flow", "\udcff"), ("show", "\udcff")],
)
def test_bytes_that_are_no_text_are_wrong_usage(arguments: tuple[str, ...], run: Run) -> None:
    done = run(*arguments)

    assert (done.status, done.out) == (ExitCode.USAGE, "")
    assert "udcff" in done.err
    assert "unexpected" not in done.err


def test_an_unknown_status_is_named_with_those_there_are(run: Run) -> None:
    ended = run("ps", "--status", "dead")

    assert ended.status == ExitCode.USAGE
    assert "'dead' is no status" in ended.err
    assert "suspended, in_doubt" in ended.err


def test_an_empty_list_names_the_store_it_read(run: Run, project: Project) -> None:
    assert run("ps", "--flow", "nobody").err == f"no executions like that in sqlite:{project.store}\n"
    assert run("ps", "--flow", "nobody", "--json") == (ExitCode.DONE, "[]\n", "")
    assert run("gates", "--flow", "nobody").err == f"nothing waits for a person in sqlite:{project.store}\n"


def test_a_narrow_terminal_shortens_flows_and_never_ids(run: Run) -> None:
    shown = run("ps", terminal=True, width=44).out

    assert all(re.search(rf"^{id_} ", shown, re.MULTILINE) for id_ in ("payout-1", "nap-1", "refund-42"))
    assert max(map(len, shown.splitlines())) <= 44


# show


def test_show_says_where_a_run_stands_and_how_to_go_on(run: Run) -> None:
    shown = run("show", "payout").out

    assert shown.startswith("payout-1  in doubt\npayout, started 2023-11-14 22:15:20 (3m ago)\n")
    assert "  why   the attempt took longer than 0.001 s\n" in shown
    assert "  try   loom resolve payout-1 pay --as retry\n" in shown


def test_show_draws_the_calls_as_a_tree(run: Run) -> None:
    shown = run("show", "refund-41").out

    assert "  \u2713 assess_risk    240ms  2 attempts\n" in shown
    assert "  \u2713 map                   3 branches\n  \u251c\u2500 \u2713 0/fetch " in shown
    assert "  \u2514\u2500 \u2713 2/fetch " in shown
    assert '  \u2713 model                 chose "large"\n' in shown
    assert "answered by bob: true\n" in shown


def test_show_prints_a_failure_with_its_traceback(run: Run) -> None:
    shown = run("show", "broken").out

    assert 'in fetch:\n  with {"n": 99}\n' in shown
    assert "  RuntimeError: no such thing" in shown
    assert "asked by the flow:\n" in shown
    assert "await ctx.run(fetch, 99)" in shown
    assert "  try   loom retry broken-1\n" in shown


def test_the_commands_that_show_gives_name_the_store_it_was_given(run: Run, project: Project) -> None:
    shown = run("show", "nap", "--store", str(project.store)).out

    assert f"loom resume nap-1 --store {project.store}" in shown


@pytest.mark.proves("PRN-01")
def test_show_is_the_fold_of_the_log(run: Run, project: Project) -> None:
    events = asyncio.run(log_of(SqliteStorage(project.store), "refund-42"))

    for n in range(len(events)):
        assert run("show", "refund-42", "--at", str(n), "--json").json["digest"] == state_digest(fold_at(events, n))
    assert run("show", "refund-42", "--json").json["digest"] == state_digest(fold_at(events))


def test_show_at_an_event_shows_the_past_and_says_so(run: Run) -> None:
    shown = run("show", "refund-42", "--at", "3")

    assert "as it stood after event 3 of 14\n" in shown.out
    assert "approval" not in shown.out
    assert run("show", "refund-42", "--at", "15").err == (
        "error[usage]: there is no event 15\ntry: --at 14 is the last one\n"
    )


# ids


@pytest.mark.parametrize("command", ["show", "logs"])
def test_an_id_may_be_any_unique_beginning(command: str, run: Run) -> None:
    assert run(command, "br").status == ExitCode.DONE
    assert run(command, "refund-42").status == ExitCode.DONE


@pytest.mark.parametrize("command", ["show", "logs"])
def test_an_unknown_id_is_not_found_and_near_ones_are_told(command: str, run: Run, project: Project) -> None:
    ended = run(command, "refund-43")

    assert ended.status == ExitCode.NOT_FOUND
    assert f"no execution 'refund-43' in sqlite:{project.store}" in ended.err
    assert "Did you mean refund-42, refund-41?" in ended.err


@pytest.mark.parametrize("text", ["", "a b", "\x1b[2J", "\ud800"])
def test_an_impossible_id_is_wrong_usage(text: str, run: Run) -> None:
    assert run("show", text).status == ExitCode.USAGE


def test_an_id_that_others_begin_with_means_itself(tmp_path: Path) -> None:
    async def drive() -> None:
        storage = SqliteStorage(tmp_path / ".loom" / "loom.db")
        runtime = WorkflowRuntime(storage, flows=FLOWS)
        for name in ("nap", "nap-1"):
            await runtime.start("nap", id=name, linger_s=0)
        await storage.close()

    asyncio.run(drive())

    assert loom("show", "nap", "--json", folder=tmp_path).json["id"] == "nap"


# logs


@pytest.mark.proves("CLI-06")
def test_logs_prints_each_event_in_a_line(run: Run) -> None:
    lines = run("logs", "refund-41").out.splitlines()

    assert lines[0] == '    0  2023-11-14 22:13:20.000  EXECUTION_STARTED    refund  by ann, "c-7"'
    assert lines[2].endswith("STEP_ATTEMPT_FAILED  assess_risk  attempt 1, ValueError: the risk service is busy")
    assert lines[-1].endswith("EXECUTION_COMPLETED  true")
    assert len(lines) == 18


@pytest.mark.proves("KER-21")
def test_json_lines_are_the_events_whole(run: Run) -> None:
    events = [json.loads(line) for line in run("logs", "refund-41", "--json").out.splitlines()]

    assert [event["sequence"] for event in events] == list(range(18))
    assert {event["type"]: event["metadata"] for event in events if "metadata" in event} == {
        "EXECUTION_STARTED": {"principal": "ann"},
        "EXECUTION_RESUMED": {"principal": "bob"},
        "GATE_ANSWERED": {"principal": "bob", "request": 1},
    }


@pytest.mark.parametrize(
    ("options", "sequences"),
    [
        (["--type", "STEP_COMPLETED"], [3, 8, 9, 10]),
        (["--type", "gate_*", "--type", "user.*"], [12, 13, 16]),
        (["--from", "15"], [15, 16, 17]),
        (["--from", "9", "--type", "*COMPLETED"], [9, 10, 17]),
        (["--from", "99"], []),
    ],
)
@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_logs_filters(options: list[str], sequences: list[int], follow: list[str], run: Run) -> None:
    ended = run("logs", "refund-41", "--json", *options, *follow)

    assert [json.loads(line)["sequence"] for line in ended.out.splitlines()] == sequences


def test_a_log_that_ends_before_the_number_says_so(run: Run) -> None:
    done = run("logs", "broken-1", "--from", "900")

    assert (done.status, done.out, done.err) == (0, "", "broken-1 has no event 900 yet; its last one is 3\n")


def test_an_event_names_what_it_is_about_even_if_that_was_not_printed(run: Run) -> None:
    assert "map/0/fetch  1\n" in run("logs", "refund-41", "--from", "8").out


def test_a_type_that_does_not_exist_is_wrong_usage(run: Run) -> None:
    ended = run("logs", "refund-41", "--type", "STEP_COMPLTED")

    assert ended.status == ExitCode.USAGE
    assert "try: --type STEP_COMPLETED" in ended.err


@pytest.mark.proves("CLI-06")
def test_follow_prints_what_becomes_durable_and_ends_with_the_run(project: Project) -> None:
    async def answer() -> None:
        storage = SqliteStorage(project.store)
        await WorkflowRuntime(storage, flows=FLOWS).resume("refund-42", answer=False)
        await storage.close()

    command = [sys.executable, "-m", "loom_cli", "logs", "refund-42", "-f", "--json"]
    with subprocess.Popen(command, cwd=project.folder, env=environment({}), stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        early = [json.loads(tail.stdout.readline()) for _ in range(15)]
        asyncio.run(answer())
        late = [json.loads(line) for line in tail.stdout]

    assert tail.returncode == ExitCode.DONE
    assert [event["sequence"] for event in early + late] == list(range(18))
    assert late[-1]["type"] == "EXECUTION_COMPLETED"


# gates


@pytest.mark.proves("SUS-14", "RNG-14")
def test_gates_lists_all_that_waits_the_longest_wait_first(run: Run) -> None:
    rows = run("gates", "--json").json

    assert [(row["execution_id"], row["gate"], row["in_doubt"]) for row in rows] == [
        ("refund-42", "approval", False),
        ("payout-1", "pay", True),
    ]
    assert rows[0]["commands"][0].startswith("loom resume refund-42 --answer true --shown=")


def test_gates_draws_each_with_its_age_its_due_time_and_its_command(run: Run) -> None:
    shown = run("gates").out

    assert "refund-42  refund\n\u25cb approval  waits for 4m, until 17 Nov 22:14 (in 3d)\n" in shown
    assert "  try   loom resume refund-42 --answer true --shown=" in shown
    assert "? pay  in doubt for 3m\n" in shown


# doctor


def test_a_list_says_that_there_is_more_only_where_there_is(run: Run) -> None:
    count = len(run("ps", "--json").json)

    assert "there are more" not in run("ps", "--limit", str(count)).err
    assert "there are more: --before" in run("ps", "--limit", str(count - 1)).err


@pytest.mark.proves("KER-24")
def test_doctor_prints_the_versions_of_the_contracts(run: Run) -> None:
    from loom.devtools.manifest.shapes import VERSIONS, present
    from loom.plugins.postgres.migrating import schema_version
    from loom.plugins.sqlite.schema import SCHEMA_VERSION

    contracts = {name.lower().removesuffix("_version"): present(name) for name in VERSIONS}

    schemas = {"sqlite_schema": SCHEMA_VERSION, "postgres_schema": schema_version()}
    assert run("doctor", "--versions", "--json").json == {**contracts, **schemas}


def test_doctor_finds_no_fault_where_there_is_nothing_yet(tmp_path: Path) -> None:
    ended = loom("doctor", "--json", folder=tmp_path)

    assert ended.status == ExitCode.DONE
    assert ended.json["store"]["state"] == "not there yet: the first run makes it"
    assert ended.json["app"] == {"state": f"there is no app.py in {tmp_path}"}


def test_doctor_says_why_the_app_cannot_be_used_and_ends_with_1(project: Project) -> None:
    (project.folder / "app.py").write_text("import loom\n\n1 / 0\n", encoding="utf-8")

    ended = process("doctor", "--json", folder=project.folder)

    assert ended.status == ExitCode.FAILED
    assert f"ZeroDivisionError: division by zero ({project.folder / 'app.py'}:3)" in ended.json["app"]["fault"]
    assert ended.json["store"]["state"] == "holds executions"


def test_doctor_says_when_app_and_command_look_at_different_stores(project: Project) -> None:
    app = "import loom\napp = loom.define_config(storage=loom.sqlite_storage('own.db'))\n"
    (project.folder / "app.py").write_text(app, encoding="utf-8")

    shown = process("doctor", folder=project.folder)

    assert shown.status == ExitCode.DONE
    assert "but ps, show, logs and gates read" in shown.out


# Broken code


BROKEN = ["import loom\n1/0\n", "def (:\n", "import nothing_like_this\n", "raise SystemExit(0)\n"]


@pytest.mark.parametrize("source", BROKEN)
@pytest.mark.parametrize("arguments", [("ps",), ("show", "refund-42"), ("logs", "nap"), ("gates",)])
def test_the_reading_commands_work_when_the_code_is_broken(
    source: str, arguments: tuple[str, ...], project: Project, run: Run
) -> None:
    (project.folder / "app.py").write_text(source, encoding="utf-8")

    ended = run(*arguments)

    assert (ended.status, ended.err) == (ExitCode.DONE, "")


# What the shapes are


GOLDEN = Path(__file__).parent / "golden"
MASKED = ("fingerprint", "digest", "chain", "traceback", "schema_digest")


def masked(value: Any) -> Any:
    """Return *value* without what depends on the code of the tests or on where they lie."""
    if isinstance(value, dict):
        return {key: "..." if key in MASKED and item else masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "arguments",
    [
        ("ps",),
        ("show", "refund-41"),
        ("show", "refund-42"),
        ("show", "broken-1"),
        ("show", "payout-1"),
        ("show", "nap-1"),
        ("gates",),
        ("logs", "payout-1"),
    ],
    ids=" ".join,
)
def test_the_json_shapes_are_those_of_the_golden_files(arguments: tuple[str, ...], run: Run) -> None:
    out = run(*arguments, "--json").out
    told = [json.loads(line) for line in out.splitlines()] if arguments[0] == "logs" else json.loads(out)
    text = json.dumps(masked(told), indent=2, ensure_ascii=False) + "\n"
    file = GOLDEN / f"{'-'.join(arguments)}.json"
    if os.environ.get("WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["ps", "show-refund-41", "gates", "logs-payout-1"])
def test_every_field_of_a_shape_is_documented(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    shape = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))

    fields = set(shape if isinstance(shape, dict) else shape[0])
    assert {field for field in fields if f"`{field}`" not in page} == set()


def test_every_name_that_doctor_tells_stands_apart_from_what_it_says(tmp_path: Path) -> None:
    told = loom("doctor", "--versions", folder=tmp_path).out.splitlines()

    assert "  read model store spi 1.0.0" in told
