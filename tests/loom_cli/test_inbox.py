"""`loom send`, `inbox` and `outcome`: what they print, how they end, what the log and the inbox hold after."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli import terminal
from tests.loom_cli.desk import events, state, types
from tests.loom_cli.projects import Ended, loom

GOLDEN = Path(__file__).parent / "golden"


def waiting(desk: Path, flow: str = "mail", run_id: str = "m1") -> Ended:
    done = loom("run", flow, "--id", run_id, "--wait", "0", folder=desk)
    assert done.status == 3, done.err
    return done


def unread(desk: Path, run_id: str = "m1") -> list[Any]:
    async def read() -> list[Any]:
        storage = SqliteStorage(desk / ".loom" / "loom.db", readonly=True)
        try:
            head = await storage.head(ExecutionId(run_id))
            assert head is not None
            return [json.loads(request.body)["message"] for request in await storage.pending(*head[:2])]
        finally:
            await storage.close()

    return asyncio.run(read())


# send


def test_a_run_that_waits_for_a_message_says_so_and_how_to_send_it(desk: Path) -> None:
    done = waiting(desk)

    assert done.err.endswith(
        "  news waits for a message of news\n"
        "○ m1 waits for a message\n"
        "  news  a message of news\n"
        "    send: loom send m1 news JSON\n"
    )


def test_one_that_waits_for_a_person_as_well_shows_both(desk: Path) -> None:
    said = waiting(desk, "mail_and_gate").err

    assert "○ m1 waits for an answer\n" in said
    assert "    answer: loom resume m1 --set" in said or "    answer: loom resume m1 --answer" in said
    assert re.search(
        r"  parallel/0/news  a message of news, until .* \(in 3d\)\n    send: loom send m1 news JSON\n", said
    )


def test_a_message_drives_the_run_that_waits_for_it_to_its_result(desk: Path) -> None:
    waiting(desk)

    first = loom("send", "m1", "news", '"one"', folder=desk)
    done = loom("send", "m", "news", '"two"', "--as", "bob", folder=desk)

    assert (first.status, first.out) == (3, "")
    assert "  news received from ada\n" in first.err
    assert (done.status, done.out) == (0, '[\n  "one",\n  "two"\n]\n')
    received = [event for event in events(desk, "m1") if event.type == "MESSAGE_RECEIVED"]
    assert [(event.payload.message, event.metadata["principal"]) for event in received] == [
        ("one", "ada"),
        ("two", "bob"),
    ]


def test_a_message_that_does_not_fit_is_told_by_the_status_from_one_that_was_taken(desk: Path) -> None:
    waiting(desk)

    dropped = loom("send", "m1", "news", "7", folder=desk)
    taken = loom("send", "m1", "news", '"one"', folder=desk)

    assert (dropped.status, taken.status) == (2, 3)
    assert "a message was dropped: " in dropped.err


def test_a_message_for_later_is_kept_and_drives_nothing(desk: Path) -> None:
    waiting(desk)

    kept = loom("send", "m1", "weather", '"rain"', folder=desk)

    assert kept == (0, "", "✓ m1 keeps it: nothing waits for weather now; it waits for news\n")
    assert types(desk, "m1")[-1] == "EXECUTION_SUSPENDED"
    assert unread(desk) == ["rain"]


def test_detached_it_only_stores_the_message(desk: Path) -> None:
    waiting(desk)

    kept = loom("send", "m1", "news", '"one"', "--detach", folder=desk)

    assert kept == (0, "", "✓ m1 keeps it until the run is driven: loom resume m1\n")
    assert unread(desk) == ["one"]


def test_the_same_key_again_is_accepted_and_comes_to_nothing(desk: Path) -> None:
    waiting(desk)

    for words in ('"one"', '"other"'):
        assert loom("send", "m1", "weather", words, "--key", "k", folder=desk).status == 0

    assert unread(desk) == ["one"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (['{"a": 1}'], {"a": 1}),
        (["--set", "a=1", "--set", "b.c=x"], {"a": 1, "b": {"c": "x"}}),
        (["@message.json"], [1]),
        ([], None),
    ],
)
def test_a_message_is_given_as_json_a_file_or_fields(given: list[str], sent: Any, desk: Path) -> None:
    (desk / "message.json").write_text("[1]")
    waiting(desk)

    assert loom("send", "m1", "weather", *given, folder=desk).status == 0

    assert unread(desk) == [sent]


def test_a_message_is_read_from_standard_input(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO('{"from": "a pipe"}'))
    waiting(desk)

    assert loom("send", "m1", "weather", "-", folder=desk).status == 0

    assert unread(desk) == [{"from": "a pipe"}]


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (("nobody", "news"), "execution-not-found", 4),
        (("m1", "news", "no json"), "not-json", 2),
        (("m1", ""), "invalid-id", 2),
        (("m1", "news", "--as", "eve"), "denied", 2),
    ],
)
def test_what_is_refused_says_why_and_sends_nothing(
    arguments: tuple[str, ...], code: str, status: int, desk: Path
) -> None:
    waiting(desk)

    refused = loom("send", *arguments, folder=desk)

    assert (refused.status, refused.out) == (status, "")
    assert f"error[{code}]: " in refused.err
    assert unread(desk) == []


def test_a_refusal_stands_on_the_log_and_in_what_is_printed_of_it(desk: Path) -> None:
    waiting(desk)
    loom("send", "m1", "news", "--as", "eve", folder=desk)

    shown = loom("logs", "m1", folder=desk)

    assert re.search(r"EXECUTION_DENIED .*send: eve may do nothing, by eve", shown.out)


def test_a_message_to_a_run_that_has_ended_is_refused(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)

    refused = loom("send", "h1", "news", folder=desk)

    assert (refused.status, refused.err.split("\n")[0]) == (2, "error[execution-ended]: h1 is completed")


def test_a_message_to_a_run_that_failed_is_refused_with_how_it_goes_on(desk: Path) -> None:
    assert loom("run", "failing", "--id", "f1", folder=desk).status == 1

    refused = loom("send", "f1", "news", "1", folder=desk)

    assert (
        refused.err == "error[execution-ended]: f1 is failed\ntry: `loom retry f1` tries it again from the failure.\n"
    )


# inbox


def test_an_inbox_shows_what_is_unread_and_needs_the_store_alone(desk: Path) -> None:
    waiting(desk)
    loom("send", "m1", "weather", '"rain"', "--key", "w1", folder=desk)
    loom("send", "m1", "news", '"one"', "--detach", folder=desk)
    loom("inbox", "hold", "m1", "orders", folder=desk)
    (desk / "app.py").write_text("broken(")

    shown = terminal.loom("inbox", "m1", folder=desk, now_ms=events(desk, "m1")[-1].at + 60_000)

    assert shown.status == 0
    assert re.fullmatch(
        r'news  1 unread, 1 receive waits for it\n    2  "one"  \S+, by ada\n\n'
        r"orders  0 unread, held back\n  try   loom inbox release m1 orders\n\n"
        r'weather  1 unread\n    1  "rain"  \S+, by ada, key w1\n',
        shown.out,
    ), shown.out


def test_an_empty_inbox_says_so(desk: Path) -> None:
    loom("run", "hello", "--id", "h1", folder=desk)

    assert loom("inbox", "h1", folder=desk) == (0, "", "nothing is unread in h1\n")


def test_a_held_topic_keeps_its_messages_and_released_it_drives_the_run(desk: Path) -> None:
    waiting(desk)

    held = loom("inbox", "hold", "m1", "news", "--reason", "spam", folder=desk)
    kept = [loom("send", "m1", "news", words, folder=desk) for words in ('"one"', '"two"')]
    shown = loom("show", "m1", folder=desk).out
    done = loom("inbox", "release", "m1", "news", folder=desk)

    assert held == (0, "", "news of m1 is held back; its messages are kept until loom inbox release m1 news\n")
    assert [each.err for each in kept] == ["✓ m1 keeps it until news is released: loom inbox release m1 news\n"] * 2
    assert "inbox   news  2 unread, held back\n" in shown
    assert (done.status, done.out) == (0, '[\n  "one",\n  "two"\n]\n')
    [fact] = [event.payload for event in events(desk, "m1") if event.type == "TOPIC_HELD"]
    assert (fact.topic, fact.reason) == ("news", "spam")


def test_a_topic_that_nothing_waits_for_is_released_without_driving(desk: Path) -> None:
    waiting(desk)
    loom("inbox", "hold", "m1", "orders", folder=desk)

    released = loom("inbox", "release", "m1", "orders", folder=desk)

    assert released == (0, "", "✓ m1 keeps it: nothing waits for orders now; it waits for news\n")
    assert types(desk, "m1")[-2:] == ["TOPIC_HELD", "TOPIC_RELEASED"]


@pytest.mark.parametrize("words", [(), ("hold",), ("hold", "m1"), ("keep", "m1", "news"), ("m1", "news")])
def test_other_words_are_no_inbox(words: tuple[str, ...], desk: Path) -> None:
    waiting(desk)

    refused = loom("inbox", *words, folder=desk)

    assert refused.status in (2, 4)
    assert types(desk, "m1")[-1] == "EXECUTION_SUSPENDED"


# outcome


@pytest.mark.proves("SUS-13")
def test_an_outcome_is_attached_and_shown_with_its_decision(desk: Path) -> None:
    loom("run", "choosing", "--id", "c1", folder=desk)

    added = loom("outcome", "add", "c1", "--decision", "pick", "--value", "0.8", "--note", "stayed", folder=desk)

    assert added == (0, "", "attached to pick of c1\n")
    [outcome] = loom("show", "c1", "--json", folder=desk).json["outcomes"]
    assert (outcome["decision"], outcome["value"], outcome["note"], outcome["by"]) == ("pick", 0.8, "stayed", "ada")
    assert re.search(
        r"OUTCOME_ATTACHED +pick +stayed, by ada, 0\.8", terminal.loom("logs", "c1", folder=desk, width=200).out
    )
    assert "learned  pick: 0.8, stayed, by ada\n" in loom("show", "c1", folder=desk).out
    assert state(desk, "c1").status == "completed"


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (("c1", "--decision", "other", "--value", "1"), "decision-not-found", 4),
        (("c1", "--value", "1"), "usage", 2),
        (("c1", "--decision", "pick"), "usage", 2),
        (("c1", "--decision", "pick", "--value", "{"), "not-json", 2),
        (("nobody", "--decision", "pick", "--value", "1"), "execution-not-found", 4),
        (("c1", "--decision", "pick", "--value", "1", "--as", "eve"), "denied", 2),
    ],
)
def test_what_cannot_be_attached_is_refused_in_words(
    arguments: tuple[str, ...], code: str, status: int, desk: Path
) -> None:
    loom("run", "choosing", "--id", "c1", folder=desk)

    refused = loom("outcome", "add", *arguments, folder=desk)

    assert (refused.status, refused.err.split(":")[0]) == (status, f"error[{code}]")
    assert "OUTCOME_ATTACHED" not in types(desk, "c1")


# What a run prints of its messages


def test_show_and_gates_tell_messages_from_gates(desk: Path) -> None:
    waiting(desk, "mail_and_gate")
    loom("send", "m1", "weather", '"rain"', folder=desk)

    shown = loom("show", "m1", folder=desk)

    assert "○ parallel/0/news  waits for a message of news for " in shown.out
    assert "  try   loom send m1 news JSON\n" in shown.out
    assert "inbox   weather  1 unread\n" in shown.out
    assert [gate["gate"] for gate in loom("gates", "--json", folder=desk).json] == ["parallel/1/sign"]


def test_the_tree_shows_a_receive_that_waits_was_served_or_was_too_late(desk: Path) -> None:
    waiting(desk)
    loom("send", "m1", "news", '"one"', folder=desk)

    shown = loom("show", "m1", folder=desk).out

    assert re.search(r'✓ news +\S+ +received from ada: "one"\n', shown)
    assert re.search(r"○ news#1 +\S+ +waits for a message of news\n", shown)
    assert loom("show", "m1", "news", folder=desk).out.startswith("news  done  of m1\nreceive, asked ")


def test_a_listing_says_for_which_message_a_run_waits(desk: Path) -> None:
    waiting(desk)

    assert re.search(r"^m1 +mail +suspended +\S+ +news$", loom("ps", folder=desk).out, re.MULTILINE)


# What the shapes are

MASKED = ("fingerprint", "digest", "chain", "at", "started_at", "asked_at", "ended_at", "sent_at")


def masked(value: Any) -> Any:
    """Return *value* without what depends on the clock and on the code of the tests."""
    if isinstance(value, dict):
        return {key: "..." if key in MASKED and item else masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, list) else value


def about_messages(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what a run shows of its inbox and of what was learned later; the rest is held elsewhere."""
    return {name: shown[name] for name in ("receives", "messages", "held", "unread", "decisions", "outcomes")}


def told(desk: Path) -> dict[str, Any]:
    """Return what each command prints with --json, in a story of its own."""
    waiting(desk)
    loom("run", "choosing", "--id", "c1", folder=desk)
    return {
        "send": loom("send", "m1", "news", '"one"', "--json", "--quiet", folder=desk).json,
        "inbox-hold": loom("inbox", "hold", "m1", "news", "--json", folder=desk).json,
        "send-kept": loom("send", "m1", "news", '{"two": [2]}', "--key", "k", "--json", folder=desk).json,
        "inbox": loom("inbox", "m1", "--json", folder=desk).json,
        "show-m1": about_messages(loom("show", "m1", "--json", folder=desk).json),
        "outcome": loom("outcome", "add", "c1", "--decision", "pick", "--value", "0.8", "--json", folder=desk).json,
        "show-c1": about_messages(loom("show", "c1", "--json", folder=desk).json),
    }


@pytest.mark.proves("CLI-23")
def test_the_json_shapes_are_those_of_the_golden_files_and_are_documented(desk: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")

    for name, shape in told(desk).items():
        text = json.dumps(masked(shape), indent=2, ensure_ascii=False) + "\n"
        file = GOLDEN / f"messages-{name}.json"
        if os.environ.get("WRITE_GOLDEN"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), name
        assert [field for field in shape if f"`{field}`" not in page] == []
