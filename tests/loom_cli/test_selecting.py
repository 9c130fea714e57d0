from __future__ import annotations

from typing import Any

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import ExecutionRow, IndexRow
from loom_cli.errors import Usage
from loom_cli.selecting import PAGE, VERBS, Where, chosen, query_of, where_of

NOW = 1_800_000_000_000
HOUR = 3_600_000


def row(name: str = "r1", *, status: str = "failed", started_at: int = NOW, **index: Any) -> ExecutionRow:
    given: dict[str, Any] = {"wake_at": None, "gates": "[]", "attributes": "{}", **index}
    ended = status in ("completed", "failed", "cancelled")
    about = IndexRow(
        flow="refund", status=status, started_at=started_at, updated_at=NOW, chain=name, ended=ended, **given
    )
    return ExecutionRow(ExecutionId(name), Incarnation(1), 3, about)


def test_conditions_are_read_by_their_names() -> None:
    given = ["status=failed", "status=in-doubt", "flow=refund", "before=1h", "after=2d", "attributes.customer=c=1"]

    where = where_of(given, now_ms=NOW)

    expected = Where(("failed", "in_doubt"), ("refund",), {"customer": ("c=1",)}, NOW - HOUR, NOW - 48 * HOUR)
    assert where == expected


@pytest.mark.parametrize(("text", "ms"), [("2026-11-30T09:00:00+00:00", 1_796_029_200_000), ("30s", NOW - 30_000)])
def test_a_time_is_an_age_or_a_date(text: str, ms: int) -> None:
    assert where_of([f"after={text}"], now_ms=NOW).after == ms


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("failed", "'failed' is no condition"),
        ("=failed", "is no condition"),
        ("status=", "is no condition"),
        ("status=lost", "'lost' is no status"),
        ("colour=red", "runs have no 'colour' to go by"),
        ("attributes.=red", "runs have no 'attributes.'"),
        ("after=soon", "'soon' is no time"),
    ],
)
def test_what_is_no_condition_is_refused(condition: str, told: str) -> None:
    with pytest.raises(Usage, match=told):
        where_of([condition], now_ms=NOW)


def test_a_verb_is_for_the_runs_it_can_be_for_unless_others_are_named() -> None:
    retry = VERBS["retry"]

    assert query_of(Where(), retry).statuses == ("failed",)
    assert query_of(Where(statuses=("completed",)), retry).statuses == ("completed",)
    assert (query_of(Where(), retry).limit, query_of(Where(), retry).tips) == (PAGE, True)


def test_pages_go_on_after_the_last_row_and_begin_before_a_time() -> None:
    assert query_of(Where(before=NOW), VERBS["retry"]).before == (NOW, "")
    assert query_of(Where(before=NOW), VERBS["retry"], after=row(started_at=5)).before == (5, "r1")


def test_a_run_fits_when_all_conditions_hold() -> None:
    rows = [
        row("a", attributes='{"customer": "c-1", "tier": 2, "gold": true}'),
        row("b", attributes='{"customer": "c-2", "tier": 2}'),
        row("old", started_at=NOW - HOUR, attributes='{"customer": "c-1", "tier": 2}'),
        row("bare"),
        row("damaged", attributes="{"),
    ]

    def fitting(where: Where) -> list[str]:
        return [each.row.execution_id for each in chosen(rows, where, VERBS["retry"], now_ms=NOW)]

    assert fitting(Where()) == ["a", "b", "old", "bare", "damaged"]
    assert fitting(Where(attributes={"customer": ("c-1",)}, after=NOW)) == ["a"]
    assert fitting(Where(attributes={"customer": ("c-1", "c-2"), "tier": ("2",)})) == ["a", "b", "old"]
    assert fitting(Where(attributes={"gold": ("true",)})) == ["a"]


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
    [only] = chosen([run], Where(), VERBS[verb], now_ms=NOW)

    assert only.refused == refused
