"""Measure, as JSON lines: `make bench`, or `python -m tests.benchmarks --only NAME`. See docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks import report
from tests.benchmarks.scale import FULL, QUICK, Scale, Unavailable
from tests.benchmarks.suite import BENCHMARKS


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure, and print a JSON line for each figure.")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="sizes so small that the figures mean nothing")
    parser.add_argument("--save", action="store_true", help="make the figures the baseline, here and in the docs")
    arguments = parser.parse_args(argv)
    if arguments.quick and arguments.save:
        parser.error("--quick measures nothing that is worth saving")
    return arguments


def measured(names: list[str], scale: Scale) -> list[report.Line]:
    """Run the benchmarks *names*, print each line as it comes, and return them all."""
    earlier = report.figures(report.saved())
    lines: list[report.Line] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            for line in BENCHMARKS[name](scale):
                report.print_line(line, earlier)
                lines.append(line)
        except Unavailable as why:
            print(f"{name}: left out: {why}", file=sys.stderr)
    return lines


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    lines = measured(arguments.only or list(BENCHMARKS), QUICK if arguments.quick else FULL)
    if arguments.save:
        report.save(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
