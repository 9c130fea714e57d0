"""The report of `loom deploy check` as text, JSON, JUnit XML and Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree as ET

from loom.devtools.deploying import DeployReport, Finding
from loom.driving.verdicts import FINE, VerdictKind
from loom_cli.replays import STYLES, WORDS, side_text, verdict_json
from loom_cli.safe_text import safe_lines
from loom_cli.screen import Cell, Styled
from loom_cli.wording import counted

Lines: TypeAlias = Sequence[Sequence[Cell]]

DEPLOY_WORDS: Final[Mapping[VerdictKind, str]] = {**WORDS, "same": "safe"}
_SIDE_MAX: Final = 200


def deploy_json(report: DeployReport) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {
        "runs": report.runs,
        "safe": report.is_safe,
        "counts": dict(report.counts),
        "noted": report.noted,
        "flows": {flow: dict(counts) for flow, counts in report.flows.items()},
        "checked": [
            {"id": each.id, "verdict": each.kind, "sequence": each.sequence, "digest": each.digest}
            for each in report.checked
        ],
        "findings": [
            {
                "verdict": each.kind,
                "flow": each.flow,
                "step": each.step,
                "count": each.count,
                "samples": list(each.samples),
                "where": each.first.where or None,
                "why": each.first.why or None,
                "hint": each.first.hint or None,
                "first": verdict_json(each.first),
            }
            for each in report.findings
        ],
    }


def checked_rows(report: DeployReport) -> list[Sequence[Cell]]:
    """Return a row for each run that was checked: its id, verdict, last event, and the name of the state after that."""
    return [
        (
            each.id,
            Styled(DEPLOY_WORDS[each.kind], STYLES.get(each.kind, "red")),
            f"event {each.sequence}",
            Styled(each.digest or "", "dim"),
        )
        for each in report.checked
    ]


def headline(report: DeployReport) -> str:
    """Return the report in one sentence."""
    told = [f"{count:,} {DEPLOY_WORDS[kind]}" for kind, count in report.counts.items() if count]
    return f"{counted(report.runs, 'stored run', 'stored runs')}: {', '.join(told) or 'nothing to check'}"


def text_lines(report: DeployReport) -> Lines:
    """Return the report for a terminal, line by line."""
    lines: list[Sequence[Cell]] = []
    for each in report.findings:
        lines += [*_finding_lines(each), ()]
    for flow, counts in report.flows.items():
        told = [kind for kind in DEPLOY_WORDS if counts.get(kind)]
        cells = [Styled(f"{counts[kind]:,} {DEPLOY_WORDS[kind]}  ", STYLES.get(kind, "red")) for kind in told]
        lines.append((Styled(f"{flow or 'of no known flow'}  ", "bold"), *cells))
    if report.noted:
        lines.append((Styled(_noted(report), "dim"),))
    style = "green" if report.is_safe else "red"
    lines.append((Styled(headline(report), style),))
    return lines


def _finding_lines(each: Finding) -> Lines:
    return [
        (Styled(title(each), "bold red"),),
        *((Styled(f"  {name.ljust(9)} ", "dim"), text) for name, text in _told(each)),
    ]


def title(each: Finding) -> str:
    """Return what a finding is, and of how many runs."""
    at = f" at {each.step}" if each.step else ""
    of = f"{each.flow}: " if each.flow else ""
    return f"{of}{DEPLOY_WORDS[each.kind]}{at}, {counted(each.count, 'run', 'runs')}"


def _told(each: Finding) -> list[tuple[str, str]]:
    """Return what there is to say of a finding, by name."""
    first = each.first
    told: list[tuple[str, str]] = []
    if first.recorded is not None or first.asked is not None:
        at = f"event {first.sequence}  " if first.sequence is not None else ""
        told += [("recorded", _cut(f"{at}{side_text(first.recorded)}")), ("asked", _cut(side_text(first.asked)))]
    elif first.sequence is not None:
        told.append(("event", str(first.sequence)))
    why = "; ".join(first.why.splitlines())
    told += [(name, text) for name, text in (("where", first.where), ("why", why), ("try", first.hint)) if text]
    more = f" and {each.count - len(each.samples):,} more" if each.count > len(each.samples) else ""
    return [*told, ("runs", f"{', '.join(each.samples)}{more}")]


def _noted(report: DeployReport) -> str:
    return f"of those that need migration, {report.noted:,} ask with other arguments, or would end otherwise"


def _cut(text: str) -> str:
    return text if len(text) <= _SIDE_MAX else f"{text[:_SIDE_MAX]}..."


# -- for machines and for pull requests --------------------------------------------------------------------------------


def junit(report: DeployReport) -> str:
    """Return the report as JUnit XML: a suite a flow, a test for each verdict that is fine, one for each finding."""
    suites = ET.Element("testsuites", name="loom deploy check")
    for flow, counts in report.flows.items():
        findings = [each for each in report.findings if each.flow == flow]
        fine = [kind for kind in DEPLOY_WORDS if kind in FINE and counts.get(kind)]
        about = {"name": _xml(flow or "unknown flow"), "tests": str(len(fine) + len(findings))}
        suite = ET.SubElement(suites, "testsuite", about, failures=str(len(findings)))
        for kind in fine:
            name = f"{DEPLOY_WORDS[kind]}: {counted(counts[kind], 'run', 'runs')}"
            ET.SubElement(suite, "testcase", classname=_xml(flow), name=name)
        for each in findings:
            case = ET.SubElement(suite, "testcase", classname=_xml(flow or "unknown flow"), name=_xml(title(each)))
            failure = ET.SubElement(case, "failure", type=each.kind, message=_xml(each.first.why))
            failure.text = _xml("\n".join(f"{name}: {text}" for name, text in _told(each)))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode")


def _xml(text: str) -> str:
    """Return *text* without what no XML can hold."""
    return "".join(
        sign
        for sign in text
        if sign in "\t\n" or (sign >= " " and not "\ud800" <= sign <= "\udfff" and sign not in "\ufffe\uffff")
    )


def markdown(report: DeployReport) -> str:
    """Return the report for a comment on a pull request."""
    sign = ":white_check_mark:" if report.is_safe else ":x:"
    lines = [f"### {sign} loom deploy check", "", f"{headline(report)}.", ""]
    kinds = [kind for kind in DEPLOY_WORDS if report.counts[kind]]
    if kinds:
        lines += [f"| flow | {' | '.join(DEPLOY_WORDS[kind] for kind in kinds)} |", f"|---|{'---:|' * len(kinds)}"]
        for flow, counts in report.flows.items():
            cells = " | ".join(f"{counts.get(kind, 0):,}" for kind in kinds)
            lines.append(f"| {_code(flow) if flow else '(unknown)'} | {cells} |")
        lines.append("")
    if report.noted:
        lines += [f"{_noted(report).capitalize()}.", ""]
    for each in report.findings:
        lines += [f"#### {_plain(title(each))}", ""]
        lines += [
            f"- {name}: {_code(text) if name not in ('why', 'try') else _plain(text)}" for name, text in _told(each)
        ]
        lines.append("")
    return "\n".join(lines)


def _code(text: str) -> str:
    """Return *text* as code: nothing in it is markup, and it is one line of one cell."""
    one = safe_lines(text).replace("\n", " ").replace("`", "'").replace("|", "\\|")
    return f"`{one}`"


def _plain(text: str) -> str:
    one = safe_lines(text).replace("\n", " ")
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#@" else sign for sign in one)


FORMATS: Final[Mapping[str, Callable[[DeployReport], str | dict[str, Any] | Lines]]] = {
    "text": text_lines,
    "json": deploy_json,
    "junit": junit,
    "markdown": markdown,
}
