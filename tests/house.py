"""The rules of the house as pure functions from source to findings; tests/test_house.py holds the project to them.

A finding reads `path:line: what`. No rule imports the code it looks at.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Documented: TypeAlias = Function | ast.ClassDef | ast.Module

CHANCE_AND_CLOCKS: Final = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "os.environ",
        "os.getenv",
        "os.urandom",
        "random",
        "secrets",
        "time",
        "uuid.uuid1",
        "uuid.uuid4",
    }
)
"""What answers differently each time. Not in core, kernel or lenses: it comes through spi, or from the log."""

OUTSIDE_WORLD: Final = frozenset(
    {
        "asyncio",
        "concurrent",
        "http.client",
        "io",
        "multiprocessing",
        "os",
        "shutil",
        "socket",
        "sqlite3",
        "subprocess",
        "tempfile",
        "threading",
        "urllib.request",
    }
)
"""What reaches out of the process, or waits. Not in code that a replay calls."""

DISCOVERY: Final = frozenset(
    {
        "glob",
        "importlib.metadata.entry_points",
        "os.environ",
        "os.getenv",
        "os.listdir",
        "os.scandir",
        "os.walk",
        "pkgutil",
    }
)
DISCOVERY_METHODS: Final = frozenset({"glob", "iterdir", "rglob"})
"""What finds code by looking round. Wiring is explicit imports."""

FILE_METHODS: Final = frozenset({"read_bytes", "read_text", "write_bytes", "write_text"})

KERNEL_LIBRARIES: Final = frozenset(
    {
        "annotated_types",
        "cronsim",
        "loom",
        "orjson",
        "pydantic",
        "pydantic_core",
        "rfc8785",
        "rpds",
        "typing_extensions",
    }
)
"""What core, spi, kernel and rings may import beside the standard library (without its driver, sqlite3)."""

BANNED_MODULES: Final = frozenset(
    ["base", "common", "data", "helper", "helpers", "info", "manager", "managers", "misc", "util", "utils"]
)
BANNED_CLASS: Final = re.compile(r"^_*(Base|Abstract)[A-Z]|(Impl|Manager|Helpers?|Utils?)$")
MACHINE_PATH: Final = re.compile(r"(?<![\w.}-])/(?:work|root)/|\.\./shared\b")


class Source(NamedTuple):
    """A file of ours: where it lies, and its text."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return _tree(self)

    @property
    def nodes(self) -> Sequence[ast.AST]:
        """All of the tree: many rules look through it, one after the other."""
        return _nodes(self)

    def definitions(self) -> Iterator[Function | ast.ClassDef]:
        """Yield its functions and classes, at every depth: they stand where statements do, and these are few of all nodes."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                below = getattr(node, field, ())
                waiting += below if isinstance(below, list) else ()


@functools.lru_cache(maxsize=1)
def _tree(source: Source) -> ast.Module:
    return ast.parse(source.text, source.path)


@functools.lru_cache(maxsize=1)
def _nodes(source: Source) -> Sequence[ast.AST]:
    return list(ast.walk(source.tree))


def sources(*folders: str, root: Path = ROOT) -> list[Source]:
    """Return the Python files below *folders* of the repository; a folder that is not there yet has none."""
    return [
        Source(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
        for folder in folders
        for file in sorted((root / folder).rglob("*.py"))
    ]


# Size


def docstring_lines(node: Documented) -> set[int]:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return set()


def all_docstring_lines(tree: ast.AST) -> set[int]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, Documented)]
    return set().union(*(docstring_lines(node) for node in nodes))


def size(node: Function | ast.ClassDef) -> int:
    """Return the lines of *node* from its `def` or `class` on; no docstring inside it counts."""
    return len(_lines(node)) - len(all_docstring_lines(node))


def _lines(node: Function | ast.ClassDef) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def long_functions(source: Source, *, limit: int) -> Iterator[str]:
    return _long(source, (ast.FunctionDef, ast.AsyncFunctionDef), limit)


def long_classes(source: Source, *, limit: int) -> Iterator[str]:
    return _long(source, (ast.ClassDef,), limit)


def _long(source: Source, kinds: tuple[type[Function | ast.ClassDef], ...], limit: int) -> Iterator[str]:
    if len(source.text.splitlines()) <= limit:
        return
    for node in source.definitions():
        # Few are long with their docstrings, so few are looked through for these.
        if isinstance(node, kinds) and len(_lines(node)) > limit < (lines := size(node)):
            yield f"{source.path}:{node.lineno}: {node.name} has {lines} lines, over {limit}"


def long_files(source: Source, *, limit: int) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > limit and (lines := lines - len(all_docstring_lines(source.tree))) > limit:
        yield f"{source.path}:1: {lines} lines, over {limit}"


def code_lines(source: Source) -> int:
    """Return how many lines hold code: no blank line, comment or docstring."""
    silent = all_docstring_lines(source.tree)
    return sum(
        1
        for number, line in enumerate(source.text.splitlines(), start=1)
        if number not in silent and line.strip() and not line.strip().startswith("#")
    )


# Names


def banned_names(source: Source) -> Iterator[str]:
    for part in Path(source.path).with_suffix("").parts:
        if part.strip("_") in BANNED_MODULES:
            yield f"{source.path}:1: a module named {part} says nothing"
    for node in source.definitions():
        if isinstance(node, ast.ClassDef) and BANNED_CLASS.search(node.name):
            yield f"{source.path}:{node.lineno}: a class named {node.name} does not say its role"


def machine_paths(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if found := MACHINE_PATH.search(line):
            yield f"{source.path}:{number}: names a folder of one machine ({found[0]})"


# Reach


def imported_names(source: Source) -> dict[str, str]:
    """Return what each imported name stands for: `from os import environ as e` gives `{"e": "os.environ"}`."""
    names: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or full] = full
        elif isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name that *node* stands for, or "" where it is no plain name."""
    match node:
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.Attribute(value=value, attr=attribute):
            owner = dotted(value, names)
            return f"{owner}.{attribute}" if owner else ""
        case _:
            return ""


def uses(source: Source, banned: Collection[str]) -> Iterator[str]:
    """Yield where *source* imports or uses something banned, or something of it, whatever it is called here."""
    names = imported_names(source)
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Name | ast.Attribute):
            found = [full for full in named_by(node, names) if is_or_is_in(full, banned)]
            yield from (f"{source.path}:{node.lineno}: {full}" for full in found)


def is_or_is_in(full: str, banned: Collection[str]) -> bool:
    return any(full == name or full.startswith(f"{name}.") for name in banned)


def named_by(node: ast.Import | ast.ImportFrom | ast.Name | ast.Attribute, names: dict[str, str]) -> list[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases):
            return [f"{module}.{alias.name}" for alias in aliases]
        case ast.Name() | ast.Attribute():
            return [dotted(node, names)]


def calls_of_methods(source: Source, methods: Collection[str]) -> Iterator[str]:
    names = imported_names(source)
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            module = dotted(node.func, names).partition(".")[0]
            if module not in sys.stdlib_module_names or module == "pathlib":
                yield f"{source.path}:{node.lineno}: .{node.func.attr}()"


def opens(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"{source.path}:{node.lineno}: open()"


def awaits(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{source.path}:{node.lineno}: waits"


def foreign_imports(source: Source) -> Iterator[str]:
    """Yield the imports that are neither ours, nor the standard library's, nor a library of the kernel."""
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for full in named_by(node, {}):
                top = full.partition(".")[0]
                if top == "sqlite3" or (top not in sys.stdlib_module_names and top not in KERNEL_LIBRARIES):
                    yield f"{source.path}:{node.lineno}: imports {full}"


def discovery(source: Source) -> Iterator[str]:
    yield from uses(source, DISCOVERY)
    yield from calls_of_methods(source, DISCOVERY_METHODS)


def impurities(source: Source) -> Iterator[str]:
    """Yield what keeps *source* from being replayed anywhere, any time: chance, clocks, I/O, waiting."""
    yield from uses(source, CHANCE_AND_CLOCKS | OUTSIDE_WORLD)
    yield from calls_of_methods(source, FILE_METHODS)
    yield from opens(source)
    yield from awaits(source)
