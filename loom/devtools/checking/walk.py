"""The way through a flow and all that it reaches: where the rules are applied, each node once for each way it is run."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from loom.devtools.checking.findings import Change, Finding, Way
from loom.devtools.checking.meaning import BRANCHING, CONTEXT, Meaning, Meanings
from loom.devtools.checking.source import FUNCTIONS, Project, Source
from loom.fingerprint.normal_form import FunctionNode

SHOWN_MAX: Final = 60
_CALLED_FIRST: Final = ("__init__", "__post_init__", "__enter__", "__aenter__", "__exit__", "__aexit__")


class Visit(NamedTuple):
    """A function as it is reached: by which way, and, if in a loop, by which parameters its turns can differ."""

    function: FunctionNode
    source: Source
    via: tuple[Way, ...]
    looped: bool = False
    varying: frozenset[str] = frozenset()


class Variables:
    """What is known of the variables of modules, each by the path of its module and its name."""

    def __init__(self) -> None:
        self.changed: dict[str, frozenset[str]] = {}
        """Those that functions change, by path."""
        self.changed_by_flows: set[tuple[str, str]] = set()
        self.read: dict[tuple[str, int, int, str], tuple[str, str]] = {}
        """Which one each finding of `shared-state` is about."""


class Here:
    """What a rule sees: the function that is run, and what its expressions stand for."""

    def __init__(self, walk: Walk, visit: Visit) -> None:
        self.visit, self.source, self._walk = visit, visit.source, walk
        self.skipped: set[ast.AST] = set()
        self.variables = walk.variables
        self.asking: set[tuple[str, ast.AST]] = set()
        """Which variables of which loops are being looked into: what comes back to itself is told by this."""

    def of(self, node: ast.AST | None) -> Meaning:
        """Return what *node* stands for."""
        return self._walk.meanings.of(node, self.source)

    @property
    def meanings(self) -> Meanings:
        """What expressions stand for, anywhere in the project."""
        return self._walk.meanings

    @property
    def context(self) -> str:
        """What the context is called here."""
        scope: ast.AST = self.visit.function
        while isinstance(scope, FUNCTIONS):
            for argument in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
                if self.meanings.parameter(argument, self.source) == CONTEXT:
                    return argument.arg
            scope = self.source.scope_of(scope)
        return "ctx"

    def report(
        self, rule: str, node: ast.AST, message: str, change: str | None = None, *, at: ast.AST | None = None
    ) -> Finding:
        """Note a breach of *rule* by *node*; *change* is what to write in the place of *at*, or of *node*."""
        change_made = replacement(self.source, at or node, change)
        found = finding(self.source, rule, node, message)._replace(change=change_made)
        self._walk.note(found, self.visit)
        return found

    def reach(
        self, function: FunctionNode, source: Source, *, looped: bool = False, varying: frozenset[str] = frozenset()
    ) -> None:
        """Go through *function* too: it runs as part of the flow."""
        self._walk.reach(Visit(function, source, (*self.visit.via, _way(function, source)), looped, varying))

    def renew(self, function: FunctionNode) -> None:
        """Go through *function* again when it is reached next: more is known of what it is given."""
        self._walk.forget(function)

    def skip(self, node: ast.AST) -> None:
        """Leave *node* out: it is not run by the flow."""
        self.skipped.add(node)


Apply: TypeAlias = Callable[[Here, Any], None]


class Walk:
    """Goes through flows, and keeps what the *rules*, by kind of node, find."""

    def __init__(self, project: Project, rules: Mapping[type[ast.AST], Sequence[Apply]]) -> None:
        self.meanings = Meanings(project)
        self.findings: dict[tuple[str, int, int, str], Finding] = {}
        self.variables = Variables()
        self._rules = rules
        self._pending: deque[Visit] = deque()
        self._seen: set[tuple[FunctionNode, bool, frozenset[str]]] = set()

    def flow(self, function: FunctionNode, source: Source) -> None:
        """Go through the flow that *function* of *source* is, and all that it reaches."""
        self.reach(Visit(function, source, (_way(function, source),)))
        while self._pending:
            self._go(self._pending.popleft())

    def reach(self, visit: Visit) -> None:
        key = (visit.function, visit.looped, visit.varying)
        if key not in self._seen:
            self._seen.add(key)
            self._pending.append(visit)

    def forget(self, function: FunctionNode) -> None:
        self._seen = {each for each in self._seen if each[0] is not function}

    def note(self, found: Finding, visit: Visit) -> None:
        self.findings.setdefault(found.key, found._replace(via=visit.via))

    def found(self) -> Iterator[Finding]:
        """Yield what was found, less the reading of what a flow itself changes: that is found where it is changed."""
        variables = self.variables
        for key, found in self.findings.items():
            if variables.read.get(key) not in variables.changed_by_flows:
                yield found

    def _go(self, visit: Visit) -> None:
        here = Here(self, visit)
        for apply in self._rules.get(type(visit.function), ()):
            apply(here, visit.function)
        for node in _run_by(visit.function, here.skipped):
            for apply in self._rules.get(type(node), ()):
                apply(here, node)


def _way(function: FunctionNode, source: Source) -> Way:
    return Way(getattr(function, "name", "lambda"), source.path, function.lineno)


def _run_by(function: FunctionNode, skipped: set[ast.AST]) -> Iterator[ast.AST]:
    """Yield what runs when *function* does, a node before those inside it; a rule may add to *skipped* meanwhile."""
    pending: list[ast.AST] = list(reversed(function.body)) if isinstance(function.body, list) else [function.body]
    while pending:
        node = pending.pop()
        if node in skipped or isinstance(node, (*FUNCTIONS[:2], ast.ClassDef)):
            continue
        yield node
        if isinstance(node, ast.AnnAssign):
            pending += [each for each in (node.value, node.target) if each is not None]
        elif isinstance(node, ast.Lambda):
            pending.append(node.body)
        else:
            pending += reversed(list(ast.iter_child_nodes(node)))


# -- reaching ------------------------------------------------------------------------------------------------------------


def reach_named(here: Here, node: ast.Name | ast.Attribute) -> None:
    """A function that is named is run, whether called here or handed on; so is a property that is read."""
    if not isinstance(node.ctx, ast.Load):
        return
    meaning = here.of(node)
    parent = here.source.parents.get(node)
    if isinstance(parent, ast.Call) and here.of(parent).kind in {"step", "flow"}:
        return  # it is declared to be one
    is_called = isinstance(parent, ast.Call) and parent.func is node
    if meaning.kind == "function" and not is_called and not isinstance(meaning.node, ast.Lambda):
        here.reach(meaning.node, meaning.source)
    elif isinstance(node, ast.Attribute):
        owner = here.of(node.value)
        if owner.kind in {"object", "class"}:
            for cls, source in here.meanings.classes(owner):
                for binding in source.bindings(cls).get(node.attr, ()):
                    if binding.how == "function" and not is_called:
                        here.reach(binding.node, source)  # type: ignore[arg-type]  # a binding of a function has one


def reach_branches(here: Here, call: ast.Call) -> None:
    """The functions that run as branches take the context first."""
    callee = here.of(call.func)
    starts = callee.name == "loom.block().start"
    if not starts and not (callee.kind == "verb" and callee.name in BRANCHING):
        return
    for value in _handed(call):
        meaning = here.of(value)
        if meaning.kind == "function":
            arguments = [*meaning.node.args.posonlyargs, *meaning.node.args.args]
            if arguments and here.meanings.give(arguments[0], CONTEXT):
                here.renew(meaning.node)
            here.reach(meaning.node, meaning.source)


def _handed(call: ast.Call) -> Iterator[ast.expr]:
    pending: list[ast.expr] = [*call.args, *(each.value for each in call.keywords)]
    while pending:
        node = pending.pop()
        match node:
            case ast.Dict(values=values):
                pending += values
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                pending += elements
            case ast.Starred(value=value):
                pending.append(value)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
                pending.append(element)
            case _:
                yield node


def parameters_given(call: ast.Call, function: FunctionNode, *, bound: bool) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Yield which argument each parameter of *function* is given by *call*; *bound*: its first is given already."""
    positional = [*function.args.posonlyargs, *function.args.args][1 if bound else 0 :]
    for parameter, value in zip(positional, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield parameter, value
    by_name = {each.arg: each for each in (*function.args.args, *function.args.kwonlyargs)}
    for given in call.keywords:
        if given.arg in by_name:
            yield by_name[given.arg], given.value


def is_bound(call: ast.Call, here: Here) -> bool:
    """Return whether *call* is one of a method, of an object or a class made by it."""
    if isinstance(call.func, ast.Attribute):
        return here.of(call.func.value).kind == "object"
    return here.of(call.func).kind == "class"


def started_by(meaning: Meaning, here: Here) -> Iterator[tuple[FunctionNode, Source]]:
    """Yield what runs when *meaning* is called: the function, or what makes an object of the class."""
    if meaning.kind in {"function", "flow"}:
        yield meaning.node, meaning.source
    elif meaning.kind == "class":
        for cls, source in here.meanings.classes(meaning):
            for name in _CALLED_FIRST:
                for binding in source.bindings(cls).get(name, ()):
                    if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield binding.node, source


# -- findings ------------------------------------------------------------------------------------------------------------


def shown(node: ast.AST) -> str:
    """Return *node* as text, short enough for a message."""
    try:
        text = " ".join(ast.unparse(node).split())
    except RecursionError:
        return "..."
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."


def finding(source: Source, rule: str, node: ast.AST, message: str) -> Finding:
    """Return a finding of *rule* at *node* of *source*."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column
    return Finding(
        path=source.path,
        line=line,
        column=_characters(source, line, column) + 1,
        rule=rule,
        message=message,
        end_line=end_line,
        end_column=_characters(source, end_line, end_column) + 1,
    )


def replacement(source: Source, node: ast.AST, text: str | None) -> Change | None:
    """Return the change that puts *text* in the place of *node*, if there is any and it stands in one line."""
    line, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    if text is None or not line or line != end or line > len(source.lines):
        return None
    before = source.lines[line - 1]
    start = _characters(source, line, node.col_offset)  # type: ignore[attr-defined]  # what has a line has a column
    stop = _characters(source, line, node.end_col_offset)  # type: ignore[attr-defined]  # likewise
    return Change(line, before, before[:start] + text + before[stop:])


def _characters(source: Source, line: int, column: int) -> int:
    """Return how many characters *column* bytes of *line* are."""
    if not 0 < line <= len(source.lines):
        return column
    text = source.lines[line - 1]
    return column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
