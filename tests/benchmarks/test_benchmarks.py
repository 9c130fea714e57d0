"""The benchmarks run and print what docs/benchmarks.md says. How fast they are is no test's business."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import report
from tests.benchmarks.__main__ import main
from tests.benchmarks.floors import decode_seconds, rows_per_second, written
from tests.benchmarks.flows import make_app, ticks
from tests.benchmarks.latency import append_seconds
from tests.benchmarks.report import Line, Pair, Target, as_json, compared, plain
from tests.benchmarks.steps import STEPS
from tests.benchmarks.suite import BENCHMARKS

FIELDS = {
    "benchmark",
    "value",
    "unit",
    "of",
    "floor",
    "ratio",
    "ratios",
    "target",
    "bound",
    "met",
    "baseline",
}


@pytest.fixture
def at_least() -> Target:
    return Target(bound="at least", limit=0.1)


@pytest.mark.proves("TST-11")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_prints_json_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", name]) == 0

    out, err = capsys.readouterr()
    lines = [json.loads(text) for text in out.splitlines()]
    assert lines or "left out" in err
    for line in lines:
        assert line.keys() == FIELDS
        assert math.isfinite(line["value"])
        assert (line["ratio"] is None) == (line["floor"] is None) == (line["of"] is None)
        assert (line["target"] is None) == (line["met"] is None)


def test_an_unknown_name_is_refused_and_the_known_ones_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--only", "nothing"])

    assert refused.value.code == 2
    assert "cold-resume" in capsys.readouterr().err


def test_a_quick_run_cannot_become_the_baseline() -> None:
    with pytest.raises(SystemExit):
        main(["--quick", "--save"])


# Lines


def test_a_ratio_is_the_median_of_ratios_not_the_ratio_of_medians(at_least: Target) -> None:
    line = compared("x", [Pair(1, 10), Pair(4, 10), Pair(6, 100)], of="rows", unit="steps/s", target=at_least)

    assert (line.value, line.floor, line.ratio) == (4, 10, 0.1)
    assert line.met


def test_a_target_is_held_against_the_ratio_else_against_the_value() -> None:
    most = Target(bound="at most", limit=2)

    assert compared("x", [Pair(3, 1)], of="decode", unit="ms", target=most).met is False
    assert plain("x", [2], unit="bytes", target=most).met is True
    assert plain("x", [2], unit="bytes").met is None


def test_a_line_tells_the_figure_of_the_baseline_beside_its_own() -> None:
    assert as_json(plain("x", [2], unit="us"), {"x": 3.5})["baseline"] == 3.5


# Floors


def test_a_floor_inserts_the_rows_of_a_run_into_the_same_table(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.db")
    done = written(run)

    assert rows_per_second(done, tmp_path / "floor.db") > 0
    assert written(tmp_path / "floor.db") == done


def test_the_decode_floor_takes_payloads_and_metadata(tmp_path: Path) -> None:
    done = written(recorded(tmp_path / "run.db"))

    assert len(done.texts) == sum(1 + bool(row[5]) for row in done.rows)
    assert decode_seconds(done.texts, passes=2) > 0


def recorded(database: Path) -> Path:
    async def record() -> None:
        async with make_app(database) as app:
            (await app.runtime.start(ticks, 3)).result()

    asyncio.run(record())
    return database


# The page


def documented() -> Iterator[str]:
    for line in report.PAGE.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\| `([a-z0-9-]+)` \|", line):
            yield found[1]


def test_the_page_names_benchmarks_that_exist() -> None:
    names = {line["benchmark"] for line in report.saved()}

    assert set(documented()) == names | set(BENCHMARKS)


@pytest.mark.proves("TST-11")
@pytest.mark.parametrize("figure", ["append-p50", "append-p99", "fold", "cold-resume", "branches-map"])
def test_the_committed_baseline_has_appending_folding_resuming_and_wide_flows(figure: str) -> None:
    assert report.figures(report.saved())[figure] > 0


def test_the_page_shows_the_committed_baseline() -> None:
    assert report.table(report.saved()) in report.PAGE.read_text(encoding="utf-8")


def test_a_saved_line_replaces_the_one_before_and_shows_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{report.HEADING}\n| gone |\n", encoding="utf-8")
    monkeypatch.setattr(report, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setattr(report, "PAGE", page)
    report.save([plain("a", [1], unit="us"), plain("b", [1], unit="us")])

    report.save([Line(name="a", value=2, unit="us")])

    assert report.figures(report.saved()) == {"a": 2, "b": 1}
    assert page.read_text(encoding="utf-8").startswith("Before.\n\n| benchmark |")
    assert page.read_text(encoding="utf-8").splitlines()[4:] == [
        "| `a` | 2 us |  |  |  |  |",
        "| `b` | 1 us |  |  |  |  |",
    ]


# Group commit: counted, not timed


@pytest.mark.proves("STO-14")
def test_runs_side_by_side_share_transactions_and_lone_steps_need_one_each() -> None:
    alone = len(asyncio.run(append_seconds(20, concurrency=1, write_behind=False)))
    together = len(asyncio.run(append_seconds(20, concurrency=20, write_behind=False)))

    assert alone <= 20 * (STEPS + 1)
    assert together * 4 < alone
