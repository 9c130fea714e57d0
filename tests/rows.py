"""Which rows of docs/requirements.md have a test: `make rows`.

A test names the rows it proves: `@pytest.mark.proves("KER-05")`. The marks are read from the source, nothing is imported,
so a broken test still counts what it claims. A mark that names no row is a mistake, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
REQUIREMENTS: Final = ROOT / "docs" / "requirements.md"
HEADING: Final = re.compile(r"^## (?P<group>[A-Z]+) — (?P<title>.+)$")
ROW: Final = re.compile(r"^\| (?P<id>[A-Z]+-\d+) \| (?P<kind>[A-Z]) \| (?P<feature>[^|]+) \|")


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement: its id, its group's title, its kind (D does, N never, B measured) and its short name."""

    id: str
    group: str
    kind: str
    feature: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A mark that says: the test at *place* proves *row*."""

    row: str
    place: str


class MarkUnreadable(ValueError):
    """A mark whose rows are not written out as strings."""


def parse_rows(text: str) -> dict[str, Row]:
    """Return the rows of the requirements by id, in the order they are written."""
    rows: dict[str, Row] = {}
    group = ""
    for line in text.splitlines():
        if heading := HEADING.match(line):
            group = f"{heading['group']} — {heading['title']}"
        elif row := ROW.match(line):
            rows[row["id"]] = Row(row["id"], group, row["kind"], row["feature"].strip())
    return rows


def claims_in(source: str, path: str) -> Iterator[Claim]:
    """Yield what the marks in *source* claim, wherever they stand: on a test, a class, a parameter, a module."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.proves"):
            place = f"{path}:{node.lineno}"
            for argument in node.args:
                if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                    raise MarkUnreadable(f"{place}: proves() takes row ids written out as strings")
                yield Claim(argument.value, place)


def files_with_tests(root: Path) -> list[Path]:
    """Return the tests of the project and of its examples."""
    return sorted([*root.glob("tests/**/*.py"), *root.glob("examples/*/tests/**/*.py")])


def claims_below(root: Path) -> list[Claim]:
    return [
        claim
        for file in files_with_tests(root)
        for claim in claims_in(file.read_text(encoding="utf-8"), file.relative_to(root).as_posix())
    ]


def unknown(claims: Iterable[Claim], rows: Mapping[str, Row]) -> list[Claim]:
    return [claim for claim in claims if claim.row not in rows]


def as_text(rows: Iterable[Row], places: Mapping[str, list[str]]) -> str:
    """Return *rows* under the titles of their groups; below a proved row, where."""
    lines: list[str] = []
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            lines += ["", group]
        lines.append(f"  {row.id}  {row.kind}  {row.feature}")
        lines += [f"{'':13}{place}" for place in places.get(row.id, ())]
    return "\n".join(lines).strip("\n")


def as_json(rows: Iterable[Row], places: Mapping[str, list[str]]) -> str:
    shown = [
        {"id": row.id, "group": row.group, "kind": row.kind, "feature": row.feature, "tests": places.get(row.id, [])}
        for row in rows
    ]
    return json.dumps(shown, ensure_ascii=False, indent=2)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rows", description="Print the requirements that no test proves yet.")
    parser.add_argument("--proved", action="store_true", help="print those that a test proves, and where")
    parser.add_argument("--json", action="store_true", help="print a JSON array instead of text")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    rows = parse_rows(REQUIREMENTS.read_text(encoding="utf-8"))
    claims = claims_below(ROOT)
    places: dict[str, list[str]] = {}
    for claim in claims:
        places.setdefault(claim.row, []).append(claim.place)
    shown = [row for row in rows.values() if (row.id in places) == arguments.proved]
    print((as_json if arguments.json else as_text)(shown, places))
    if not arguments.json:
        print(f"\n{len(shown)} of {len(rows)} rows {'have' if arguments.proved else 'are without'} a test")
    wrong = unknown(claims, rows)
    for claim in wrong:
        print(f"{claim.place}: no such row: {claim.row}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
