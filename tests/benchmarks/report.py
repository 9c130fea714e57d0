"""A measured figure, beside its floor and its target, as one JSON line."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

BASELINE: Final = Path(__file__).with_name("baseline.json")
PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "benchmarks.md"
HEADING: Final = "| benchmark | measured | floor | ratio | target | met |\n| --- | --- | --- | --- | --- | --- |"
"""Of the table that ends the page."""


class Pair(NamedTuple):
    """One measurement and its floor, taken one right after the other."""

    value: float
    floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a figure is to be: at least or at most *limit*, times the floor where there is one."""

    bound: Literal["at least", "at most"]
    limit: float

    def is_met(self, figure: float) -> bool:
        return figure >= self.limit if self.bound == "at least" else figure <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The result of one benchmark.

    *value* and *floor* are medians in *unit*; *ratio* is the median of value / floor over the *ratios* of the
    repetitions, None where nothing is divided. The target is held against the ratio, else against the value.
    """

    name: str
    value: float
    unit: str
    of: str | None = None
    floor: float | None = None
    ratio: float | None = None
    ratios: tuple[float, ...] = ()
    target: Target | None = None

    @property
    def figure(self) -> float:
        return self.value if self.ratio is None else self.ratio

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.is_met(self.figure)


def compared(name: str, pairs: Sequence[Pair], *, of: str, unit: str, target: Target | None = None) -> Line:
    """Return the line of repeated measurements, each against the floor *of* beside it."""
    ratios = [pair.value / pair.floor for pair in pairs]
    return Line(
        name=name,
        value=statistics.median(pair.value for pair in pairs),
        unit=unit,
        of=of,
        floor=statistics.median(pair.floor for pair in pairs),
        ratio=statistics.median(ratios),
        ratios=tuple(sorted(ratios)),
        target=target,
    )


def plain(name: str, values: Sequence[float], *, unit: str, target: Target | None = None) -> Line:
    """Return the line of repeated measurements that stand for themselves."""
    return Line(name=name, value=statistics.median(values), unit=unit, target=target)


def as_json(line: Line, baseline: Mapping[str, float]) -> dict[str, Any]:
    """Return *line* as it is printed; *baseline* has earlier figures by name."""
    target = line.target
    return {
        "benchmark": line.name,
        "value": rounded(line.value),
        "unit": line.unit,
        "of": line.of,
        "floor": rounded(line.floor),
        "ratio": rounded(line.ratio),
        "ratios": [rounded(ratio) for ratio in line.ratios],
        "target": None if target is None else rounded(target.limit),
        "bound": None if target is None else target.bound,
        "met": line.met,
        "baseline": baseline.get(line.name),
    }


def rounded(figure: float | None) -> float | None:
    """Return *figure* with four digits: the others are noise."""
    return None if figure is None else float(f"{figure:.4g}")


def print_line(line: Line, baseline: Mapping[str, float]) -> None:
    print(json.dumps(as_json(line, baseline)), flush=True)


def saved() -> list[dict[str, Any]]:
    """Return the lines of the committed baseline."""
    lines: list[dict[str, Any]] = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else []
    return lines


def figures(lines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return what is compared with a target, by name: the ratio, else the value."""
    return {line["benchmark"]: line["value"] if line["ratio"] is None else line["ratio"] for line in lines}


def save(lines: Iterable[Line]) -> None:
    """Make *lines* the baseline, and show it on the page; those of other benchmarks stay."""
    kept = {line["benchmark"]: line for line in saved()}
    for line in lines:
        row = as_json(line, {})
        del row["baseline"]
        kept[line.name] = row
    text = ",\n".join(json.dumps(row) for row in kept.values())
    BASELINE.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    PAGE.write_text(f"{before}{table(kept.values())}\n", encoding="utf-8")


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return *lines* as the table of the page."""
    return "\n".join([HEADING, *(f"| `{line['benchmark']}` | {' | '.join(_cells(line))} |" for line in lines)])


def _cells(line: Mapping[str, Any]) -> list[str]:
    floor = "" if line["floor"] is None else f"{line['floor']:,g} ({line['of']})"
    ratio = "" if line["ratio"] is None else f"{line['ratio']:.3g}"
    target = "" if line["target"] is None else f"{line['bound']} {line['target']:,g}"
    met = {True: "yes", False: "no", None: ""}[line["met"]]
    return [f"{line['value']:,g} {line['unit']}", floor, ratio, target, met]
