"""The one error of the guard, and the comment that tells it to be silent."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Final

from loom.kernel.errors import DriveStopped

_ALLOW: Final = re.compile(r"#\s*loom:\s*allow\[([\w\-,\s]+)\]\s*\S")
"""An allowance needs a reason: the static check says so where there is none."""


class UnsafeInFlow(DriveStopped):
    """The body of a flow did itself what only a step may do. The drive stopped before it; the run can be resumed."""

    code = "unsafe-in-flow"

    def __init__(self, *, rule: str, finds: str, instead: str, what: str, path: str, line: int) -> None:
        self.rule, self.what, self.path, self.line = rule, what, path, line
        self.hint = f"{instead[:1].upper()}{instead[1:]}. Where it does no harm: `# loom: allow[{rule}] reason`."
        super().__init__(f"{_short(path)}:{line}: {what} [{rule}]: {finds}")


def is_allowed(rule: str, path: str, line: int) -> bool:
    """Return whether a comment on the line, or alone on the line above it, allows *rule* there."""
    above = linecache.getline(path, line - 1).strip() if line > 1 else ""
    texts = (linecache.getline(path, line), above if above.startswith("#") else "")
    found = (_ALLOW.search(text) for text in texts)
    return any(match and rule in {each.strip() for each in match[1].split(",")} for match in found)


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
