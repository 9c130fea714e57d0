"""What scaffolding writes, as values: templates and a name in, a map from path to text and a plan out. No disk is touched.

Paths are relative and use `/`. A file that is there is never replaced unless the caller says whose it is: what a plan
cannot write it hands back as a conflict, with the difference.
"""

from __future__ import annotations

import builtins
import difflib
import keyword
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from loom.core.errors import LoomError

FileMap: TypeAlias = Mapping[str, str]
Action: TypeAlias = Literal["write", "unchanged", "conflict"]

SUFFIX: Final = ".jinja"
NAME_LENGTH_MAX: Final = 80
_PROJECT: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_ITEM: Final = re.compile(r"[a-z][a-z0-9_]*")
_OURS: Final = frozenset({"loom", "loom_cli", "loom_gen", "loom_runtime"})
_INSTALLED: Final = frozenset({"pydantic", "pytest"})
_DEVICES: Final = frozenset(
    {"aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
)


class NameRefused(LoomError, ValueError):
    """A name under which nothing can be made; nothing was written."""

    code = "name-refused"

    def __init__(self, *, what: str, text: str, reason: str, hint: str = "") -> None:
        self.what, self.text, self.reason, self.hint = what, text, reason, hint
        super().__init__(f"a {what} cannot be called {text[:NAME_LENGTH_MAX]!r}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """What is to happen to one file. *diff* leads from what is there to *text*; it is empty for a new file."""

    path: str
    action: Action
    text: str
    diff: str = ""


def project_name(text: str) -> str:
    """Return *text* as the name of a project and of its folder.

    Raises:
        NameRefused: it is a path, a Python keyword, or the name of a module that it would stand before.
    """
    reason = _why_no_project(text)
    if reason:
        hint = "Give a word of letters, digits, - and _; --in DIR says where its folder is made."
        raise NameRefused(what="project", text=text, reason=reason, hint=hint)
    return text


def _why_no_project(text: str) -> str:
    word = text.lower().replace("-", "_")
    refusals: Iterable[tuple[bool, str]] = (
        (not text, "it is empty"),
        (
            "/" in text or "\\" in text or text in {".", ".."},
            "it is a path, and a project is made in one folder of its own",
        ),
        (len(text) > NAME_LENGTH_MAX, f"it is longer than {NAME_LENGTH_MAX} characters"),
        (not _PROJECT.fullmatch(text), "it must start with a letter, and hold only ASCII letters, digits, - and _"),
        (_is_keyword(text), "it is a word of the Python language"),
        (word in sys.stdlib_module_names or word == "test", "it would stand before a module of the standard library"),
        (word in _OURS, "it would stand before Loom's own modules"),
        (word in _INSTALLED, "it would stand before a library that the project needs"),
        (word in _DEVICES, "it is the name of a device on Windows"),
    )
    return next((reason for refused, reason in refusals if refused), "")


def item_name(what: str, text: str) -> str:
    """Return *text* as the name of a flow or tool, which is also that of its function and its file.

    Raises:
        NameRefused: it is no plain lower-case Python name, or one that Python or Loom has already.
    """
    refusals: Iterable[tuple[bool, str]] = (
        (len(text) > NAME_LENGTH_MAX, f"it is longer than {NAME_LENGTH_MAX} characters"),
        (not _ITEM.fullmatch(text), "it must be a lower-case Python name"),
        (_is_keyword(text), "it is a word of the Python language"),
        (hasattr(builtins, text), "it is the name of a builtin"),
        (text in _OURS, "it would stand before Loom's own modules"),
    )
    reason = next((reason for refused, reason in refusals if refused), "")
    if reason:
        hint = "Use letters, digits and _, as in refund_order."
        raise NameRefused(what=what, text=text, reason=reason, hint=hint)
    return text


def _is_keyword(text: str) -> bool:
    return keyword.iskeyword(text) or keyword.iskeyword(text.lower()) or text.lower() in {"none", "true", "false"}


def render(templates: FileMap, values: Mapping[str, str]) -> dict[str, str]:
    """Return the files that *templates* make of *values*: `flows/{{ name }}.py.jinja` becomes `flows/refund.py`.

    Raises:
        jinja2.UndefinedError: a template asks for a value that is not given.
    """
    import jinja2

    environment = jinja2.Environment(  # noqa: S701  # these are code and prose, not HTML
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )

    def filled(text: str) -> str:
        return environment.from_string(text).render(values)

    return {filled(path.removesuffix(SUFFIX)): filled(text) for path, text in sorted(templates.items())}


def never(_text: str) -> bool:
    """Say of every file that it is somebody's work."""
    return False


def always(_text: str) -> bool:
    """Say of every file that it may be replaced: what `--force` means."""
    return True


def plan(files: FileMap, existing: FileMap, *, replaceable: Callable[[str], bool] = never) -> list[PlannedFile]:
    """Return what writing *files* over *existing* comes to, in the order of their paths.

    A file that is there keeps its line ends, and is only written when its text says that it is *replaceable*.
    """
    return [_planned(path, text, existing.get(path), replaceable) for path, text in sorted(files.items())]


def _planned(path: str, text: str, old: str | None, replaceable: Callable[[str], bool]) -> PlannedFile:
    if old is None:
        return PlannedFile(path=path, action="write", text=text)
    if plain(old) == text:
        return PlannedFile(path=path, action="unchanged", text=old)
    action: Action = "write" if replaceable(old) else "conflict"
    return PlannedFile(path=path, action=action, text=with_line_ends_of(old, text), diff=difference(path, old, text))


def plain(text: str) -> str:
    """Return *text* with a line feed as its only line end."""
    return text.replace("\r\n", "\n")


def with_line_ends_of(old: str, text: str) -> str:
    """Return *text* with the line ends that *old* has."""
    return text.replace("\n", "\r\n") if "\r\n" in old else text


def difference(path: str, old: str, new: str) -> str:
    """Return the unified diff from *old* to *new*, line ends aside; empty where they are equal."""
    lines = difflib.unified_diff(
        plain(old).splitlines(), plain(new).splitlines(), f"{path} (as it is)", f"{path} (as generated)", lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)
