"""What one module declares with the decorators of `loom`, read off its syntax tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from loom.core.errors import LoomError

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class SourceInvalid(LoomError):
    """A file that is to be read is not Python; nothing was written."""

    code = "source-invalid"
    hint = "Mend the file, then run the command again."

    def __init__(self, *, path: str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}:{line}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Something declared at the top level of a module. *id* is None where the source does not spell it out.

    *input* and *output* are the annotations as they are written, for a flow.
    """

    kind: str
    id: str | None
    module: str
    name: str
    path: str
    line: int
    input: str | None = None
    output: str | None = None

    @property
    def place(self) -> str:
        """Where it stands: `path:line`."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What was found, and what could not be made use of."""

    declared: tuple[Declaration, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Use:
    """A decorator of `loom` as it is used: its kind, and the options it was called with."""

    kind: str
    options: Mapping[str, ast.expr]


class _Module:
    """One parsed module: the names it imports, the text constants and the functions at its top level."""

    def __init__(self, path: str, tree: ast.Module, kinds: Collection[str]) -> None:
        self.path, self.tree, self.kinds = path, tree, kinds
        self.name = ".".join(PurePosixPath(path.removesuffix("/__init__.py").removesuffix(".py")).parts)
        self.imported = imported_names(tree)
        self.functions = {node.name: node for node in tree.body if isinstance(node, Function)}
        self.texts = dict(_text_constants(tree.body))

    def use(self, node: ast.expr) -> _Use | None:
        """Return which decorator *node* is, called (`@loom.flow(...)`) or not."""
        if isinstance(node, ast.Call):
            found = self.use(node.func)
            options = {each.arg: each.value for each in node.keywords if each.arg}
            return found and _Use(found.kind, {**found.options, **options})
        full = self._full_name(node)
        kind = full.removeprefix("loom.")
        return _Use(kind, {}) if full.startswith("loom.") and kind in self.kinds else None

    def _full_name(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self.imported.get(name, "")
            case ast.Attribute(value=value, attr=attribute):
                owner = self._full_name(value)
                return f"{owner}.{attribute}" if owner else ""
            case _:
                return ""

    def declared_by(self, statement: ast.stmt) -> Declaration | None:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                uses = (self.use(node) for node in statement.decorator_list)
                return self._declared(next(filter(None, uses), None), name, name, statement)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                return self._assigned(name, call)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                return self._assigned(name, call)
            case _:
                return None

    def _assigned(self, name: str, call: ast.Call) -> Declaration | None:
        use = self.use(call)
        if use is not None and use.kind == "schedule":  # no decorator: the id comes first
            options = {"id": call.args[0]} if call.args else use.options
            return self._declared(_Use(use.kind, options), name, name, call)
        wrapped = call.args[0].id if call.args and isinstance(call.args[0], ast.Name) else name
        return self._declared(use, name, wrapped, call)

    def _declared(self, use: _Use | None, name: str, wrapped: str, node: Function | ast.Call) -> Declaration | None:
        if use is None:
            return None
        function = self.functions.get(wrapped) if use.kind == "flow" else None
        takes, gives = _annotations(function) if function else (None, None)
        return Declaration(
            kind=use.kind,
            id=self._id(use.options.get("id"), wrapped),
            module=self.name,
            name=name,
            path=self.path,
            line=node.lineno,
            input=takes,
            output=gives,
        )

    def _id(self, option: ast.expr | None, name: str) -> str | None:
        match option:
            case None | ast.Constant(value=None):
                return name
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=constant):
                return self.texts.get(constant)
            case _:
                return None

    def hidden(self) -> Iterator[Function]:
        """Yield the decorated functions that no import of the module can reach for certain."""
        top = set(self.tree.body)
        for node in ast.walk(self.tree):
            if isinstance(node, Function) and node not in top and any(map(self.use, node.decorator_list)):
                yield node

    def nameless_schedules(self) -> Iterator[ast.Call]:
        """Yield the schedules that no name at the top level stands for."""
        named = {id(each.value) for each in self.tree.body if isinstance(each, ast.Assign | ast.AnnAssign)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and id(node) not in named:
                use = self.use(node)
                if use is not None and use.kind == "schedule":
                    yield node


def declarations_in(path: str, source: bytes, kinds: Collection[str]) -> Scan:
    """Return what the module at *path* declares with the decorators of `loom` named in *kinds*.

    Raises:
        SourceInvalid: it is not Python, or not text.
    """
    module = _Module(path, parsed(path, source), kinds)
    declared = tuple(filter(None, map(module.declared_by, module.tree.body)))
    told = [
        f"{path}:{node.lineno}: {node.name} is not at the top level of its module; it is not listed"
        for node in module.hidden()
    ]
    told += [
        f"{path}:{node.lineno}: a schedule is not assigned to a name at the top level of its module; it is not listed"
        for node in module.nameless_schedules()
    ]
    told += [
        f"{each.place}: the id of {each.name} is not spelt out, so the manifest is without it"
        for each in declared
        if each.id is None
    ]
    return Scan(declared=declared, warnings=tuple(told))


def parsed(path: str, source: bytes) -> ast.Module:
    """Return the tree of *source*.

    Raises:
        SourceInvalid: it is not Python, or not text.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the author's escapes, which his own run tells him
            return ast.parse(source, path)
    except SyntaxError as error:
        raise SourceInvalid(path=path, line=error.lineno or 1, problem=error.msg) from error
    except (ValueError, RecursionError, MemoryError) as error:  # NUL characters before Python 3.12; absurd depths
        raise SourceInvalid(path=path, line=1, problem=str(error) or type(error).__name__) from error


def imported_names(tree: ast.Module, package: str | None = None) -> dict[str, str]:
    """Return what each name that *tree* imports stands for, in full; relative ones only where *package* is given."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or full] = full
        elif isinstance(node, ast.ImportFrom):
            module = _imported_from(node, package)
            names.update({alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names if module})
    return names


def _imported_from(node: ast.ImportFrom, package: str | None) -> str:
    if not node.level:
        return node.module or ""
    if package is None:
        return ""
    parts = package.split(".") if package else []
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)


def _text_constants(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
            ):
                yield name, text


def _annotations(function: Function) -> tuple[str | None, str | None]:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return _written(arguments[1].annotation) if len(arguments) > 1 else None, _written(function.returns)


def _written(annotation: ast.expr | None) -> str | None:
    match annotation:
        case None:
            return None
        case ast.Constant(value=str(quoted)):
            return quoted
        case _:
            return ast.unparse(annotation)
