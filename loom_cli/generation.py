"""Generating a project's `loom_gen.py`, and adding items: read, let the pure parts decide, write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from loom.devtools.codegen import GENERATED, KINDS, manifest, plan_generated, scan
from loom.devtools.declarations import Declaration
from loom.devtools.projects import ITEMS, new_item
from loom_cli.errors import CommandRefused, Usage
from loom_cli.exits import ExitCode
from loom_cli.files import existing_texts, template_files, write_texts
from loom_cli.sources import read_sources

Status: TypeAlias = Literal["written", "unchanged", "out-of-date", "edited"]


class GeneratedOutOfDate(CommandRefused):
    """The check found that the folders declare something else than the generated module lists."""

    code = "generated-out-of-date"
    exit_code = ExitCode.FAILED
    hint = "loom gen"

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path} is not what the folders declare")


class GeneratedEdited(CommandRefused):
    """The generated module is not as it was written, so it was kept."""

    code = "generated-edited"
    exit_code = ExitCode.FAILED
    hint = "Move what was written by hand to a file of your own, then: loom gen --force"

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path} is not as loom gen wrote it, and is kept as it is")


class FileTaken(CommandRefused):
    """A file that is to be made is there already."""

    code = "file-taken"
    hint = "Choose another name, or move the file away; nothing was written."

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path} is there already")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What came of generating. *diff* leads from the file as it was to what the folders declare."""

    status: Status
    declared: tuple[Declaration, ...]
    warnings: tuple[str, ...]
    diff: str

    @property
    def problem(self) -> CommandRefused | None:
        """Why the file is not what the folders declare, if it is not."""
        if self.status == "out-of-date":
            return GeneratedOutOfDate(path=GENERATED)
        return GeneratedEdited(path=GENERATED) if self.status == "edited" else None

    @property
    def words(self) -> str:
        """The outcome in a line."""
        counts = Counter(KINDS[each.kind].constant.lower() for each in self.declared)
        listed = ", ".join(f"{count} {name if count > 1 else name[:-1]}" for name, count in sorted(counts.items()))
        state = "written" if self.status == "written" else "up to date"
        return f"{GENERATED} is {state}: {listed or 'nothing is declared'}"

    def view(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "file": GENERATED,
            "status": self.status,
            "declared": manifest(self.declared),
            "warnings": list(self.warnings),
            "diff": self.diff,
        }


def generate_module(
    root: Path, sources: Mapping[str, bytes], *, check: bool = False, force: bool = False
) -> Generation:
    """Bring the `loom_gen.py` of *root* in step with *sources*; with *check* only say how it stands.

    Raises:
        SourceInvalid, DuplicateId, LinkInTheWay: nothing was written.
    """
    found = scan(sources)
    planned = plan_generated(found.declared, existing_texts(root, [GENERATED]).get(GENERATED), force=force)
    status: Status = "unchanged"
    if planned.action == "conflict":
        status = "edited"
    elif planned.action == "write":
        status = "out-of-date" if check else "written"
    if status == "written":
        write_texts(root, {GENERATED: planned.text})
    return Generation(status=status, declared=found.declared, warnings=found.warnings, diff=planned.diff)


def add_item(root: Path, item: str, name: str) -> list[str]:
    """Write the files of a new *item* (a flow, a tool) below *root*, and return their paths.

    Raises:
        NameRefused, SourceInvalid, FileTaken, LinkInTheWay: nothing was written.
    """
    if item not in ITEMS:
        raise Usage(f"loom gen can add a {' or a '.join(ITEMS)}, not {item!r}", hint=f"loom gen {ITEMS[0]} NAME")
    declared = scan(read_sources(root)).declared
    files = new_item(item, name, template_files(item), declared=declared)
    files = {path: text for path, text in files.items() if not _is_made_already(root, path)}
    for path in existing_texts(root, files):
        raise FileTaken(path=path)
    write_texts(root, files)
    return sorted(files)


def _is_made_already(root: Path, path: str) -> bool:
    """Say whether *path* only makes a package of a folder that is one already, or is meant to be none."""
    return path.endswith("/__init__.py") and (root / path).parent.is_dir()
