from __future__ import annotations

from typing import Any

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import ExecutionRow, IndexRow
from loom.spi.where import Where
from loom.spi.where_text import parse_where
from loom_cli.selecting import PAGE, VERBS, chosen, query_of

NOW = 1_800_000_000_000


def parsed(text: str) -> Where:
    return parse_where(text, now_ms=NOW)


def row(name: str = "r1", *, status: str = "failed", started_at: int = NOW, **index: Any) -> ExecutionRow:
    given: dict[str, Any] = {"wake_at": None, "gates": "[]", "attributes": "{}", **index}
    ended = status in ("completed", "failed", "cancelled")
    about = IndexRow(
        flow="refund", status=status, started_at=started_at, updated_at=NOW, chain=name, ended=ended, **given
    )
    return ExecutionRow(ExecutionId(name), Incarnation(1), 3, about)


def test_a_verb_is_for_the_runs_it_can_be_for_unless_the_condition_says() -> None:
    retry = VERBS["retry"]

    assert query_of(parsed("flow=refund"), retry).statuses == ("failed",)
    assert query_of(parsed("flow=refund or not status=completed"), retry).statuses == ()
    query = query_of(parsed("flow=refund"), retry)
    assert (query.where, query.limit, query.tips) == (parsed("flow=refund"), PAGE, True)


def test_pages_go_on_after_the_last_row() -> None:
    assert query_of(parsed("id=a"), VERBS["retry"], after=row(started_at=5)).before == (5, "r1")


GATED = '[{"gate": "approval"}]'


@pytest.mark.parametrize(
    ("verb", "run", "refused"),
    [
        ("retry", row(), None),
        ("retry", row(status="completed"), "is completed, not failed"),
        ("retry", row(status="in_doubt"), "is in doubt, not failed"),
        ("resume", row(status="running"), None),
        ("resume", row(status="diverged"), None),
        ("resume", row(status="suspended", wake_at=NOW), None),
        ("resume", row(status="suspended", wake_at=NOW + 1), "sleeps"),
        ("resume", row(status="suspended", gates=GATED), "waits for an answer"),
        ("resume", row(status="suspended", gates=GATED, wake_at=NOW), None),
        ("resume", row(status="suspended", gates=GATED, wake_at=NOW + 1), "waits for an answer"),
        ("resume", row(status="paused"), "is paused"),
        ("resume", row(status="completed"), "is completed"),
        ("cancel", row(status="suspended"), None),
        ("cancel", row(), "is failed"),
        ("pause", row(status="running"), None),
        ("pause", row(status="paused"), "is paused already"),
        ("pause", row(status="cancelled"), "is cancelled"),
        ("unpause", row(status="paused"), None),
        ("unpause", row(status="running"), "is running, not paused"),
    ],
)
def test_what_a_verb_is_not_for_is_refused_with_the_reason(verb: str, run: ExecutionRow, refused: str | None) -> None:
    [only] = chosen([run], VERBS[verb], now_ms=NOW)

    assert only.refused == refused
