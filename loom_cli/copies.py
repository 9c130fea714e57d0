"""What `loom backup` copies, and what it says of the copy. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loom.core.errors import InvalidDeclaration
from loom.plugins.sqlite.copying import Copied
from loom.plugins.sqlite.location import is_bundle, is_postgres
from loom_cli.wording import counted


def file_of(url: str) -> Path:
    """Return the database file that the URL of a store names.

    Raises:
        InvalidDeclaration: the store is in Postgres, or is a bundle.
    """
    if is_bundle(url):
        raise InvalidDeclaration("a bundle is one file, which is its own copy", hint="Copy the file.")
    if is_postgres(url):
        hint = "pg_dump --schema=loom --format=custom --file=loom.dump: docs/guide/backups.md"
        raise InvalidDeclaration("a store in Postgres is copied by its own tools", hint=hint)
    return Path(url.partition(":")[2])


def copied_json(source: Path, target: Path, copied: Copied) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {"store": f"sqlite:{source}", "file": str(target), **copied._asdict()}


def copied_words(target: Path, copied: Copied) -> str:
    """Return the same for people."""
    held = f"{counted(copied.executions, 'log', 'logs')} ({counted(copied.events, 'event', 'events')})"
    contents = f" and {counted(copied.contents, 'content', 'contents')}" if copied.contents else ""
    return f"copied {held}{contents} to {target}"
