"""The normal form of source: what of a syntax tree counts when two versions of a flow are compared.

A tree becomes a flat list of words. `_FIELDS` says which fields of a node are read, so that a new field of a new Python
changes nothing; it is not `ast.dump`, whose text differs between Pythons. Left out are formatting, comments,
docstrings, hints, `pass` and other statements that do nothing, and the paths of imports.

A name that the code binds itself stands as it is written. Renaming a local variable therefore counts: parameters are
given by name, `locals()` and `f"{x=}"` show names, and a needless "changed" costs one comparison of the recorded prefix,
whereas a clever renaming that is wrong once hides a change. A name from outside becomes a `Reference`: this file does not
know what it stands for.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from loom.core.collecting import collected_later

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Unreadable(Exception):
    """The source of something that counts cannot be read; the text says of what."""


class Reference(NamedTuple):
    """A dotted name that the code does not bind; *revived* if answers are revived through it (`expects=`)."""

    path: tuple[str, ...]
    revived: bool


class _Scope(NamedTuple):
    """Where a node stands: in code of the package *home*, with the names *bound* round it."""

    home: str
    bound: frozenset[str]
    revived: bool = False

    def within(self, names: Iterable[str]) -> _Scope:
        return self._replace(bound=self.bound.union(names))


Word: TypeAlias = str | Reference
_Part: TypeAlias = Word | tuple[ast.AST, _Scope]

_FIELDS: Final = {
    name: tuple(fields.split())
    for names, _, fields in (
        line.partition(":")
        for line in """
            Return Expr Await Yield YieldFrom Starred MatchValue MatchSingleton: value
            Delete: targets
            Assign: targets value
            AugAssign: target op value
            NamedExpr: target value
            TypeAlias: name value
            For AsyncFor: target iter body orelse
            While If IfExp: test body orelse
            With AsyncWith: items body
            withitem: context_expr optional_vars
            Match: subject cases
            match_case: pattern guard body
            MatchSequence MatchOr: patterns
            MatchMapping: keys patterns rest
            MatchClass: cls patterns kwd_attrs kwd_patterns
            MatchStar: name
            MatchAs: pattern name
            Raise: exc cause
            Try TryStar: body handlers orelse finalbody
            ExceptHandler: type name body
            Assert: test msg
            Global Nonlocal: names
            BoolOp: op values
            BinOp: left op right
            UnaryOp: op operand
            Compare: left ops comparators
            Call: func args keywords
            keyword: arg value
            Attribute: value attr
            Subscript: value slice
            Slice: lower upper step
            List Tuple Set: elts
            Dict: keys values
            ListComp SetComp GeneratorExp: elt generators
            DictComp: key value generators
            comprehension: target iter ifs is_async
            FormattedValue: value conversion format_spec
            Interpolation: value str conversion format_spec
            TemplateStr: values
        """.splitlines()
    )
    for name in names.split()
}
"""The fields that count, of each kind of node that is not in `_SPECIAL`."""
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_BIND_NOTHING: Final = (ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
_WORDS: Final = (str, Reference)
_IMPORTS: Final = (ast.Import, ast.ImportFrom)


def body_words(function: FunctionNode, home: str) -> list[Word]:
    """Return what counts of *function* beside its decorators and the values of its defaults.

    *home* is the top package of its code: where a local import finds something inside it makes no difference.
    """
    scope = _Scope(home, frozenset()).within(_bound_by(function))
    return [type(function).__name__, *_parameters(function.args), *_words(_field(function.body, scope))]


def decorators_words(function: FunctionNode, home: str) -> list[list[Word]]:
    """Return what counts of each decorator of *function*, the outermost first."""
    return [_words([(node, _Scope(home, frozenset()))]) for node in getattr(function, "decorator_list", ())]


def constant(value: object) -> str:
    """Return one word for a value that can stand in source: equal words, equal type and value, on every Python."""
    match value:
        case float():
            text = value.hex()
        case complex():
            text = f"{value.real.hex()} {value.imag.hex()}"
        case bool() | None:
            text = str(value)
        case int():
            text = hex(value)  # not decimal: a Python may limit its digits
        case bytes():
            text = value.hex()
        case str():
            text = value.encode("unicode_escape").decode()
        case _:
            text = str(value)
    return f"{type(value).__name__}:{text}"


def _words(parts: list[_Part]) -> list[Word]:
    """Return the words of *parts*, in order: a loop with its own stack, so that no depth of nesting is too deep."""
    words: list[Word] = []
    pending = parts[::-1]
    while pending:
        part = pending.pop()
        if isinstance(part, _WORDS):
            words.append(part)
        else:
            special = _SPECIAL.get(type(part[0]), _plain)
            pending.extend(reversed(special(*part)))
    return words


def _plain(node: ast.AST, scope: _Scope) -> list[_Part]:
    name = type(node).__name__
    fields = _FIELDS.get(name, node._fields)
    if not fields:
        return [name]
    parts: list[_Part] = [name + "("]
    for field in fields:
        parts += _field(getattr(node, field, None), scope)
    parts.append(")")
    return parts


def _field(value: object, scope: _Scope) -> list[_Part]:
    if isinstance(value, ast.AST):
        return [(value, scope)]
    if isinstance(value, list):
        return ["[", *_items(value, scope), "]"]
    return ["-" if value is None else str(value)]


def _items(values: list[Any], scope: _Scope) -> Iterator[_Part]:
    """Yield the parts of a list; of statements only those that do something, and imports side by side in any order."""
    imported: set[str] = set()
    for value in values:
        if isinstance(value, _IMPORTS):
            imported.update(_imported(value, scope.home))
        elif not _is_idle(value):
            yield from sorted(imported)
            imported.clear()
            yield from _field(value, scope)
    yield from sorted(imported)


def _is_idle(node: object) -> bool:
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _imported(node: ast.Import | ast.ImportFrom, home: str) -> Iterator[str]:
    """Yield a word for each name that a local import binds. Of its path the last name counts, and whose library it is."""
    source = "" if isinstance(node, ast.Import) or node.level else node.module or ""
    for alias in node.names:
        root = (source or alias.name).partition(".")[0]
        is_ours = root == home or (isinstance(node, ast.ImportFrom) and node.level > 0)
        name = alias.name.rpartition(".")[2]
        yield f"import {'' if is_ours else root}:{name} as {alias.asname or name}"


# Names


def _bound_by(node: FunctionNode | ast.ClassDef) -> set[str]:
    """Return the names that *node* binds in its own scope."""
    inside = [
        *(_children(node) if isinstance(node, ast.ClassDef) else _inside(node)),
        *getattr(node, "type_params", []),
    ]
    names: set[str] = set()
    outer: set[str] = set()
    while inside:
        child = inside.pop()
        names.update(_binds(child))
        if isinstance(child, ast.Global):
            outer.update(child.names)
        elif isinstance(child, _COMPREHENSIONS):
            inside += (walrus.target for walrus in ast.walk(child) if isinstance(walrus, ast.NamedExpr))
        elif not isinstance(child, _DEFINITIONS):
            inside += _children(child)
    return names - outer


def _inside(function: FunctionNode) -> list[ast.AST]:
    return [*(function.body if isinstance(function.body, list) else [function.body]), function.args]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what `ast.iter_child_nodes` does, without what binds no name: it is most of a tree."""
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST))
        elif isinstance(value, ast.AST) and not isinstance(value, _BIND_NOTHING):
            yield value


def _binds(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.alias(name=name, asname=asname):
            return (asname or name.partition(".")[0],)
    own_name = getattr(node, "name", None)  # definitions, handlers, captures, type parameters
    return (own_name,) if isinstance(own_name, str) else ()


def _name(node: ast.Name, scope: _Scope) -> list[_Part]:
    if node.id in scope.bound or not isinstance(node.ctx, ast.Load):
        return ["Name", node.id]
    return [Reference((node.id,), scope.revived)]


def _attribute(node: ast.Attribute, scope: _Scope) -> list[_Part]:
    path = [node.attr]
    root = node.value
    while isinstance(root, ast.Attribute):
        path.append(root.attr)
        root = root.value
    if isinstance(root, ast.Name) and root.id not in scope.bound and isinstance(node.ctx, ast.Load):
        return [Reference((root.id, *reversed(path)), scope.revived)]
    return _plain(node, scope)


# Nodes that need more than their list of fields


def _parameters(arguments: ast.arguments) -> list[str]:
    signs: dict[str, Sequence[ast.arg | None]] = {
        "/": arguments.posonlyargs,
        "": arguments.args,
        "*": [arguments.vararg],
        "=": arguments.kwonlyargs,
        "**": [arguments.kwarg],
    }
    return ["(", *(sign + each.arg for sign, named in signs.items() for each in named if each), ")"]


def _function(node: FunctionNode, scope: _Scope) -> list[_Part]:
    """A function inside another: its name is a variable there, its defaults and decorators are evaluated there."""
    return [
        f"{type(node).__name__}(",
        getattr(node, "name", "-"),
        *_parameters(node.args),
        *_field(node.args.defaults, scope),
        *_field(node.args.kw_defaults, scope),
        *_field(getattr(node, "decorator_list", []), scope),
        *_field(node.body, scope.within(_bound_by(node))),
        ")",
    ]


def _class(node: ast.ClassDef, scope: _Scope) -> list[_Part]:
    parts: list[_Part] = ["ClassDef(", node.name]
    for outside in (node.bases, node.keywords, node.decorator_list):
        parts += _field(outside, scope)
    inner = scope.within(_bound_by(node))
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign):  # here a hint makes a field
            parts += _field([statement.target, statement.annotation, statement.value], inner)
        else:
            parts += _items([statement], inner)
    return [*parts, ")"]


def _comprehension(node: ast.AST, scope: _Scope) -> list[_Part]:
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]  # all four kinds have them
    targets = [each for generator in generators for each in ast.walk(generator.target)]
    return _plain(node, scope.within(name for each in targets for name in _binds(each)))


def _keyword(node: ast.keyword, scope: _Scope) -> list[_Part]:
    return _plain(node, scope._replace(revived=True) if node.arg == "expects" else scope)


def _hinted(node: ast.AnnAssign, scope: _Scope) -> list[_Part]:
    assert node.value is not None  # without a value it does nothing, and is left out
    return _plain(ast.Assign(targets=[node.target], value=node.value), scope)


def _text(node: ast.JoinedStr, scope: _Scope) -> list[_Part]:
    """An f-string: Pythons split the text between the braces differently, so neighbours become one."""
    parts: list[_Part] = []
    texts: list[str] = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            texts.append(str(value.value))
        else:
            parts += [constant("".join(texts)), (value, scope)]
            texts.clear()
    last = constant("".join(texts))
    return ["JoinedStr(", *parts, last, ")"] if parts else [last]


def _constant(node: ast.Constant, scope: _Scope) -> list[_Part]:
    return [constant(node.value)]


_SPECIAL: Final[dict[type[ast.AST], Callable[[Any, _Scope], list[_Part]]]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Constant: _constant,
    ast.JoinedStr: _text,
    ast.AnnAssign: _hinted,
    ast.keyword: _keyword,
    ast.ClassDef: _class,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _function),
    **dict.fromkeys(_COMPREHENSIONS, _comprehension),
}


# Source


def tree_of(function: FunctionType) -> FunctionNode:
    """Return the tree of *function*, from what `linecache` has: the one place that reads source.

    Raises:
        Unreadable: there is none, or it is not that of this function any more.
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape the import has warned already
            node = _lambda(lines, code) if code.co_name == "<lambda>" else _definition(lines, code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    if node is None:
        raise Unreadable(function.__qualname__)
    return node


def _definition(lines: list[str], code: CodeType) -> FunctionNode | None:
    """Parse from the first line of *code* to the first dedent that makes it whole."""
    first = code.co_firstlineno - 1
    if not first < len(lines):
        return None
    while first and not lines[first].lstrip().startswith(("@", "def", "async")):
        first -= 1  # of a decorator in parentheses, the line of its @ is not recorded
    indent = _indent(lines[first])
    last = max(line or 0 for *_, line in code.co_lines())
    ends = (n for n in range(last, len(lines)) if _is_code(lines[n]) and _indent(lines[n]) <= indent)
    for end in (*ends, len(lines)):
        text = "".join(("if 1:\n" if indent else "", *lines[first:end]))
        try:
            with collected_later():
                [node] = ast.parse(text).body
        except SyntaxError:
            continue
        found = node.body[0] if isinstance(node, ast.If) else node
        return found if _is_of(found, code) else None
    return None


def _is_code(line: str) -> bool:
    return line.strip()[:1] not in {"", "#"}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t\f"))


def _is_of(node: ast.stmt, code: CodeType) -> TypeGuard[FunctionNode]:
    """Return whether *node* can have been compiled to *code*: a file may have changed since it was imported."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return node.name == code.co_name and tuple(names) == code.co_varnames[: len(names)]


def _lambda(lines: list[str], code: CodeType) -> FunctionNode | None:
    """Parse the whole file: a lambda starts anywhere in a line, and there may be several in one."""
    with collected_later():  # CPython 3.11 miscounts the depth of a tree if a coroutine is closed while it is made
        tree = ast.parse("".join(lines))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    if len(found) > 1:
        places = set(code.co_positions())
        found = [node for node in found if _place(node.body) in places]
    return found[0] if len(found) == 1 else None


def _place(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
