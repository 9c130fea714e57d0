"""`loom gen` keeps loom_gen.py in step, touches nothing that is not its own, and adds items that work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loom_cli.projects import assert_clean, loom, python, tree

FLOW = "import loom\n\n\n@loom.flow\nasync def {0}(ctx: loom.Context) -> int:\n    return 1\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as `loom new` makes it."""
    assert loom("new", "demo", folder=tmp_path).status == 0
    return tmp_path / "demo"


def add_flow(project: Path, name: str) -> Path:
    file = project / "flows" / f"{name}.py"
    file.write_text(FLOW.format(name), encoding="utf-8")
    return file


# In step


@pytest.mark.proves("CLI-02", "PRN-07")
def test_a_new_flow_is_there_once_gen_has_run_and_not_before(project: Path) -> None:
    registered = "from app import app; print(*app.registry.flows)"
    add_flow(project, "refund")
    assert python("-c", registered, folder=project).out == "hello\n"

    done = loom("gen", folder=project)

    assert (done.status, done.out) == (0, "")
    assert "loom_gen.py is written: 2 flows, 2 steps" in done.err
    assert python("-c", registered, folder=project).out == "hello refund\n"


@pytest.mark.proves("AUT-09", "AUT-15")
def test_a_schedule_in_its_folder_is_in_the_app_once_gen_has_run(project: Path) -> None:
    file = project / "schedules" / "nightly.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    call = 'loom.schedule("nightly-greeting", "@daily", hello, input="night")'
    file.write_text(f"import loom\n\nfrom flows.hello import hello\n\nnightly = {call}\n", encoding="utf-8")

    done = loom("gen", folder=project)

    assert "1 schedule" in done.err
    registered = "from app import app; print(*app.registry.schedules)"
    assert python("-c", registered, folder=project).out == "nightly-greeting\n"
    assert python("-m", "mypy", "--no-error-summary", folder=project) == (0, "", "")


@pytest.mark.proves("CLI-02")
def test_check_writes_nothing_and_ends_with_1_and_the_diff_on_drift(project: Path) -> None:
    assert loom("gen", "--check", folder=project).status == 0
    add_flow(project, "refund")
    before = tree(project)

    done = loom("gen", "--check", folder=project)

    assert done.status == 1
    assert "+    refund,\n" in done.out
    assert "error[generated-out-of-date]" in done.err
    assert tree(project) == before


def test_check_sees_that_a_flow_has_gone_and_that_the_file_is_missing(project: Path) -> None:
    (project / "flows" / "hello.py").unlink()
    assert "-    hello,\n" in loom("gen", "--check", folder=project).out

    (project / "loom_gen.py").unlink()
    assert loom("gen", "--check", folder=project).status == 1


def test_generating_twice_changes_nothing(project: Path) -> None:
    before = (project / "loom_gen.py").stat()

    done = loom("gen", folder=project)

    assert "loom_gen.py is up to date" in done.err
    assert (project / "loom_gen.py").stat() == before


def test_the_json_tells_what_is_declared(project: Path) -> None:
    add_flow(project, "refund")

    done = loom("gen", "--check", "--json", folder=project)

    assert done.status == 1
    assert done.json["status"] == "out-of-date"
    assert [(row["kind"], row["id"]) for row in done.json["declared"]] == [
        ("flow", "hello"),
        ("flow", "refund"),
        ("tool", "compose"),
        ("step", "deliver"),
    ]
    assert sorted(done.json) == ["declared", "diff", "file", "status", "warnings"]


@pytest.mark.proves("COM-04")
def test_a_flow_that_was_generated_but_is_not_registered_is_told_at_boot(project: Path) -> None:
    app = project / "app.py"
    app.write_text(app.read_text(encoding="utf-8").replace("flows=FLOWS", "flows=FLOWS[:0]"), encoding="utf-8")

    done = python("-c", "import app", folder=project)

    assert "the flow 'hello' of flows.hello was generated but is not registered" in done.err


def test_a_flow_that_is_there_but_not_generated_yet_leads_to_gen(project: Path) -> None:
    add_flow(project, "refund")

    done = python("-m", "loom_cli", "run", "refund", folder=project)

    assert done.status == 4
    assert done.err.endswith(
        "try: flows/refund.py declares it, but the app does not have it: `loom gen` registers it.\n"
    )


def test_a_flow_that_has_gone_but_is_listed_leads_to_gen(project: Path) -> None:
    (project / "flows" / "hello.py").unlink()

    done = python("-m", "loom_cli", "run", "hello", folder=project)

    assert done.status == 2
    assert "No module named 'flows.hello'" in done.err
    assert done.err.endswith("try: loom_gen.py lists what is there no more: loom gen\n")


# Whose file it is


def test_a_hand_edit_is_kept_and_shown_until_it_is_forced(project: Path) -> None:
    generated = project / "loom_gen.py"
    original = generated.read_bytes()
    edited = original.replace(b"    hello,\n)\n\nSCHEDULES", b"    hello,  # mine\n)\n\nSCHEDULES")
    generated.write_bytes(edited)

    done = loom("gen", folder=project)

    assert edited != original
    assert done.status == 1
    assert "-    hello,  # mine\n+    hello,\n" in done.out
    assert "error[generated-edited]" in done.err
    assert "loom gen --force" in done.err
    assert generated.read_bytes() == edited
    assert loom("gen", "--check", folder=project).status == 1
    assert loom("gen", "--force", folder=project).status == 0
    assert generated.read_bytes() == original


def test_a_module_of_that_name_that_was_never_generated_is_kept(project: Path) -> None:
    (project / "loom_gen.py").write_text("FLOWS = ()\n", encoding="utf-8")

    assert loom("gen", folder=project).status == 1
    assert (project / "loom_gen.py").read_text(encoding="utf-8") == "FLOWS = ()\n"


def test_line_ends_are_kept_and_nothing_else_is_touched(project: Path) -> None:
    generated = project / "loom_gen.py"
    generated.write_bytes(generated.read_bytes().replace(b"\n", b"\r\n"))
    add_flow(project, "refund").write_bytes(FLOW.format("refund").replace("\n", "\r\n").encode())
    before = tree(project)

    assert loom("gen", folder=project).status == 0

    after = tree(project)
    assert {path for path in after if after[path] != before.get(path)} == {"loom_gen.py"}
    assert after["loom_gen.py"].count(b"\n") == after["loom_gen.py"].count(b"\r\n")
    assert loom("gen", "--check", folder=project).status == 0


def test_a_link_is_refused_and_what_it_leads_to_is_kept(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_bytes((project / "loom_gen.py").read_bytes())
    (project / "loom_gen.py").unlink()
    (project / "loom_gen.py").symlink_to(elsewhere)
    add_flow(project, "refund")
    before = elsewhere.read_bytes()

    done = loom("gen", folder=project)

    assert done.status == 2
    assert "loom_gen.py is a link" in done.err
    assert elsewhere.read_bytes() == before


# What is told


def test_a_syntax_error_is_told_with_file_and_line_and_nothing_is_written(project: Path) -> None:
    add_flow(project, "refund")
    (project / "tools" / "broken.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    before = tree(project)

    done = loom("gen", folder=project)

    assert done.status == 2
    assert "error[source-invalid]: tools/broken.py:2: " in done.err
    assert tree(project) == before


def test_two_of_one_id_are_told_with_both_places_and_nothing_is_written(project: Path) -> None:
    (project / "flows" / "again.py").write_text(FLOW.format("hello"), encoding="utf-8")
    before = tree(project)

    done = loom("gen", folder=project)

    assert done.status == 2
    assert "two flows have the id 'hello': flows/again.py:5 and flows/hello.py:17" in done.err
    assert tree(project) == before


def test_what_cannot_be_listed_is_a_warning(project: Path) -> None:
    (project / "flows" / "my-flow.py").write_text(FLOW.format("mine"), encoding="utf-8")

    done = loom("gen", folder=project)

    assert done.status == 0
    assert "warning: flows/my-flow.py:5: no import can name 'my-flow'; mine is not listed" in done.err


def test_a_folder_with_nothing_to_read_is_refused(tmp_path: Path) -> None:
    done = loom("gen", folder=tmp_path)

    assert done.status == 2
    assert "loom new NAME" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_cannot_be_read_is_told_and_not_left_out(project: Path) -> None:
    (project / "flows" / "gone.py").symlink_to("nowhere.py")
    before = tree(project)

    done = loom("gen", folder=project)

    assert done.status == 1
    assert "error[file-not-usable]" in done.err
    assert tree(project) == before


@pytest.mark.parametrize(
    "arguments",
    [["--watch", "--check"], ["--watch", "--json"], ["flow", "x", "--check"], ["flow"], ["agent", "x"], ["--in", "no"]],
)
def test_what_does_not_go_together_is_refused(project: Path, arguments: list[str]) -> None:
    before = tree(project)

    done = loom("gen", *arguments, folder=project)

    assert done.status == 2
    assert "usage" in done.err
    assert tree(project) == before


def test_in_names_the_project(project: Path, tmp_path: Path) -> None:
    assert loom("gen", "--check", "--in", "demo", folder=tmp_path).status == 0


# Items


@pytest.mark.proves("CLI-01", "CLI-03")
def test_a_new_project_and_what_is_added_to_it_pass_their_tests_types_and_lint(project: Path) -> None:
    assert loom("gen", "flow", "refund_order", folder=project).status == 0
    assert loom("gen", "tool", "count_words", folder=project).status == 0

    assert_clean(project)


def test_an_item_is_listed_at_once(project: Path) -> None:
    flow = loom("gen", "flow", "refund_order", folder=project)
    tool = loom("gen", "tool", "count_words", "--json", folder=project)

    assert [line.split()[-1] for line in flow.out.splitlines()] == [
        "flows/refund_order.py",
        "tests/test_refund_order.py",
    ]
    assert "loom_gen.py is written: 2 flows, 3 steps" in flow.err
    assert tool.json["files"] == ["tests/test_count_words.py", "tools/count_words.py"]
    assert tool.json["generated"]["status"] == "written"
    assert loom("gen", "--check", folder=project).status == 0


def test_an_item_overwrites_nothing(project: Path) -> None:
    (project / "tests" / "test_refund.py").write_text("# mine\n", encoding="utf-8")
    before = tree(project)

    done = loom("gen", "flow", "refund", folder=project)

    assert done.status == 2
    assert "error[file-taken]: tests/test_refund.py is there already" in done.err
    assert tree(project) == before


def test_an_item_whose_id_is_taken_is_refused_with_the_place(project: Path) -> None:
    before = tree(project)

    done = loom("gen", "tool", "compose", folder=project)

    assert done.status == 2
    assert "the tool compose is declared at tools/greeting.py:" in done.err
    assert tree(project) == before


def test_an_item_is_not_written_through_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / "tests" / "test_hello.py").unlink()
    (project / "tests").rmdir()
    (project / "tests").symlink_to(tmp_path / "elsewhere")

    done = loom("gen", "flow", "refund", folder=project)

    assert done.status == 2
    assert "tests is a link" in done.err
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (project / "flows" / "refund.py").exists()


@pytest.mark.proves("NOT-05")
def test_a_project_that_wires_by_hand_gets_no_generated_module(tmp_path: Path) -> None:
    done = loom("gen", "flow", "refund", folder=tmp_path)

    assert done.status == 0
    assert list(tree(tmp_path)) == ["flows/__init__.py", "flows/refund.py", "tests/test_refund.py"]
    assert python("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "tests", folder=tmp_path).status == 0


# Watching


@pytest.fixture
def watching(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A `loom gen --watch` on the project, what it says in one stream."""
    command = [sys.executable, "-m", "loom_cli", "gen", "--watch"]
    with subprocess.Popen(
        command,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509  # no other thread runs here
    ) as process:
        yield process
        process.kill()


def heed_ctrl_c() -> None:
    """Undo what a shell does to commands in the background, to which a test may belong: they never see Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def put(file: Path, text: str) -> None:
    """Write *file* in one move, so that nobody sees half of it."""
    half = file.with_name(f".{file.name}.half")
    half.write_text(text, encoding="utf-8")
    half.replace(file)


@pytest.mark.proves("CLI-02")
def test_watch_goes_on_after_an_error_and_ends_quietly_on_ctrl_c(
    project: Path, watching: subprocess.Popen[str]
) -> None:
    assert watching.stdout is not None
    assert "watching" in watching.stdout.readline()
    assert "up to date" in watching.stdout.readline()

    put(project / "flows" / "refund.py", "def f(:\n")
    assert "error[source-invalid]: flows/refund.py:1" in watching.stdout.readline()
    assert "try:" in watching.stdout.readline()

    put(project / "flows" / "refund.py", FLOW.format("refund"))
    assert "written: 2 flows" in watching.stdout.readline()

    watching.send_signal(signal.SIGINT)
    assert watching.stdout.read() == ""
    assert watching.wait() == 130
