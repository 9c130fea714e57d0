"""`loom run`, `resume`, `retry` and `resolve` in this process: what they print, how they end, what the log holds after."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.loom_cli.desk import APP, effects, events, state, types
from tests.loom_cli.projects import Ended, loom

CLAIM = ("--set", "order=A-17", "--set", "amount=40")


def forget_the_app() -> None:
    sys.modules.pop("app")


def waiting(desk: Path, run_id: str = "r1") -> Ended:
    done = loom("run", "refund", *CLAIM, "--id", run_id, folder=desk)
    assert done.status == 3
    return done


def refused(done: Ended, code: str, *words: str, status: int = 2) -> None:
    """The command was refused by one clear message and nothing else."""
    assert done.status == status
    assert done.err.startswith(f"error[{code}]: "), done.err
    assert done.err.count("error[") == 1
    assert "Traceback" not in done.err
    assert done.out == ""
    for word in words:
        assert word in done.err


# -- run -----------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CLI-04")
def test_a_result_that_is_text_is_printed_as_it_is(desk: Path) -> None:
    done = loom("run", "hello", "--input", '"ada"', "--id", "h1", folder=desk)

    assert (done.status, done.out) == (0, "hello ada\n")
    assert done.err.startswith("h1 started\n")
    assert "h1 completed in " in done.err


def test_quiet_shows_the_end_alone(desk: Path) -> None:
    done = loom("run", "hello", "--id", "h1", "--quiet", folder=desk)

    assert done.out == "hello world\n"
    assert done.err.count("\n") == 1


@pytest.mark.proves("CLI-04", "CLI-23")
def test_json_is_one_object_and_prints_of_the_author_stay_out_of_it(desk: Path) -> None:
    done = loom("run", "hello", "--json", "--id", "h1", folder=desk)

    assert done.json == {
        "id": "h1",
        "flow": "hello",
        "status": "completed",
        "result": "hello world",
        "failure": None,
        "gates": [],
        "receives": [],
        "wake_at": None,
        "why": None,
        "difference": None,
        "length": 2,
        "driver": None,
    }
    assert done.out.count("\n") == 1


@pytest.mark.proves("PRN-04", "CLI-05")
def test_a_run_that_waits_prints_what_is_asked_and_how_to_answer_and_ends_with_3(desk: Path) -> None:
    done = waiting(desk)

    shown = state(desk, "r1").gates.values()
    digest = next(iter(shown)).payload.shown
    assert done.out == ""
    assert done.err.endswith(
        "  approval waits for an answer\n"
        "○ r1 waits for an answer\n"
        "  approval\n"
        "    │  {\n"
        '    │    "claim": {\n'
        '    │      "order": "A-17",\n'
        '    │      "amount": 40.0\n'
        "    │    },\n"
        '    │    "risk": 0.7\n'
        "    │  }\n"
        "    approved  yes or no\n"
        "    reason    text       optional\n"
        f"    answer: loom resume r1 --set approved=true --shown={digest}\n"
    )
    assert "Traceback" not in done.err


def test_the_printed_command_answers(desk: Path) -> None:
    command = waiting(desk).err.splitlines()[-1].split("answer: loom ")[1].split()

    done = loom(*command, folder=desk)

    assert (done.status, done.out) == (0, '{\n  "paid": "R-1"\n}\n')
    assert effects(desk) == ["assess", "pay"]
    answered = next(event for event in events(desk, "r1") if event.type == "GATE_ANSWERED")
    assert answered.metadata["principal"] == "ada"


def test_a_timer_that_is_far_parks_and_names_its_hour(desk: Path) -> None:
    done = loom("run", "nap", "--input", "3600", "--wait", "0", "--id", "n1", folder=desk)

    assert done.status == 3
    assert "n1 sleeps until " in done.err
    assert done.err.endswith("  goes on then with: loom resume n1\n")


def test_a_timer_that_is_near_is_waited_for(desk: Path) -> None:
    assert loom("run", "nap", "--input", "0.01", folder=desk).out == "awake\n"


def test_a_failed_run_shows_the_authors_own_lines_and_can_be_retried(desk: Path) -> None:
    failed = loom("run", "failing", "--id", "f1", folder=desk)

    assert (failed.status, failed.out) == (1, "")
    assert '  in fail:\n    with {"n": 1}\n' in failed.err
    assert '    raise ValueError("no such customer")\n' in failed.err
    assert "    ValueError: no such customer\n" in failed.err
    assert "Traceback" not in failed.err
    assert failed.err.endswith("  try again from there: loom retry f1\n")

    (desk / "mended").touch()
    mended = loom("retry", "f1", "--json", folder=desk)

    assert (mended.status, mended.json["result"]) == (0, 1)
    assert effects(desk) == ["assess", "fail", "fail"]


def test_a_result_that_no_log_can_hold_fails_the_run_in_words(desk: Path) -> None:
    done = loom("run", "plug", "--id", "p1", folder=desk)

    assert done.status == 1
    assert "NotSerializable" in done.err
    assert "socket" in done.err
    assert "Traceback" not in done.err
    assert state(desk, "p1").status == "failed"


def test_hints_repeat_the_options_that_were_given(desk: Path) -> None:
    done = loom("run", "refund", *CLAIM, "--id", "r1", "--app", "app:app", "--store", "my logs.db", folder=desk)

    assert done.err.endswith(" --app app:app --store 'my logs.db'\n")


@pytest.mark.proves("CLI-23")
@pytest.mark.parametrize(
    ("arguments", "code", "words", "status"),
    [
        (("run", "refund", "--input", "{oops"), "not-json", ("line 1, column 2",), 2),
        (("run", "refund", "--input", '{"order": 1, "amount": "x"}'), "invalid-payload", ("order: ", "amount: "), 2),
        (("run", "refund"), "invalid-payload", ("needs one",), 2),
        (("run", "two", "--input", "1"), "invalid-payload", ("takes none",), 2),
        (("run", "refnud"), "unknown-flow", ("Did you mean refund?",), 4),
        (("run", "hello", "--id", "a b"), "invalid-id", (), 2),
        (("run", "hello", "--app", "nowhere:app"), "app-not-found", ("nowhere",), 2),
        (("run", "hello", "--input", "@none.json"), "usage", ("none.json",), 2),
        (("run", "hello", "--input", "1" * 5000), "usage", ("4300 digits",), 2),
        (("run", "echo", "--input", "[" * 900 + "]" * 900), "not-serializable", ("nested",), 2),
        (("run", "hello", "--wait", "nan"), "usage", ("nan is no number of seconds",), 2),
        (("run", "hello", "--input", '"\udcff"'), "usage", ("no UTF-8",), 2),
        (("run", "hello", "--set", "a=\udcff"), "usage", ("no UTF-8",), 2),
        (("run", "hello", "--as", "\udcff"), "invalid-id", ("principal",), 2),
        (("run", "hello", "--id", "\udcff"), "invalid-id", (), 2),
        (("run", "\udcff"), "unknown-flow", (), 4),
        (("run", "hello", "--wait", "-1"), "usage", ("--wait",), 2),
        (("resume", "nobody"), "execution-not-found", ("loom.db",), 4),
        (("retry", "nobody"), "execution-not-found", (), 4),
        (("resolve", "nobody", "--as", "done"), "execution-not-found", (), 4),
        (("resolve", "nobody"), "usage", ("--as done",), 2),
        (("resolve", "nobody", "--as", "perhaps"), "usage", ("perhaps",), 2),
    ],
)
def test_what_cannot_be_done_is_one_message_and_leaves_no_run(
    desk: Path, arguments: tuple[str, ...], code: str, words: tuple[str, ...], status: int
) -> None:
    done = loom(*arguments, folder=desk)

    refused(done, code, *words, status=status)
    assert loom("ps", "--json", folder=desk).out in ("", "[]\n")


def test_an_id_that_is_taken_runs_nothing(desk: Path) -> None:
    waiting(desk)
    before = types(desk, "r1")

    again = loom("run", "refund", *CLAIM, "--id", "r1", folder=desk)

    refused(again, "execution-exists", "Choose another --id; loom resume r1 goes on with it.", status=1)
    assert types(desk, "r1") == before
    assert effects(desk) == ["assess"]


def test_what_can_be_done_with_the_run_that_has_the_id_depends_on_how_it_stands(desk: Path) -> None:
    for flow, hint in (("hello", "loom show h1 prints its result"), ("failing", "loom retry h1 tries it again")):
        loom("run", flow, "--id", "h1", "--store", f"{flow}.db", folder=desk)
        forget_the_app()

        again = loom("run", flow, "--id", "h1", "--store", f"{flow}.db", folder=desk)

        assert hint.replace("h1", f"h1 --store {flow}.db") in again.err
        forget_the_app()


@pytest.mark.parametrize("run_id", ["-x", "--help", "a;b", "--"])
def test_the_printed_command_answers_whatever_the_id_looks_like(desk: Path, run_id: str) -> None:
    asked = loom("run", "refund", *CLAIM, f"--id={run_id}", folder=desk)
    command = asked.err.splitlines()[-1].split("answer: loom ")[1]

    done = loom(*shlex.split(command), folder=desk)

    assert (done.status, done.out) == (0, '{\n  "paid": "R-1"\n}\n')


def test_an_app_with_a_store_of_its_own_says_so_once_and_hints_lead_there(desk: Path) -> None:
    own = APP.replace("loom.sqlite_storage()", "loom.sqlite_storage('own.db')")
    many = "    await ctx.suspend('ask', show='x' * 9000, expects=bool)\n"
    (desk / "app.py").write_text(own.replace('    return f"hello', many + '    return f"hello'), encoding="utf-8")

    done = loom("run", "hello", "--id", "h1", folder=desk)

    assert done.err.startswith(
        f"this app keeps its logs in {desk / 'own.db'}, where ps, show, logs and gates do not look"
    )
    assert done.err.count("keeps its logs") == 1
    [look] = [line.split("loom ")[1] for line in done.err.splitlines() if "more characters: " in line]
    assert loom(*shlex.split(look), folder=desk).status == 0
    assert "keeps its logs" not in loom("resume", "h1", "--answer", "true", folder=desk).err
    assert "keeps its logs" not in loom("run", "hello", "--id", "h2", "--store", "./own.db", folder=desk).err
    assert "keeps its logs" not in loom("run", "hello", "--id", "h3", "-q", folder=desk).err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import loom\n\nx = 1 / 0\n", ("ZeroDivisionError: division by zero", "other.py:3")),
        ("import loom\ndef broken(:\n", ("SyntaxError", "other.py:2")),
        ("import nothing_like_it\n", ("nothing_like_it", "other.py:1")),
    ],
)
def test_an_app_that_does_not_import_shows_its_own_error_and_line(
    desk: Path, source: str, words: tuple[str, ...]
) -> None:
    (desk / "other.py").write_text(source, encoding="utf-8")

    refused(loom("run", "hello", "--app", "other:app", folder=desk), "app-not-importable", *words)


def test_a_flow_that_is_declared_but_not_registered_says_so(desk: Path) -> None:
    (desk / "app.py").write_text(APP.replace("flows=[refund, hello", "flows=[refund"), encoding="utf-8")

    done = loom("run", "hello", folder=desk)

    refused(done, "unknown-flow", "app.py declares it", "name it in define_config(flows=[...])", status=4)


def test_two_flows_with_one_id_are_both_named(desk: Path) -> None:
    (desk / "other.py").write_text(
        "import loom\n\n"
        "@loom.flow(id='same')\nasync def one(ctx): ...\n\n"
        "@loom.flow(id='same')\nasync def other(ctx): ...\n\n"
        "app = loom.define_config(flows=[one, other])\n",
        encoding="utf-8",
    )

    done = loom("run", "same", "--app", "other:app", folder=desk)

    assert done.status == 2
    assert "two flows have the id 'same'" in done.err
    assert "other.py:3" in done.err
    assert "other.py:6" in done.err


def test_an_app_that_keeps_its_logs_in_memory_says_that_they_end_with_the_command(desk: Path) -> None:
    (desk / "other.py").write_text(
        "import loom\n\n@loom.flow\nasync def ask(ctx):\n    await ctx.suspend('ok')\n\n"
        "app = loom.define_config(flows=[ask])\n",
        encoding="utf-8",
    )

    done = loom("run", "ask", "--app", "other:app", folder=desk)

    assert done.status == 3
    assert "they end with this command" in done.err


# -- resume --------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CLI-05")
def test_resume_without_an_answer_shows_the_question_and_changes_nothing(desk: Path) -> None:
    waiting(desk)
    before = types(desk, "r1")

    done = loom("resume", "r1", folder=desk)

    assert done.status == 3
    assert '"risk": 0.7' in done.err
    assert "answer: loom resume r1 --set approved=true --shown=" in done.err
    assert types(desk, "r1") == before


@pytest.mark.proves("SUS-01")
@pytest.mark.parametrize("answer", ['{"approved": "perhaps", "reason": 3}', "7", "null"])
def test_an_answer_of_the_wrong_type_is_refused_and_the_gate_stays_open(desk: Path, answer: str) -> None:
    waiting(desk)
    before = types(desk, "r1")

    done = loom("resume", "r1", "--answer", answer, folder=desk)

    refused(done, "invalid-payload")
    assert types(desk, "r1") == before
    assert loom("resume", "r1", "--set", "approved=true", "-q", folder=desk).status == 0


@pytest.mark.proves("SUS-12")
def test_an_answer_to_something_else_than_what_is_shown_is_refused(desk: Path) -> None:
    waiting(desk)

    done = loom("resume", "r1", "--set", "approved=true", "--shown", "another", folder=desk)

    refused(done, "approval-mismatch", "another")
    assert effects(desk) == ["assess"]


def test_a_run_that_has_ended_says_so_and_what_can_be_done(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)
    loom("run", "failing", "--id", "f1", folder=desk)

    refused(loom("resume", "h1", folder=desk), "execution-ended", "h1 is completed", "loom show h1")
    refused(loom("resume", "f1", folder=desk), "execution-ended", "f1 is failed", "loom retry f1")
    refused(loom("retry", "h1", folder=desk), "execution-not-failed", "nothing to retry")


def test_an_answered_run_cannot_be_answered_again(desk: Path) -> None:
    waiting(desk)
    loom("resume", "r1", "--set", "approved=true", folder=desk)

    refused(loom("resume", "r1", "--set", "approved=true", folder=desk), "execution-ended")
    assert effects(desk) == ["assess", "pay"]


def test_ids_may_be_shortened_while_they_mean_one_run(desk: Path) -> None:
    waiting(desk, "refund-a1")
    waiting(desk, "refund-b1")

    refused(loom("resume", "refund", folder=desk), "execution-ambiguous", "refund-a1", "refund-b1")
    assert loom("resume", "refund-b", "--set", "approved=false", folder=desk).status == 0
    assert state(desk, "refund-a1").status == "suspended"


def test_several_open_gates_are_listed_each_with_its_command(desk: Path) -> None:
    loom("run", "two", "--id", "t1", folder=desk)

    done = loom("resume", "t1", folder=desk)

    assert done.status == 2
    assert "    answer: loom resume t1 --gate parallel/legal/sign --answer true\n" in done.err
    assert "    answer: loom resume t1 --gate parallel/money/sign --answer true\n" in done.err
    assert "error[usage]: 2 gates of t1 are open" in done.err


def test_gates_are_answered_one_by_one_by_any_ending_that_means_one(desk: Path) -> None:
    loom("run", "two", "--id", "t1", folder=desk)

    refused(loom("resume", "t1", "--answer", "true", folder=desk), "gate-ambiguous", "parallel/legal/sign")
    refused(loom("resume", "t1", "--gate", "sign", "--answer", "true", folder=desk), "gate-ambiguous")
    refused(loom("resume", "t1", "--gate", "cash/sign", "--answer", "true", folder=desk), "gate-not-open", "Open: ")
    first = loom("resume", "t1", "--gate", "money/sign", "--answer", "false", folder=desk)
    second = loom("resume", "t1", "--answer", "true", "--json", folder=desk)

    assert first.status == 3
    assert (second.status, second.json["result"]) == (0, {"legal": True, "money": False})


def test_a_question_is_shown_as_json_too(desk: Path) -> None:
    waiting(desk)

    done = loom("resume", "r1", "--json", folder=desk)

    assert done.status == 3
    [gate] = done.json["gates"]
    assert (gate["gate"], gate["schema"]["required"]) == ("approval", ["approved"])


def test_a_run_whose_code_asks_something_else_shows_both_sides(desk: Path) -> None:
    loom("run", "changing", "--id", "c1", folder=desk)
    (desk / "label").write_text("second", encoding="utf-8")

    done = loom("resume", "c1", "--answer", '"x"', folder=desk)

    assert (done.status, done.out) == (3, "")
    assert "c1 diverged" in done.err
    assert "  recorded  gate first" in done.err
    assert "  asked     gate second" in done.err
    assert state(desk, "c1").status == "diverged"

    shown, listed = loom("show", "c1", folder=desk).out, loom("gates", folder=desk).out
    assert "  recorded  gate first" in shown
    assert "  asked     gate second" in shown
    assert "{" not in shown
    assert "--answer" not in shown + listed
    assert "  diverged: no answer helps before its code is mended; loom show c1\n" in listed
    assert loom("gates", "--json", folder=desk).json[0]["commands"] == ["loom show c1"]

    (desk / "label").unlink()
    assert loom("resume", "c1", "--gate", "first", "--answer", '"x"', folder=desk).status == 0
