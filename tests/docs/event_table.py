"""The table of event types in docs/guide/reading-a-log.md, made from the kernel's own: `python -m tests.docs.event_table`."""

from __future__ import annotations

import inspect
import re
from typing import Final

from loom.kernel.fold import EVENTS, EventType
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "guide" / "reading-a-log.md"
_TABLE: Final = re.compile(r"(?<=\n)\| type \|.*?\n(?=\n)", re.DOTALL)


def event_table() -> str:
    """Return the table as Markdown: each type of the kernel, what it says, and what its payload has."""
    head = "| type | what it says | payload |\n| --- | --- | --- |\n"
    return head + "".join(map(_row, EVENTS.values()))


def _row(row: EventType) -> str:
    says = " ".join((inspect.getdoc(row.payload) or "").split())
    says = re.sub(r" \(kernel rule [\d.]+\)", "", re.sub(r"\*(\w+)\*", r"`\1`", says))
    fields = ", ".join(f"`{name}`" for name in row.payload._fields)
    return f"| `{row.name}` | {says} | {fields} |\n"


def with_table(page: str) -> str:
    """Return *page* with its table made anew."""
    return _TABLE.sub(lambda _: event_table(), page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), encoding="utf-8")
