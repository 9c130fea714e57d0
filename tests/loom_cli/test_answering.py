"""Answering on a terminal: what is asked is shown, and an answer is sent once a person has agreed to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.loom_cli.desk import APP, state, types
from tests.loom_cli.projects import Ended, loom
from tests.loom_cli.test_driving import waiting


def interactive(
    desk: Path, monkeypatch: pytest.MonkeyPatch, *typed: str | type[BaseException], given: Sequence[str] = ()
) -> Ended:
    """Resume r1 on a terminal, with a person who types *typed*."""
    import io

    from loom_cli.cli import Cli
    from loom_cli.main import main
    from loom_cli.screen import Screen

    lines = iter(typed)

    def typing(prompt: str) -> str:
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", typing)
    out, err = io.StringIO(), io.StringIO()
    status = main(["resume", "r1", *given], cli=Cli(Screen(out, err, interactive=True), folder=desk))
    return Ended(status, out.getvalue(), err.getvalue())


@pytest.mark.proves("CLI-05", "SUS-12")
def test_on_a_terminal_the_question_is_asked_and_the_answer_bound_to_it(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(desk)

    done = interactive(desk, monkeypatch, "perhaps", "no", "too late", "yes")

    assert done.status == 0
    assert "answer yes or no\n" in done.err
    assert '  answer  {"approved": false, "reason": "too late"}\n' in done.err
    assert done.out == '{\n  "paid": null,\n  "why": "too late"\n}\n'


@pytest.mark.proves("CLI-05", "SUS-12")
def test_on_a_terminal_an_answer_that_is_given_is_shown_with_its_question_before_it_is_sent(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(desk)
    before = types(desk, "r1")

    left = interactive(desk, monkeypatch, "no", given=["--set", "approved=true"])
    after = types(desk, "r1")
    done = interactive(desk, monkeypatch, "", given=["--set", "approved=true"])

    assert (left.status, after) == (3, before)
    assert '"risk": 0.7' in left.err
    assert '  answer  {"approved": true}\n' in left.err
    assert left.err.endswith("left unanswered; r1 still waits\n")
    assert done.status == 0


@pytest.mark.proves("CLI-05")
@pytest.mark.parametrize("given", [[], ["--yes"]])
def test_an_answer_with_the_digest_of_what_was_shown_asks_nothing(
    desk: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    waiting(desk)
    [gate] = state(desk, "r1").gates.values()

    done = interactive(desk, monkeypatch, given=["--set", "approved=true", "--shown", str(gate.payload.shown), *given])

    assert done.status == 0


@pytest.mark.proves("CLI-05", "SUS-12")
@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_yes_is_refused_where_a_gate_shows_something_and_nobody_says_what_was_seen(
    desk: Path, monkeypatch: pytest.MonkeyPatch, on_a_terminal: bool
) -> None:
    waiting(desk)
    before, given = types(desk, "r1"), ["--set", "approved=true", "--yes"]

    done = interactive(desk, monkeypatch, given=given) if on_a_terminal else loom("resume", "r1", *given, folder=desk)

    assert done.status == 2
    assert "error[usage]: approval of r1 shows something, and --yes agrees to it unseen\n" in done.err
    [gate] = state(desk, "r1").gates.values()
    assert f"--shown={gate.payload.shown}" in done.err
    assert types(desk, "r1") == before


def test_yes_without_an_answer_is_for_many_runs(desk: Path) -> None:
    waiting(desk)

    assert "--yes go with --where" in loom("resume", "r1", "--yes", folder=desk).err


@pytest.mark.parametrize("given", [[], ["--set", "approved=true"]], ids=["asked", "given"])
@pytest.mark.parametrize(("left_by", "status"), [(KeyboardInterrupt, 130), (EOFError, 3)])
def test_a_person_who_leaves_leaves_the_gate_unanswered(
    desk: Path, monkeypatch: pytest.MonkeyPatch, left_by: type[BaseException], status: int, given: list[str]
) -> None:
    waiting(desk)
    before = types(desk, "r1")

    done = interactive(desk, monkeypatch, *([] if given else ["yes"]), left_by, given=given)

    assert done.status == status
    assert done.err.endswith("left unanswered; r1 still waits\n")
    assert types(desk, "r1") == before


def test_what_only_the_apps_type_refuses_is_asked_again(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stricter = "from pydantic import field_validator\n" + APP.replace(
        "    reason: str | None = None\n",
        "    reason: str | None = None\n\n"
        "    @field_validator('reason')\n    @classmethod\n    def told(cls, reason):\n"
        "        if reason == 'no':\n            raise ValueError('say why')\n        return reason\n",
    )
    (desk / "app.py").write_text(stricter, encoding="utf-8")
    waiting(desk)

    done = interactive(desk, monkeypatch, "no", "no", "", "too late", "")

    assert done.status == 0
    assert "say why" in done.err
    assert '"why": "too late"' in done.out
