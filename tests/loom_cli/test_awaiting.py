"""What a parked run waits for, read from the end of its log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loom.spi.event_store import EventRecord
from loom_cli.awaiting import Wait, open_waits, waits_words

NOW = 1_700_000_000_000


def record(sequence: int, type: str, **payload: Any) -> EventRecord:
    return EventRecord(sequence, type, NOW, json.dumps(payload).encode(), b"")


def test_what_has_come_or_was_too_late_is_waited_for_no_more() -> None:
    log = [
        record(3, "MESSAGE_AWAITED", topic="news", due_at=NOW + 5),
        record(4, "MESSAGE_AWAITED", topic="mail"),
        record(5, "MESSAGE_AWAITED", topic="calls"),
        record(6, "MESSAGE_RECEIVED", start=4),
        record(7, "MESSAGE_TIMED_OUT", start=5),
        record(8, "EXECUTION_SUSPENDED"),
    ]

    assert open_waits(log) == [Wait("news", NOW + 5)]


def test_where_a_scope_was_cut_the_end_of_the_log_does_not_tell() -> None:
    assert open_waits([record(3, "MESSAGE_AWAITED", topic="news"), record(4, "SCOPE_CUT")]) == []


@pytest.mark.parametrize(
    ("waits", "wake_at", "words"),
    [
        ([Wait("news", None)], None, "news"),
        ([Wait("news", NOW + 60_000)], NOW + 60_000, "news, until 22:14:20"),
        ([Wait("news", None), Wait("news", None)], NOW + 60_000, "news, or the clock, in 1m"),
        ([Wait("loom.child:low", None), Wait("mail", None)], None, "mail, the child low"),
        ([Wait(name, None) for name in "abcde"], None, "a, b, c, 2 more"),
    ],
)
def test_it_is_told_by_topic_and_until_when(
    waits: list[Wait], wake_at: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loom_cli.awaiting.moment", lambda at_ms, _: "22:14:20")

    assert waits_words(waits, wake_at, NOW) == words
