"""JSON that a command is given: as an argument, in a file (`@file`), on standard input (`-`), or by `--set key=value`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loom.core.missing import MISSING
from loom_cli.errors import Usage

_EXCERPT: int = 20


def payload_given(text: str | None, assignments: Sequence[str], *, flag: str, folder: Path) -> Any:
    """Return the JSON that *text* (of *flag*) and the `--set` *assignments* make; MISSING when there is neither.

    Assignments set fields of the object that *text* is; `a.b=1` sets a field of a field.

    Raises:
        Usage: it is no JSON (the place is told), the file cannot be read, or an assignment is none.
    """
    value = MISSING if text is None else parsed(_read(text, flag, folder), flag)
    for assignment in assignments:
        path, equals, written = assignment.partition("=")
        if not equals or not path:
            raise Usage(f"--set {assignment!r} is no assignment", hint="Write --set name=value.")
        value = _with(value, path.split("."), json_or_text(written), assignment)
    return value


def parsed(text: str, source: str) -> Any:
    """Return *text* as JSON.

    Raises:
        Usage: it is none; the place and what stands there are told.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise Usage(f"{source} is nested too deeply") from None
    except json.JSONDecodeError as error:
        found = text[error.pos : error.pos + _EXCERPT].split("\n", maxsplit=1)[0]
        what = f"at {found!r}" if found.strip() else "at the end" if error.pos >= len(text.rstrip()) else "there"
        place = f"line {error.lineno}, column {error.colno}"
        reason = error.msg[:1].lower() + error.msg[1:]
        hint = 'Quote it for the shell, as in \'{"name": "text"}\', or build an object with --set name=value.'
        raise Usage(f"{source} is not JSON: {place}: {reason} {what}", hint=hint) from None


def json_or_text(text: str) -> Any:
    """Return *text* as JSON if it is some, else as text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read(text: str, flag: str, folder: Path) -> str:
    try:
        if text == "-":
            return sys.stdin.read()
        if text.startswith("@"):
            return (folder / text[1:]).read_text("utf-8")
    except OSError as error:
        raise Usage(f"{flag} {text}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise Usage(f"{flag} {text}: no UTF-8 at byte {error.start}") from None
    return text


def _with(value: Any, path: Sequence[str], new: Any, assignment: str) -> Any:
    """Return a copy of *value* with the field at *path* set to *new*."""
    if value is MISSING:
        value = {}
    if not isinstance(value, dict):
        raise Usage(f"--set {assignment!r} needs an object to set a field of, not {json.dumps(value)[:40]}")
    inner = new if len(path) == 1 else _with(value.get(path[0], MISSING), path[1:], new, assignment)
    return {**value, path[0]: inner}
