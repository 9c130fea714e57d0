"""Drawing runs side by side: what each came to, where they part, and what differs from there on."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from loom.lenses.comparing import Comparison, Difference, Run, Side
from loom_cli.readable import readable
from loom_cli.screen import STATUS_STYLES, Column, Pieces, Screen, Styled
from loom_cli.times import duration
from loom_cli.trials import STOPPED
from loom_cli.wording import counted, failure_text, joined, one_line, value_text

_SHOWN: Final = 10
_WIDTH: Final = 160
_RUNS: Final = (Column(""), Column(""), Column("", right=True), Column(""), Column("", shrink=True))
_SIDES: Final = (Column(""), Column(""), Column("", shrink=True))
_ASKED: Final = ("args", "show", "candidates", "branches", "data", "label", "topic")
_CAME: Final = ("result", "answer", "choice", "message", "chunks")


def draw_comparison(screen: Screen, comparison: Comparison, stopped: Container[str], *, every: bool) -> None:
    """Print *comparison*; *every* shows all differences, and not the first ones alone. Runs that are *stopped* trials say so."""
    screen.table(
        _RUNS, [_run_row(run, run.id in stopped, is_first=run is comparison.runs[0]) for run in comparison.runs]
    )
    screen.line()
    differences = comparison.differences
    if not differences:
        alike = "all calls are alike" if comparison.is_same else "all calls are alike, and yet they came to other ends"
        screen.line(f"{counted(comparison.alike, 'call', 'calls')}: {alike}")
        return
    first = differences[0]
    screen.line(
        f"{counted(comparison.alike, 'call is', 'calls are')} alike, {len(differences)} differ; they part at ",
        Styled(first.id, "bold"),
    )
    for each in differences if every else differences[:_SHOWN]:
        screen.line()
        _draw(screen, each, comparison.runs)
    if not every and len(differences) > _SHOWN:
        screen.line()
        screen.line(Styled(f"and {len(differences) - _SHOWN} more: --all shows them", "dim"))


def _run_row(run: Run, has_stopped: bool, *, is_first: bool) -> tuple[Any, ...]:
    status = Styled(run.status.replace("_", " "), STATUS_STYLES.get(run.status, ""))
    if has_stopped:
        status = Styled(STOPPED, STATUS_STYLES["suspended"])
    came = failure_text(run.failure) if run.failure else "" if run.result is None else value_text(run.result)
    return (
        Styled(run.id, "bold"),
        status,
        duration(run.took_ms),
        Styled(_shared(run, is_first), "dim"),
        one_line(came, _WIDTH),
    )


def _shared(run: Run, is_first: bool) -> str:
    if run.source is not None:
        simulated = ", simulated" if run.simulated else ""
        return f"fork of {run.source['execution_id']} after event {run.source['sequence']}{simulated}"
    return "" if is_first or not run.shared else f"{counted(run.shared, 'event', 'events')} alike"


def _draw(screen: Screen, each: Difference, runs: tuple[Run, ...]) -> None:
    words = {"asked": "asked otherwise", "outcome": "came to another outcome", "missing": "not in each of them"}
    screen.line(Styled(each.id, "bold"), "  ", Styled(joined(each.kind, words[each.what]), "dim"))
    rows = [row for run, side in zip(runs, each.sides, strict=True) for row in _rows(run, side, each)]
    screen.table(_SIDES, rows, indent="  ")


def _rows(run: Run, side: Side | None, each: Difference) -> Iterator[tuple[str | Styled | Pieces, ...]]:
    if side is None:
        yield run.id, Styled("not asked", "dim"), ""
        return
    took = f", {duration(side.took_ms)}" if side.took_ms is not None else ""
    tried = f", {side.attempts} attempts" if side.attempts is not None and side.attempts > 1 else ""
    yield run.id, Styled(f"{side.status.replace('_', ' ')}{took}{tried}", "dim"), _told(side.outcome, _CAME)
    if each.what != "outcome":
        yield "", Styled("asked", "dim"), _told(side.asked, _ASKED)


def _told(payload: Mapping[str, Any], names: tuple[str, ...]) -> str:
    failure = payload.get("failure")
    if failure is not None:
        return one_line(failure_text(failure), _WIDTH)
    told = [value_text(readable(payload[name])) for name in names if name in payload]
    return one_line(", ".join(told), _WIDTH)
