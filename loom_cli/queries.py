"""The conditions that a command is given: `--where`, and queries that are saved in `[tool.loom.queries]`. Pure but for the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.errors import LoomError
from loom.plugins.sqlite.location import loom_table, nearest_project
from loom.spi.where import Where, both
from loom.spi.where_text import Columns, WhereInvalid, parse_where
from loom_cli.errors import Usage

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NAME_HINT: Final = "a name has small letters, digits, - and _, up to 64 of them"


class Saved(NamedTuple):
    """A saved query; *fault* says why it cannot be used, with a *hint*, and is empty when it can."""

    name: str
    where: str
    fault: str = ""
    hint: str = ""


def saved_queries(table: Mapping[str, Any], *, now_ms: int) -> list[Saved]:
    """Return the queries of a `[tool.loom]` table, in their order, each looked at."""
    queries = table.get("queries", {})
    if not isinstance(queries, Mapping):
        return [
            Saved("queries", str(queries), "[tool.loom.queries] is no table", 'write NAME = "status=failed" below it')
        ]
    return [_saved(name, where, now_ms) for name, where in queries.items()]


def _saved(name: str, where: object, now_ms: int) -> Saved:
    if not _NAME.fullmatch(name):
        return Saved(name, str(where), "this is no name for a query", _NAME_HINT)
    if not isinstance(where, str):
        return Saved(name, str(where), "the query is no text", 'write it in quotes, as in "status=failed"')
    try:
        parse_where(where, now_ms=now_ms)
    except WhereInvalid as error:
        return Saved(name, where, str(error), error.hint)
    return Saved(name, where)


def project_queries(folder: Path, *, now_ms: int) -> list[Saved]:
    """Return the queries of the project at *folder*, none where there is no project.

    Raises:
        InvalidDeclaration: its pyproject.toml cannot be read.
    """
    project = nearest_project(folder)
    return saved_queries(loom_table(project), now_ms=now_ms) if project is not None else []


def where_of(
    wheres: Sequence[str],
    names: Sequence[str],
    saved: Sequence[Saved],
    *,
    now_ms: int,
    columns: Callable[[], Sequence[Columns]] = tuple,
) -> Where | None:
    """Return the condition that all of *wheres* and of the *saved* queries with these *names* are; None where there are none.

    Only where one cannot be read without is it asked which *columns* the read models have.

    Raises:
        WhereInvalid: a text is no condition.
        Usage: there is no such query, or it cannot be used.
    """
    texts = [*wheres, *(_named(name, saved) for name in names)]
    try:
        return both(*(parse_where(text, now_ms=now_ms) for text in texts))
    except WhereInvalid:
        known = columns()
        if not known:
            raise
    return both(*(parse_where(text, now_ms=now_ms, columns=known) for text in texts))


def _named(name: str, saved: Sequence[Saved]) -> str:
    known = {each.name: each for each in saved}
    found = known.get(name)
    if found is None:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}" if known else _NONE_HINT
        raise Usage(f"no query is saved as {name!r}", hint=hint)
    if found.fault:
        raise Usage(f"the query {name!r} cannot be used: {found.fault}", hint=found.hint)
    return found.where


_NONE_HINT: Final = 'save one below [tool.loom.queries] in pyproject.toml: NAME = "status=failed and started > -1d"'


def since_text(text: str) -> str:
    """Return the condition of the runs that began since *text*, an age or a time.

    Raises:
        Usage: it is neither.
    """
    age = re.fullmatch(r"(?:\d{1,9}[smhdw])+", text)
    condition = f'started >= "{"-" if age else ""}{text}"'
    try:
        parse_where(condition, now_ms=0)
    except LoomError:
        hint = "write an age, as in 2h or 3d, or a time, as in 2026-11-30T09:00"
        raise Usage(f"{text!r} is no time", hint=hint) from None
    return condition
