"""What a call touches outside the process, as the interpreter tells it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

OUTSIDE: Final = ("open", "os.", "shutil.", "socket.", "sqlite3.", "subprocess.", "tempfile.", "urllib.")
"""What the interpreter says before it touches a file, a network, a database or a process."""

_touched: list[str] | None = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _touched is not None and event.startswith(OUTSIDE):
        _touched.append(f"{event} {arguments[:1]}")


sys.addaudithook(_hear)


@contextmanager
def touching() -> Iterator[list[str]]:
    """Give the list of what is touched outside the process meanwhile."""
    global _touched  # noqa: PLW0603  # an audit hook is for ever, so it is switched
    _touched = []
    try:
        yield _touched
    finally:
        _touched = None
