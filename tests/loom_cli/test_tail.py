"""`loom tail`: the events of all runs, from anywhere on, and as they come."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.desk import Running
from tests.loom_cli.projects import Ended, loom


def lines(done: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_all_events_are_told_and_any_of_them_can_be_gone_on_from(desk: Path) -> None:
    for name in ("h1", "h2"):
        assert loom("run", "hello", "--id", name, folder=desk).status == ExitCode.DONE

    whole = lines(loom("tail", "--all", "--once", "--json", folder=desk))
    assert lines(loom("tail", "--once", "--json", folder=desk)) == whole
    rest = lines(loom("tail", "--after", whole[2]["cursor"], "--once", "--json", folder=desk))

    assert [each["sequence"] for each in whole if each["execution_id"] == "h1"] == list(range(len(whole) // 2))
    assert whole[3:] == rest
    assert {each["incarnation"] for each in whole} == {1, 2}


def test_they_can_be_of_some_types(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)

    ended = loom("tail", "--all", "--once", "--type", "EXECUTION_*", folder=desk)

    assert [line.split()[2:5:2] for line in ended.out.splitlines()] == [
        ["h1", "EXECUTION_STARTED"],
        ["h1", "EXECUTION_COMPLETED"],
    ]


def test_each_has_its_own_number_and_the_name_of_its_call(desk: Path) -> None:
    loom("run", "failing", "--id", "f1", folder=desk)

    whole = {each["sequence"]: each for each in lines(loom("tail", "--once", "--json", folder=desk))}
    drawn = [line.split() for line in loom("tail", "--once", folder=desk).out.splitlines()]

    assert [(int(words[3]), words[4]) for words in drawn] == [(each, whole[each]["type"]) for each in whole]
    calls = {each["payload"].get("id") for each in whole.values()} - {None}
    ends = [words for words in drawn if "start" in whole[int(words[3])]["payload"]]
    assert ends
    assert {words[5] for words in ends} <= calls


def test_they_can_be_of_runs_that_are_so(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)
    loom("run", "hello", "--id", "h2", "--attr", "customer=c7", folder=desk)

    def told(*filters: str) -> set[str]:
        done = loom("tail", "--all", "--once", "--json", *filters, folder=desk)
        return {each["execution_id"] for each in lines(done)}

    assert told("--flow", "hello") == {"h1", "h2"}
    assert told("--flow", "refund") == set()
    assert told("--where", 'attr.customer="c7"') == {"h2"}
    assert told("--flow", "hello", "--where", "status=failed") == set()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--all", "--after", "1"), "each say where to begin"),
        (("--all", "--type", "STEP"), "no event is of type 'STEP'"),
        (("--where", "status is failed"), "error[where-invalid]"),
        (("--where", "lowest < 0"), "Rows of read models are not asked by `loom tail`"),
    ],
)
def test_what_says_nothing_is_refused(desk: Path, arguments: tuple[str, ...], told: str) -> None:
    refused = loom("tail", *arguments, folder=desk)

    assert refused.status == ExitCode.USAGE
    assert told in refused.err


def test_a_cursor_of_another_store_is_refused(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)

    refused = loom("tail", "--after", "99999", "--once", folder=desk)

    assert refused.status == ExitCode.FAILED
    assert "error[cursor-unknown]" in refused.err


def test_what_another_process_writes_is_told_as_it_comes(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)
    cursor = lines(loom("tail", "--all", "--once", "--json", folder=desk))[-1]["cursor"]
    tail = Running(desk, "tail", "--after", cursor, "--type", "EXECUTION_*")

    loom("run", "hello", "--id", "h2", folder=desk)
    told = [tail.next_line().split()[2:5] for _ in range(2)]
    tail.send(signal.SIGINT)

    ended = tail.ended()
    assert [[run, type_] for run, _, type_ in told] == [["h2", "EXECUTION_STARTED"], ["h2", "EXECUTION_COMPLETED"]]
    assert int(told[0][1]) == 0 < int(told[1][1])
    assert (ended.status, ended.out) == (ExitCode.INTERRUPTED, "")
    assert "Traceback" not in ended.err


def test_a_reader_that_goes_away_is_no_fault(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)
    tail = Running(desk, "tail", "--all", "--json")

    assert json.loads(tail.next_line())["sequence"] == 0
    tail.stop_reading()
    loom("run", "hello", "--id", "h2", folder=desk)

    ended = tail.ended()
    assert ended.err == ""
