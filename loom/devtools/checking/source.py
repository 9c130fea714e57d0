"""The modules of a project as trees, and where each name in them is bound."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

from loom.devtools.declarations import SourceInvalid, imported_names, parsed
from loom.fingerprint.normal_form import FunctionNode

Read: TypeAlias = Callable[[str], bytes | None]
"""Gives the source at a path of the project (`a/b.py`), None where there is none."""

ScopeNode: TypeAlias = FunctionNode | ast.Module
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BRANCHES: Final = ("body", "orelse", "finalbody", "handlers", "cases")

How: TypeAlias = Literal["value", "entered", "parameter", "function", "class", "import", "element"]


class Binding(NamedTuple):
    """A place where a name is bound, from *at* on; *block* is the chain of blocks round it."""

    how: How
    node: ast.AST
    at: tuple[int, int]
    block: tuple[tuple[ast.AST, str], ...] = ()


class Source:
    """One module: its tree, and what is looked up in it."""

    def __init__(self, path: str, name: str, tree: ast.Module, text: bytes) -> None:
        self.path, self.name, self.tree, self.text = path, name, tree, text
        self._bindings: dict[ast.AST, dict[str, list[Binding]]] = {}
        self.changed_by: dict[ast.AST, frozenset[str]] = {}
        """What is known of loops: the names that each changes."""

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name stands for, in full."""
        package = self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]
        return imported_names(self.tree, package)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that each node stands in."""
        found: dict[ast.AST, ast.AST] = {}
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            for child in ast.iter_child_nodes(node):
                found[child] = node
                pending.append(child)
        return found

    @cached_property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return self.text.decode("utf-8", "replace").splitlines()

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what *node* stands in, the innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope_of(self, node: ast.AST) -> ScopeNode:
        """Return the function, or the module, whose variables *node* sees first."""
        below = node
        for each in self.above(node):
            if isinstance(each, ast.Module):
                return each
            # What stands in the head of a function is evaluated outside it.
            if isinstance(each, ast.Lambda) and below is each.body:
                return each
            if isinstance(each, FUNCTIONS[:2]) and below in each.body:
                return each
            below = each
        return self.tree

    def bindings(self, scope: ast.AST) -> dict[str, list[Binding]]:
        """Return what *scope*, a function or module or class, binds: by name, in the order of the text."""
        found = self._bindings.get(scope)
        if found is None:
            found = self._bindings[scope] = {}
            for name, binding in _bound_in(scope):
                found.setdefault(name, []).append(binding)
        return found


def end_of(node: ast.AST) -> tuple[int, int]:
    """Return where *node* ends."""
    return (getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0)


def _bound_in(scope: ast.AST) -> Iterator[tuple[str, Binding]]:
    outer: set[str] = set()
    if isinstance(scope, FUNCTIONS):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in filter(None, every):
            yield argument.arg, Binding("parameter", argument, (0, 0))
    body = getattr(scope, "body", None)
    if isinstance(body, list):
        for name, binding in _bound_by(body, ()):
            if isinstance(binding.node, ast.Global | ast.Nonlocal):
                outer.update(binding.node.names)
            elif name not in outer:
                yield name, binding


def _bound_by(body: Iterable[ast.stmt], block: tuple[tuple[ast.AST, str], ...]) -> Iterator[tuple[str, Binding]]:
    for statement in body:
        for name, how, node in _binds(statement):
            yield name, Binding(how, node, end_of(_head_of(statement)), block)
        if isinstance(statement, _DEFINITIONS):
            continue
        for field in _BRANCHES:
            inner: list[ast.AST] = getattr(statement, field, None) or []
            for each in inner:
                if isinstance(each, ast.ExceptHandler | ast.match_case):
                    yield from _bound_by(each.body, (*block, (each, "body")))
            statements = [each for each in inner if isinstance(each, ast.stmt)]
            yield from _bound_by(statements, (*block, (statement, field)))


def _head_of(statement: ast.stmt) -> ast.AST:
    """Return what is evaluated before the body of *statement* is."""
    match statement:
        case ast.For() | ast.AsyncFor():
            return statement.iter
        case ast.With() | ast.AsyncWith():
            return statement.items[-1].context_expr
        case ast.If() | ast.While():
            return statement.test
        case ast.Match():
            return statement.subject
        case _:
            return statement


_Bound: TypeAlias = Iterator[tuple[str, How, ast.AST]]


def _binds(statement: ast.stmt) -> _Bound:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, "function", statement
        case ast.ClassDef(name=name):
            yield name, "class", statement
        case ast.Import() | ast.ImportFrom():
            yield from ((each.asname or each.name.partition(".")[0], "import", statement) for each in statement.names)
        case ast.Assign(targets=targets, value=value):
            yield from (found for target in targets for found in _assigned(target, value))
        case ast.AnnAssign(target=target):
            yield from _assigned(target, statement)
        case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
            yield from ((name, "element", iterated) for name in _names_in(target))
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (found for item in items for found in _entered(item))
        case ast.Global() | ast.Nonlocal():
            yield "", "element", statement
    yield from _bound_inside(statement)


def _entered(item: ast.withitem) -> _Bound:
    if isinstance(item.optional_vars, ast.Name):
        yield item.optional_vars.id, "entered", item.context_expr
    elif item.optional_vars is not None:
        yield from ((name, "element", item.context_expr) for name in _names_in(item.optional_vars))


def _assigned(target: ast.expr, value: ast.AST) -> _Bound:
    if isinstance(target, ast.Name):
        yield target.id, "value", value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        if len(target.elts) == len(value.elts):
            for one, given in zip(target.elts, value.elts, strict=True):
                yield from _assigned(one, given)
    else:
        yield from ((name, "element", value) for name in _names_in(target) if not isinstance(target, ast.Attribute))


def _bound_inside(statement: ast.stmt) -> _Bound:
    """Yield what a statement binds in its expressions, patterns and handlers, its blocks left out."""
    if isinstance(statement, _DEFINITIONS):
        return
    for field, value in ast.iter_fields(statement):
        parts = value if isinstance(value, list) else [value]
        if field == "handlers":
            yield from ((each.name, "element", each) for each in parts if each.name)
        elif field == "cases":
            yield from (found for each in parts for found in _bound_in_expression(each.pattern))
        elif field not in _BRANCHES:
            yield from (found for each in parts for found in _bound_in_expression(each))


def _bound_in_expression(node: object) -> _Bound:
    if not isinstance(node, ast.AST) or isinstance(node, ast.Constant | ast.Name):
        return
    for each in ast.walk(node):
        if isinstance(each, ast.NamedExpr):
            yield each.target.id, "value", each.value
        elif isinstance(each, ast.MatchAs | ast.MatchStar) and each.name:
            yield each.name, "element", each


def _names_in(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


class Project:
    """The modules that can be read. *read* is asked once for each path."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._sources: dict[str, Source | None] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        self.broken: dict[str, SourceInvalid] = {}

    def source(self, path: str) -> Source | None:
        """Return the module at *path*, None where there is none, or none that is Python."""
        if path not in self._sources:
            text = self._read(path)
            self._sources[path] = None if text is None else self._parsed(path, text)
        return self._sources[path]

    def read(self) -> list[Source]:
        """Return all modules that were read until now."""
        return [each for each in self._sources.values() if each is not None]

    def _parsed(self, path: str, text: bytes) -> Source | None:
        try:
            tree = parsed(path, text)
        except SourceInvalid as error:
            self.broken[path] = error
            return None
        return Source(path, path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), tree, text)

    def module(self, dotted: str, near: Source) -> Source | None:
        """Return the module that *dotted* names in an import of the module *near*, if it is one of the project.

        Its folder and those above it are looked through, since each may be where Python looks; libraries are not.
        """
        if dotted.partition(".")[0] in _OUTSIDE:
            return None
        folder = near.path.rpartition("/")[0]
        key = (dotted, folder)
        if key not in self._found:
            self._found[key] = next(filter(self.source, _paths(dotted, folder)), None)
        path = self._found[key]
        return self.source(path) if path else None


_OUTSIDE: Final = frozenset({*sys.stdlib_module_names, "loom"})


def _paths(dotted: str, folder: str) -> Iterator[str]:
    inner = dotted.replace(".", "/")
    while True:
        prefix = f"{folder}/" if folder else ""
        yield f"{prefix}{inner}.py"
        yield f"{prefix}{inner}/__init__.py"
        if not folder:
            break
        folder = folder.rpartition("/")[0]
    yield f"src/{inner}.py"
    yield f"src/{inner}/__init__.py"
