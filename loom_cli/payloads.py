"""JSON that a command is given: as an argument, in a file (`@file`), on standard input (`-`), or by `--set key=value`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from loom.core.missing import MISSING
from loom_cli.errors import CommandRefused, Usage
from loom_cli.safe_text import is_utf8

_EXCERPT: Final = 20
_WRITTEN_MAX: Final = 60
_FIELDS_MAX: Final = 200
"""How deep `--set a.b.c=1` may reach: more than the log keeps."""


class NotJson(CommandRefused):
    """What was given is not JSON; *text* is what was written, where that is short."""

    code = "not-json"

    def __init__(self, message: str, *, text: str, hint: str) -> None:
        self.text, self.hint = text, hint
        super().__init__(message)


def payload_given(text: str | None, assignments: Sequence[str], *, flag: str, folder: Path) -> Any:
    """Return the JSON that *text* (of *flag*) and the `--set` *assignments* make; MISSING when there is neither.

    Assignments set fields of the object that *text* is; `a.b=1` sets a field of a field.

    Raises:
        NotJson: it is none; the place is told.
        Usage: the file cannot be read, or an assignment is none.
    """
    value = MISSING if text is None else parsed(_read(text, flag, folder), flag)
    for assignment in assignments:
        _refuse_bytes(assignment, "--set")
        path, equals, written = assignment.partition("=")
        if not equals or not path:
            raise Usage(f"--set {assignment!r} is no assignment", hint="Write --set name=value.")
        value = _with(value, path.split("."), json_or_text(written, "--set"), assignment)
    return value


def attributes_given(assignments: Sequence[str]) -> dict[str, Any] | None:
    """Return the attributes that `--attr` assigns, the last of each name; None when there are none.

    Raises:
        Usage: an assignment is none.
    """
    given: dict[str, Any] = {}
    for assignment in assignments:
        _refuse_bytes(assignment, "--attr")
        name, equals, written = assignment.partition("=")
        if not equals or not name:
            raise Usage(f"--attr {assignment!r} is no assignment", hint="Write --attr name=value.")
        given[name] = json_or_text(written, "--attr")
    return given or None


def parsed(text: str, source: str) -> Any:
    """Return *text* as JSON.

    Raises:
        NotJson: it is none; the place and what stands there are told.
        Usage: it is more than can be read.
    """
    try:
        return _loaded(text, source)
    except json.JSONDecodeError as error:
        found = text[error.pos : error.pos + _EXCERPT].split("\n", maxsplit=1)[0]
        what = f"at {found!r}" if found.strip() else "at the end" if error.pos >= len(text.rstrip()) else "there"
        place = f"line {error.lineno}, column {error.colno}"
        reason = error.msg[:1].lower() + error.msg[1:]
        written = text if len(text) <= _WRITTEN_MAX and text.isprintable() and text.strip() else "text"
        hint = f"A text is quoted twice, once for the shell: {source} {shlex.quote(json.dumps(written, ensure_ascii=False))}"
        raise NotJson(f"{source} is not JSON: {place}: {reason} {what}", text=written, hint=hint) from None


def json_or_text(text: str, source: str) -> Any:
    """Return *text* as JSON if it is some, else as text.

    Raises:
        Usage: it is JSON, but more than can be read: it was not meant as text.
    """
    try:
        return _loaded(text, source)
    except json.JSONDecodeError:
        return text


def _loaded(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise Usage(f"{source} is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python refuses to read integers without end
        digits = sys.get_int_max_str_digits()
        raise Usage(f"{source} holds a number of more than {digits} digits", hint="Give it as text.") from None


def _read(text: str, flag: str, folder: Path) -> str:
    try:
        if text == "-":
            return _standard_input(flag)
        if text.startswith("@"):
            return (folder / text[1:]).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Usage(f"{flag} {text}: no UTF-8 at byte {error.start}") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise Usage(f"{flag} {text}: {getattr(error, 'strerror', None) or error}") from None
    _refuse_bytes(text, flag)
    return text


def _refuse_bytes(text: str, flag: str) -> None:
    if not is_utf8(text):
        raise Usage(f"{flag} {text!r} is no UTF-8")


def _standard_input(flag: str) -> str:
    if sys.stdin is None:  # the shell closed it, as in <&-
        raise Usage(f"{flag} -: there is no standard input", hint=f"Pipe the JSON in, or give {flag} @FILE.")
    binary = getattr(sys.stdin, "buffer", None)
    return binary.read().decode("utf-8-sig") if binary is not None else sys.stdin.read()


def _with(value: Any, path: Sequence[str], new: Any, assignment: str) -> Any:
    """Return a copy of *value* with the field at *path* set to *new*."""
    if len(path) > _FIELDS_MAX:
        raise Usage(f"--set is nested too deeply: {len(path)} names")
    if value is MISSING:
        value = {}
    if not isinstance(value, dict):
        shown = json.dumps(value)[:40]
        raise Usage(f"--set {assignment!r} needs an object to set a field of, not {shown}")
    inner = new if len(path) == 1 else _with(value.get(path[0], MISSING), path[1:], new, assignment)
    return {**value, path[0]: inner}
