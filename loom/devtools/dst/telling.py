"""A search and its finding as JSON, and the command that has a finding again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from loom.devtools.dst.schedule import words
from loom.devtools.dst.searching import Finding, Report, Trial


def again(flow: str, finding: Finding, options: Sequence[str] = ()) -> str:
    """Return the command that replays *finding* of *flow*; *options* are those under which it was found."""
    given = ["--seed", str(finding.seed), "--schedule", str(finding.shrunk)]
    return shlex.join(["loom", "torture", flow, *given, *options])


def report_json(flow: str, report: Report, options: Sequence[str] = ()) -> dict[str, Any]:
    """Return the shape of `loom torture --json` for a search."""
    finding = report.finding
    return {
        "flow": flow,
        "seeds": report.seeds,
        "seconds": round(report.seconds, 3),
        "finding": None if finding is None else finding_json(flow, finding, options),
    }


def finding_json(flow: str, finding: Finding, options: Sequence[str] = ()) -> dict[str, Any]:
    """Return the shape of a finding."""
    return {
        "seed": finding.seed,
        "schedule": str(finding.schedule),
        "shrunk": str(finding.shrunk),
        "faults": [{"fault": str(fault), "words": words(fault)} for fault in finding.shrunk.faults],
        "broken": [breach._asdict() for breach in finding.breaches],
        "command": again(flow, finding, options),
    }


def trial_json(flow: str, trial: Trial) -> dict[str, Any]:
    """Return the shape of `loom torture --json` for one simulation."""
    return {
        "flow": flow,
        "seed": trial.seed,
        "schedule": str(trial.schedule),
        "broken": [breach._asdict() for breach in trial.breaches],
        "trail": [
            {"at_s": round(each.at_s, 3), "process": each.process, "what": each.what} for each in trial.seen.trail
        ],
    }
