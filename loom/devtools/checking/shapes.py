"""A report as others read it: JSON, SARIF 2.1.0, and lines of a diff."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from loom.devtools.checking.checker import Report
from loom.devtools.checking.findings import RULES, Change, Finding, Rule

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def report_json(report: Report) -> dict[str, Any]:
    """Return *report* as JSON (docs/reference/json.md)."""
    return {
        "findings": [finding_json(each) for each in report.findings],
        "errors": report.errors,
        "warnings": report.warnings,
        "files": report.files,
        "flows": report.flows,
    }


def finding_json(found: Finding) -> dict[str, Any]:
    """Return one finding as JSON."""
    return {
        "rule": found.rule,
        "severity": found.severity,
        "path": found.path,
        "line": found.line,
        "column": found.column,
        "end_line": found.end_line,
        "end_column": found.end_column,
        "message": found.message,
        "fix": found.fix,
        "via": [each._asdict() for each in found.via],
        "change": found.change._asdict() if found.change else None,
    }


def sarif(report: Report, *, version: str) -> dict[str, Any]:
    """Return *report* as a SARIF 2.1.0 log, of the command in *version*."""
    rules = [_sarif_rule(rule) for rule in RULES.values()]
    driver = {"name": "loom check", "version": version, "rules": rules}
    results = [_sarif_result(each) for each in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.finds},
        "help": {"text": f"Instead: {rule.instead}."},
        "defaultConfiguration": {"level": rule.severity},
    }


def _sarif_result(found: Finding) -> dict[str, Any]:
    by = f" Reached by {' > '.join(map(str, found.via))}." if len(found.via) > 1 else ""
    region = {
        "startLine": found.line,
        "startColumn": found.column,
        "endLine": found.end_line,
        "endColumn": found.end_column,
    }
    place = {"artifactLocation": {"uri": quote(found.path)}, "region": region}
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": list(RULES).index(found.rule),
        "level": found.severity,
        "message": {"text": f"{found.message}. Instead: {found.fix}.{by}"},
        "locations": [{"physicalLocation": place}],
    }
    if found.change is not None:
        result["fixes"] = [_sarif_fix(found.path, found.change, found.fix)]
    return result


def _sarif_fix(path: str, change: Change, fix: str) -> dict[str, Any]:
    end = len(change.before) + 1
    region = {"startLine": change.line, "startColumn": 1, "endLine": change.line, "endColumn": end}
    replaced = {"deletedRegion": region, "insertedContent": {"text": change.after}}
    changed = {"artifactLocation": {"uri": quote(path)}, "replacements": [replaced]}
    return {"description": {"text": fix}, "artifactChanges": [changed]}


def diff_lines(change: Change) -> tuple[str, str]:
    """Return what *change* takes away and adds, as two lines of a diff."""
    return f"- {change.before.strip()}", f"+ {change.after.strip()}"
