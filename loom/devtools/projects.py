"""What `loom new` and `loom gen ITEM NAME` make, as maps from path to text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loom.devtools.codegen import FOLDERS, GENERATED, KINDS, generate, scan
from loom.devtools.declarations import Declaration
from loom.devtools.scaffold import FileMap, NameRefused, item_name, project_name, render

ITEMS: Final = ("flow", "tool")
"""What can be added to a project: each has a folder of templates of its name."""


def new_project(name: str, templates: FileMap, *, loom_version: str) -> dict[str, str]:
    """Return the files of a new project called *name*, its generated module among them.

    Raises:
        NameRefused: nothing can be called so.
    """
    files = render(templates, {"name": project_name(name), "loom_version": loom_version})
    return files | {GENERATED: generate(scan(scanned(files)).declared)}


def scanned(files: FileMap) -> dict[str, bytes]:
    """Return those of *files* that `loom gen` reads."""
    return {path: text.encode() for path, text in files.items() if is_scanned(path)}


def is_scanned(path: str) -> bool:
    """Say whether `loom gen` reads *path*: Python below a convention folder, neither hidden nor a test."""
    first, *parts = path.split("/")
    name = parts[-1] if parts else ""
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    is_test = name.startswith("test_") or name == "conftest.py"
    return first in FOLDERS and name.endswith(".py") and not hidden and not is_test


def new_item(item: str, name: str, templates: FileMap, *, declared: Iterable[Declaration] = ()) -> dict[str, str]:
    """Return the files that add an *item* called *name* to a project that has *declared*.

    Raises:
        NameRefused: nothing can be called so, or something is already.
    """
    files = render(templates, {"name": item_name(item, name)})
    taken = {(KINDS[each.kind].constant, each.id): each for each in declared}
    for each in scan(scanned(files)).declared:
        known = taken.get((KINDS[each.kind].constant, each.id))
        if known is not None:
            raise NameRefused(
                what=item,
                text=name,
                reason=f"the {known.kind} {known.id} is declared at {known.place}",
                hint="Choose another name; nothing was written.",
            )
    return files
