"""A helper comes to the front door when two independent consumers need it, and not before (ADR 0083 of the specification)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import loom

ROOT: Final = Path(__file__).parents[1]
NAMED_BY_THE_SPECIFICATION: Final = frozenset(
    {"await_all", "await_child", "await_children", "topic", "watch", "postgres_storage"}
)
"""These need no second consumer: the specification asks for each by itself. Nothing else is added here."""


def helpers() -> list[str]:
    """Return the functions of the front door; a type, an error or a value is no helper."""
    return [name for name in loom.__all__ if callable(it := getattr(loom, name)) and not isinstance(it, type)]


def consumers() -> Iterator[tuple[str, str]]:
    """Yield each consumer, an example, a template, a page or the command, with a text of it."""
    for folder in ("examples", "templates", "docs/guide", "loom_cli"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".md", ".jinja"} and file.is_file():
                part = file.relative_to(ROOT).parts
                name = "loom_cli" if folder == "loom_cli" else "/".join(part[: 3 if folder == "docs/guide" else 2])
                yield name, file.read_text("utf-8")


@pytest.mark.proves("COM-13")
def test_each_helper_has_two_consumers() -> None:
    texts = list(consumers())
    users = {name: {who for who, text in texts if re.search(rf"\bloom\.{name}\b", text)} for name in helpers()}

    lonely = {name for name, found in users.items() if len(found) < 2}

    assert lonely <= NAMED_BY_THE_SPECIFICATION, {name: users[name] for name in lonely - NAMED_BY_THE_SPECIFICATION}
    assert set(users) >= NAMED_BY_THE_SPECIFICATION


@pytest.mark.proves("COM-13")
def test_the_checklist_asks_for_it() -> None:
    assert "two independent consumers" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
