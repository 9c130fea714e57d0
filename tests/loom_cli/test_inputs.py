"""What a flow, a gate or a verdict takes is said wherever somebody gives something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loom_cli.desk import effects, state, types
from tests.loom_cli.projects import Ended, loom

CLAIM = ("--set", "order=A-17", "--set", "amount=40")
HELLO = "hello takes text, or nothing: loom run hello "
REFUND = "refund takes Claim: loom run refund --set order=TEXT --set amount=NUMBER"


def hint(done: Ended) -> str:
    """Return what the one error of *done* says to do."""
    assert done.status == 2, done
    assert done.err.count("error[") == 1
    return done.err.rpartition("try: ")[2].rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "hello", "--input", "Bob"), HELLO + "--input '\"Bob\"'"),
        (("run", "hello", "--input", "Bob "), HELLO + "--input '\"Bob \"'"),
        (("run", "hello", "--set", "name=Bob"), HELLO + "--input '\"TEXT\"'"),
        (("run", "hello", "--input", "7"), HELLO + "--input '\"TEXT\"'"),
        (("run", "refund"), REFUND),
        (("run", "refund", "--input", "[1]", "--set", "a=1"), REFUND),
        (("run", "refund", "--input", "Bob"), REFUND),
        (("run", "refund", "--set", "order=A-17"), REFUND),
        (("run", "refund", "--app", "app:app"), f"{REFUND} --app app:app"),
        (("run", "failing", "--input", "1"), "failing takes no input: loom run failing"),
        (("run", "nap"), "nap takes a number: loom run nap --input NUMBER"),
    ],
)
def test_an_input_that_does_not_fit_comes_with_what_the_flow_takes(
    arguments: tuple[str, ...], told: str, desk: Path
) -> None:
    assert hint(loom(*arguments, folder=desk)) == told
    assert effects(desk) == []


@pytest.mark.parametrize("given", [("--set", "amuont=40"), ("--input", '{"order": "x", "amuont": 1}')])
def test_a_misspelt_field_of_an_input_is_refused(given: tuple[str, ...], desk: Path) -> None:
    done = loom("run", "refund", *CLAIM[:2], *given, folder=desk)

    assert "error[unknown-field]: there is no field amuont\n" in done.err
    assert hint(done) == "Did you mean amount?"


def test_a_misspelt_field_of_an_answer_is_refused_and_the_gate_stays_open(desk: Path) -> None:
    loom("run", "refund", *CLAIM, "--id", "r1", folder=desk)
    before = types(desk, "r1")

    done = loom("resume", "r1", "--set", "approved=true", "--set", "raeson=late", folder=desk)

    assert hint(done) == "Did you mean reason?"
    assert types(desk, "r1") == before


def test_a_flow_says_what_it_takes_and_starts_nothing(desk: Path) -> None:
    done = loom("run", "refund", "--describe", folder=desk)

    assert done.status == 0
    assert done.out == (
        "refund takes Claim\n"
        "  order   text\n"
        "  amount  a number\n"
        "  loom run refund --set order=TEXT --set amount=NUMBER\n"
    )
    assert loom("run", "failing", "--describe", folder=desk).out == "failing takes no input\n  loom run failing\n"
    assert loom("run", "hello", "--describe", "--json", folder=desk).json == {
        "flow": "hello",
        "input": {"type": "string"},
        "required": False,
        "command": "loom run hello --input '\"TEXT\"'",
    }
    assert not (desk / ".loom").exists()


def test_a_verdict_without_a_result_says_what_the_step_returns(desk: Path) -> None:
    loom("run", "doubtful", "--id", "d1", folder=desk)
    assert state(desk, "d1").status == "in_doubt"

    nothing = loom("resolve", "d1", "--as", "done", folder=desk)
    text = loom("resolve", "d1", "--as", "done", "--value", "R-1", folder=desk)

    assert hint(nothing) == "It returns text: --value '\"TEXT\"'"
    assert "--set" not in text.err
    assert hint(text) == "A text is quoted twice, once for the shell: --value '\"R-1\"'"


def test_a_run_in_doubt_is_not_retried_but_resolved(desk: Path) -> None:
    loom("run", "doubtful", "--id", "d1", folder=desk)

    told = hint(loom("retry", "d1", folder=desk))

    assert told == "loom resolve d1 stall --as VERDICT says what came of an effect in doubt"


def test_a_verdict_that_fits_several_effects_in_doubt_lists_what_to_type_for_each(desk: Path) -> None:
    loom("run", "doubtful", "--id", "d1", "--input", "2", folder=desk)
    assert state(desk, "d1").status == "in_doubt"

    none = loom("resolve", "d1", "--as", "failed", folder=desk)
    several = loom("resolve", "d1", "stall", "--as", "failed", folder=desk)
    other = loom("resolve", "d1", "map/7/stall", "--as", "failed", folder=desk)

    assert none.status == several.status == 2
    assert "error[doubt-ambiguous]: a verdict without a step fits 2 effects in doubt of d1\n" in none.err
    assert "error[doubt-ambiguous]: 'stall' fits 2 effects in doubt of d1\n" in several.err
    ways = "loom resolve d1 map/0/stall --as VERDICT; loom resolve d1 map/1/stall --as VERDICT"
    assert hint(none) == hint(several) == f"Name one of them: {ways}."
    assert "error[not-in-doubt]: 'map/7/stall' of d1 is not in doubt\n" in other.err


def test_a_run_without_a_doubt_says_so(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)
    loom("run", "refund", *CLAIM, "--id", "r1", folder=desk)

    done = loom("resolve", "r1", "--as", "done", folder=desk)

    assert "error[not-in-doubt]: r1 has no effects in doubt\n" in done.err
