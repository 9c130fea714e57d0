"""The table of rules in docs/guide/checking.md, made from the code: `python -m tests.docs.rule_table`."""

from __future__ import annotations

import re
from typing import Final

from loom.devtools.checking.findings import RULES, Rule
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "guide" / "checking.md"
_TABLE: Final = re.compile(r"(?<=\n)\| rule \|.*?\n(?=\n)", re.DOTALL)


def rule_table() -> str:
    """Return the table as Markdown: each rule, what it finds, and what to write instead."""
    return "| rule | finds | instead |\n| --- | --- | --- |\n" + "".join(map(_row, RULES.values()))


def _row(rule: Rule) -> str:
    return f"| `{rule.id}`{' w' if rule.severity == 'warning' else ''} | {rule.finds} | {rule.instead} |\n"


def with_table(page: str) -> str:
    """Return *page* with its table made anew."""
    return _TABLE.sub(lambda _: rule_table(), page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), encoding="utf-8")
