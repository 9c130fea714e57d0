"""The static check of a folder: find its files and its settings, let the pure part judge, tell what it found."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.devtools.checking.checker import Report, check
from loom.devtools.checking.findings import RULES, Finding
from loom.devtools.checking.shapes import diff_lines, report_json, sarif
from loom.plugins.sqlite.location import loom_table, nearest_project
from loom_cli.errors import CommandRefused, Usage
from loom_cli.exits import ExitCode
from loom_cli.files import told
from loom_cli.screen import Screen, Styled

_NEVER: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_COLOURS: Final = {"error": "red", "warning": "yellow"}


class PathNotFound(CommandRefused):
    """What is to be checked is not there."""

    code = "path-not-found"
    exit_code = ExitCode.NOT_FOUND
    hint = "Name files and folders that are there, or none for this folder."

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"there is no {path}")


class Asked(NamedTuple):
    """What the command line says about rules; each entry may name several, with commas."""

    select: list[str]
    ignore: list[str]


class Settings(NamedTuple):
    """`[tool.loom.check]` of a project."""

    select: list[str]
    ignore: list[str]
    exclude: list[str]


def checked(folder: Path, paths: Iterable[Path], asked: Asked) -> Report:
    """Check *paths* below *folder*, each in the project that it belongs to.

    Raises:
        PathNotFound: one of them is not there.
        Usage: a rule that does not exist, or settings that cannot be used.
        FileNotUsable: a file cannot be read.
    """
    found: set[Finding] = set()
    files = flows = 0
    for root, given in _by_project(folder, paths).items():
        settings = _settings(root)
        names = sorted({name for path in given for name in python_files(path, root, settings.exclude)})
        report = check(names, reader(root), rules=_rules(asked, settings))
        found.update(_as_seen_from(folder, root, each) for each in report.findings)
        files, flows = files + report.files, flows + report.flows
    return Report(tuple(sorted(found)), files, flows)


def _by_project(folder: Path, paths: Iterable[Path]) -> dict[Path, list[Path]]:
    projects: dict[Path, list[Path]] = {}
    for given in paths:
        path = (folder / given).resolve()
        if not path.exists():
            raise PathNotFound(path=str(given))
        inside = path if path.is_dir() else path.parent
        project = nearest_project(inside)
        projects.setdefault(project.parent.resolve() if project else inside, []).append(path)
    return projects


def python_files(path: Path, root: Path, exclude: list[str]) -> Iterator[str]:
    """Yield the Python files at or below *path*, as paths from *root*: none of an environment, a cache or a hidden folder."""
    if path.is_file():
        yield path.relative_to(root).as_posix()
        return
    for at, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if _is_entered(Path(at, name), root, exclude))
        for name in files:
            file = Path(at, name).relative_to(root).as_posix()
            if name.endswith(".py") and not _is_excluded(file, exclude):
                yield file


def _is_entered(folder: Path, root: Path, exclude: list[str]) -> bool:
    if folder.name.startswith(".") or folder.name in _NEVER or (folder / "pyvenv.cfg").exists():
        return False
    return not _is_excluded(folder.relative_to(root).as_posix(), exclude)


def _is_excluded(path: str, exclude: list[str]) -> bool:
    return any(fnmatch(path, each.rstrip("/")) for each in exclude)


def reader(root: Path) -> Callable[[str], bytes | None]:
    """Return what reads a file of the project at *root*, None where there is none.

    Raises, when it is called:
        FileNotUsable: it is there, and cannot be read.
    """

    def read(path: str) -> bytes | None:
        file = root / path
        if not file.is_file():
            return None
        with told(file):
            return file.read_bytes()
        raise AssertionError  # told raises

    return read


def _as_seen_from(folder: Path, root: Path, found: Finding) -> Finding:
    via = tuple(each._replace(path=_shown(root / each.path, folder)) for each in found.via)
    return found._replace(path=_shown(root / found.path, folder), via=via)


def _shown(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder.resolve())).as_posix()


# Settings


def _settings(root: Path) -> Settings:
    project = root / "pyproject.toml"
    table = loom_table(project).get("check", {}) if project.is_file() else {}
    if not isinstance(table, Mapping):
        raise Usage(f"[tool.loom.check] in {project} is no table", hint="Write [tool.loom.check] and keys below it.")
    unknown = sorted(set(table) - set(Settings._fields))
    if unknown:
        raise Usage(
            f"[tool.loom.check] in {project} has an unknown key: {unknown[0]}",
            hint=f"It has {', '.join(Settings._fields)}.",
        )
    return Settings(*(_texts(table.get(name, []), name, project) for name in Settings._fields))


def _texts(value: Any, name: str, project: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Usage(f"{name} of [tool.loom.check] in {project} is no list of texts", hint=f'{name} = ["..."]')
    return value


def _rules(asked: Asked, settings: Settings) -> frozenset[str]:
    select, ignore = _known(asked.select), _known(asked.ignore)
    chosen = select or _known(settings.select) or frozenset(RULES)
    return chosen - ignore - (_known(settings.ignore) - select)


def _known(given: Iterable[str]) -> frozenset[str]:
    names = frozenset(name.strip() for each in given for name in each.split(",") if name.strip())
    for name in sorted(names - set(RULES)):
        near = difflib.get_close_matches(name, RULES, n=1)
        raise Usage(
            f"there is no rule {name!r}", hint=f"Did you mean {near[0]}?" if near else f"Rules: {', '.join(RULES)}."
        )
    return names


# Telling


def tell(screen: Screen, report: Report, *, as_: str, fix_hints: bool) -> None:
    """Print *report* as text, json or sarif: findings to the results, the count to the messages."""
    if as_ == "json":
        screen.json(report_json(report))
    elif as_ == "sarif":
        from loom_cli.version import version

        screen.json(sarif(report, version=version()))
    else:
        for found in report.findings:
            _line(screen, found, fix_hints=fix_hints)
        screen.note(*_summary(screen, report))


def _line(screen: Screen, found: Finding, *, fix_hints: bool) -> None:
    kind = found.rule if found.severity == "error" else f"{found.rule} (warning)"
    place = Styled(f"{found.path}:{found.line}:{found.column}:", "bold")
    screen.line(place, " ", Styled(kind, _COLOURS[found.severity]), " ", found.message)
    if len(found.via) > 1:
        screen.line(Styled(f"    reached by {' > '.join(map(str, found.via))}", "dim"))
    screen.line(Styled(f"    instead: {found.fix}", "dim"))
    if fix_hints and found.change is not None:
        before, after = diff_lines(found.change)
        screen.line("    ", Styled(before, "red"))
        screen.line("    ", Styled(after, "green"))


def _summary(screen: Screen, report: Report) -> tuple[Any, ...]:
    looked = f"{_count(report.flows, 'flow')} in {_count(report.files, 'file')}"
    if not report.files:
        return Styled("nothing was checked: there is no Python file here", "yellow"), ""
    if not report.findings:
        return Styled(screen.sign("done"), "green"), f" nothing found: {looked}"
    sign = Styled(screen.sign("failed"), "red") if report.errors else Styled(screen.sign("done"), "green")
    return sign, f" {_count(report.errors, 'error')}, {_count(report.warnings, 'warning')}: {looked}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
