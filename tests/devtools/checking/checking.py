"""Small modules under check: sources by path in, `rule:line` out."""

from __future__ import annotations

from collections.abc import Collection
from textwrap import dedent

from loom.devtools.checking.checker import Report, check
from loom.devtools.checking.findings import RULES

HEAD = "import loom\n"
"""Line 1 of each module, so that the text given begins on line 2."""


def report(text: str, *, rules: Collection[str] = frozenset(RULES), **others: str) -> Report:
    """Return what is found in the module *text*, beside *others* by their name."""
    files = {"flows.py": HEAD + dedent(text)} | {f"{name}.py": dedent(other) for name, other in others.items()}
    return check(["flows.py"], lambda path: files[path].encode() if path in files else None, rules=rules)


def found(text: str, **others: str) -> list[str]:
    """Return `rule:line` of what is found; with the path where it is another module."""
    return [
        f"{each.rule}:{each.line}" + ("" if each.path == "flows.py" else f" in {each.path}")
        for each in report(text, **others).findings
    ]


def in_flow(*lines: str, before: str = "") -> list[str]:
    """Return what is found in a flow with these *lines*, which begin on line 3, under what stands *before* it in one line."""
    body = "\n".join(f"    {line}" for line in lines)
    text = f"{HEAD}{before or 'pass'}\n@loom.flow\nasync def order(ctx, given):\n{body}\n"
    result = check(["flows.py"], {"flows.py": text.encode()}.get)
    return [each.rule for each in result.findings]
