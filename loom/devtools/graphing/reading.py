"""Reading a flow off its source: statement by statement, and into the helpers that it calls. Nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from loom.core.errors import LoomError
from loom.devtools.checking.meaning import Meaning, Meanings
from loom.devtools.checking.source import COMPREHENSIONS, FUNCTIONS, Project, Read, Source
from loom.devtools.graphing.calls import Calls
from loom.devtools.graphing.structure import (
    Arm,
    Block,
    Choice,
    Fork,
    Group,
    Guarded,
    Item,
    Leave,
    LeaveKind,
    Loop,
    Place,
    Shape,
    does_something,
    matters,
)
from loom.devtools.graphing.tidying import tidied
from loom.devtools.graphing.words import Words, keyword, shown
from loom.fingerprint.normal_form import FunctionNode

DEPTH_MAX: Final = 24
_LEAVES: Final[dict[type[ast.stmt], LeaveKind]] = {
    ast.Return: "return",
    ast.Raise: "raise",
    ast.Break: "break",
    ast.Continue: "continue",
}
_NOT_RUN: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global)


class FlowNotDeclared(LoomError):
    """No file that was read declares this flow."""

    code = "flow-not-declared"

    def __init__(self, *, flow: str, known: Sequence[str]) -> None:
        self.flow, self.known = flow, tuple(known)
        self.hint = (
            f"Declared here: {', '.join(known[:12])}." if known else "No flow is declared here: go to its folder."
        )
        super().__init__(f"no file here declares a flow {flow!r}")


def shapes(paths: Iterable[str], read: Read) -> dict[str, Shape]:
    """Return the flows that the modules at *paths* declare, by their ids; *read* gives the source at a path of the project.

    Where several have one id, that of the module named first counts.
    """
    project = Project(read)
    found: dict[str, Shape] = {}
    for path in dict.fromkeys(paths):
        source = project.source(path)
        if source is not None and b"loom" in source.text:
            for shape in _declared(project, source):
                found.setdefault(shape.flow, shape)
    return found


def _declared(project: Project, source: Source) -> Iterator[Shape]:
    for node in ast.walk(source.tree):
        reader, shape = Reader(Meanings(project)), None
        if isinstance(node, ast.AsyncFunctionDef) and node.decorator_list:
            shape = reader.flow(node, source, node.decorator_list)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            meaning = reader.meanings.of(node.value, source)
            if meaning.kind == "flow" and isinstance(meaning.node, ast.AsyncFunctionDef):
                made_by = [node.value, *([node.value.func] if isinstance(node.value.func, ast.Call) else [])]
                shape = reader.flow(meaning.node, meaning.source, made_by)
        if shape is not None:
            yield shape


def shape_of(flow: str, paths: Iterable[str], read: Read) -> Shape:
    """Return the flow with the id *flow*.

    Raises:
        FlowNotDeclared: no module at *paths* declares it.
    """
    found = shapes(paths, read)
    if flow not in found:
        raise FlowNotDeclared(flow=flow, known=sorted(found))
    return found[flow]


class Reader:
    """Reads one flow."""

    def __init__(self, meanings: Meanings) -> None:
        self.meanings = meanings
        self._words, self._calls = Words(meanings), Calls(self, meanings)
        self._numbers = count(1)
        self._inside: list[FunctionNode] = []
        self._tasks: list[list[Arm]] = []
        self._unfollowed: dict[str, None] = {}

    def key(self) -> str:
        """Return a new key."""
        return f"n{next(self._numbers)}"

    def flow(self, function: ast.AsyncFunctionDef, source: Source, made_by: Sequence[ast.expr]) -> Shape | None:
        """Return the flow that one of the decorators, or calls, *made_by* makes of *function*, None where none does."""
        meaning = self.meanings.function(function, source)
        if meaning.kind != "flow" and made_by is function.decorator_list:
            return None
        name = self._calls.declared(meaning, made_by).name
        if name is None:
            return None
        self._inside.append(function)
        body = self._block(function.body, source)
        arguments = [*function.args.posonlyargs, *function.args.args]
        takes = shown(arguments[1].annotation) if len(arguments) > 1 and arguments[1].annotation else ""
        about = (ast.get_docstring(function) or "").partition("\n")[0]
        place = Place(source.path, function.lineno)
        shape = Shape(name, takes, shown(function.returns), about, place, body, tuple(self._unfollowed))
        return tidied(shape)

    def called(self, meaning: Meaning) -> Block:
        """Return what the function *meaning* does when it is called; nothing where it asks nothing."""
        function, source = meaning.node, meaning.source
        if function in self._inside or len(self._inside) > DEPTH_MAX:
            place = Place(source.path, function.lineno)
            return (Group(self.key(), "helper", f"{meaning.name} again", (), place),) if self._may_ask(function) else ()
        if not self._may_ask(function):
            return ()
        self._inside.append(function)
        is_lambda = isinstance(function, ast.Lambda)
        body = self._asked(function.body, source) if is_lambda else self._block(function.body, source)
        self._inside.pop()
        return body if does_something(body) or _has_again(body) else ()

    def _may_ask(self, function: FunctionNode) -> bool:
        """Whether *function* has anything of the context: a name for it, or a call of something that is awaited."""
        is_async = isinstance(function, ast.AsyncFunctionDef)
        return is_async or any(isinstance(node, ast.Call) for node in ast.walk(function))

    def start(self, task: Arm) -> None:
        """A task of the innermost block is started."""
        if self._tasks:
            self._tasks[-1].append(task)

    def unfollowed(self, node: ast.expr, source: Source) -> None:
        """Note that the source does not tell what *node* does."""
        self._unfollowed[f"{source.path}:{node.lineno}: {shown(node)}"] = None

    # -- statements ------------------------------------------------------------------------------------------------------

    def _block(self, statements: Iterable[ast.stmt], source: Source) -> Block:
        return tuple(item for statement in statements for item in self._statement(statement, source))

    def _statement(self, node: ast.stmt, source: Source) -> Iterator[Item]:  # a row for each kind
        match node:
            case ast.If():
                yield from self._if(node, source)
            case ast.While() | ast.For() | ast.AsyncFor():
                yield from self._loop(node, source)
            case ast.Try() | ast.TryStar():
                yield from self._try(node, source)
            case ast.With() | ast.AsyncWith():
                yield from self._with(node, source)
            case ast.Match():
                yield from self._match(node, source)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                yield from self._leave(node, source)
            case ast.Assign(targets=targets, value=value):
                yield from self._all([value, *targets], source)
            case _ if not isinstance(node, _NOT_RUN):
                yield from self._asked(node, source)

    def _leave(self, node: ast.Return | ast.Raise | ast.Break | ast.Continue, source: Source) -> Iterator[Item]:
        value = node.value if isinstance(node, ast.Return) else node.exc if isinstance(node, ast.Raise) else None
        before = self._asked(value, source)
        yield from before
        if before and isinstance(before[-1], Leave):  # it rolls over, and never comes back
            return
        text = "" if value is None or does_something(before) else shown(value)
        yield Leave(self.key(), _LEAVES[type(node)], text, self._at(node, source))

    @staticmethod
    def _at(node: ast.stmt | ast.expr, source: Source) -> Place:
        return Place(source.path, node.lineno)

    def _if(self, node: ast.If, source: Source) -> Iterator[Item]:
        key, tests, arms = self.key(), list[Item](), list[Arm]()
        now, texts = node, list[str]()
        while True:
            tests += self._asked(now.test, source)
            texts.append(shown(now.test))
            arms.append(Arm(texts[-1], self._block(now.body, source)))
            if len(now.orelse) != 1 or not isinstance(now.orelse[0], ast.If):
                break
            now = now.orelse[0]
        arms.append(Arm("else", self._block(now.orelse, source)))
        yield from tests
        if any(matters(arm.body) for arm in arms):
            if len(texts) == 1:
                arms = [arms[0]._replace(label="yes"), arms[1]._replace(label="no")]
            yield Choice(key, texts[0] if len(texts) == 1 else "", tuple(arms), self._at(node, source))

    def _match(self, node: ast.Match, source: Source) -> Iterator[Item]:
        yield from self._asked(node.subject, source)
        arms = [Arm(shown(case.pattern), self._block(case.body, source)) for case in node.cases]
        if not isinstance(node.cases[-1].pattern, ast.MatchAs) or node.cases[-1].guard is not None:
            arms.append(Arm("else", ()))
        if any(matters(arm.body) for arm in arms):
            yield Choice(self.key(), shown(node.subject), tuple(arms), self._at(node, source))

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor, source: Source) -> Iterator[Item]:
        key = self.key()
        endless = False
        if isinstance(node, ast.While):
            endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            text = "for ever" if endless else f"while {shown(node.test)}"
            head = self._asked(node.test, source)
        else:
            yield from self._asked(node.iter, source)
            text, head = f"for {shown(node.target)} in {shown(node.iter)}", ()
        body = (*head, *self._block(node.body, source))
        if matters(body):
            yield Loop(key, text, body, self._at(node, source), endless)
        yield from self._block(node.orelse, source)

    def _try(self, node: ast.Try | ast.TryStar, source: Source) -> Iterator[Item]:
        key = self.key()
        body = (*self._block(node.body, source), *self._block(node.orelse, source))
        handlers = tuple(
            Arm(shown(each.type) if each.type is not None else "anything", self._block(each.body, source))
            for each in node.handlers
        )
        final = self._block(node.finalbody, source)
        if does_something(body) or does_something(final):
            yield Guarded(key, body, handlers, final, self._at(node, source))
        else:
            yield from body
            yield from final

    def _with(self, node: ast.With | ast.AsyncWith, source: Source) -> Iterator[Item]:
        """Yield the innermost block round its body first: the others hold what it holds."""
        yield from self._entered(node.items, node, source)

    def _entered(self, items: list[ast.withitem], node: ast.With | ast.AsyncWith, source: Source) -> Block:
        if not items:
            return self._block(node.body, source)
        entered = items[0].context_expr
        meaning, key, place = self.meanings.of(entered, source), self.key(), self._at(node, source)
        if meaning.kind == "block" and isinstance(entered, ast.Call):
            return (self._scope(entered, key, self._tasks_of(items, node, source), source),)
        asked = self._asked(entered, source)
        inner = self._entered(items[1:], node, source)
        kind = "saga" if meaning.kind == "saga" else "shield" if self._is_shield(entered, source) else None
        if kind is None or not does_something(inner):
            return (*asked, *inner)
        return (*asked, Group(key, "saga" if kind == "saga" else "shield", kind, inner, place))

    def _is_shield(self, node: ast.expr, source: Source) -> bool:
        callee = self.meanings.of(node.func, source) if isinstance(node, ast.Call) else None
        return callee is not None and (callee.kind, callee.name) == ("verb", "shield")

    def _tasks_of(self, items: list[ast.withitem], node: ast.With | ast.AsyncWith, source: Source) -> tuple[Arm, ...]:
        self._tasks.append([])
        body = self._entered(items[1:], node, source)
        return (Arm("body", body), *self._tasks.pop())

    def _scope(self, call: ast.Call, key: str, arms: tuple[Arm, ...], source: Source) -> Fork:
        named, timeout = keyword(call, "name"), keyword(call, "timeout")
        name = "scope" if named is None else self._words.text(named, source)
        notes = (f"at most {self._words.span(timeout, source)}",) if timeout is not None else ()
        kept = tuple(arm for arm in arms if arm.label != "body" or matters(arm.body))
        return Fork(key, "scope", name, kept, self._at(call, source), notes)

    # -- expressions -----------------------------------------------------------------------------------------------------

    def _asked(self, node: ast.AST | None, source: Source) -> Block:
        """Return what evaluating *node* asks, in the order in which it does."""
        if node is None or isinstance(node, FUNCTIONS):
            return ()
        if isinstance(node, COMPREHENSIONS):
            return self._comprehension(node, source)
        match node:
            case ast.Call():
                parts: list[ast.AST] = [node.func, *node.args, *(each.value for each in node.keywords)]
                return (*self._all(parts, source), *self._calls.read(node, source))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                arms = (Arm("yes", self._asked(body, source)), Arm("no", self._asked(orelse, source)))
                return (*self._asked(test, source), *self._either(shown(test), arms, node, source))
            case ast.BoolOp(values=[first, *rest]):
                more = Arm("goes on", self._all(rest, source))
                return (*self._asked(first, source), *self._either(shown(first), (more, Arm("else", ())), node, source))
            case _:
                return self._all(ast.iter_child_nodes(node), source)

    def _all(self, nodes: Iterable[ast.AST], source: Source) -> Block:
        return tuple(item for node in nodes for item in self._asked(node, source))

    def _either(self, text: str, arms: tuple[Arm, Arm], node: ast.expr, source: Source) -> Block:
        if not any(matters(arm.body) for arm in arms):
            return ()
        return (Choice(self.key(), text, arms, self._at(node, source)),)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, source: Source
    ) -> Block:
        first, *more = node.generators
        parts: list[ast.AST] = [*first.ifs, *(part for each in more for part in (each.iter, *each.ifs))]
        parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        body = self._all(parts, source)
        before = self._asked(first.iter, source)
        if not matters(body):
            return before
        text = f"for {shown(first.target)} in {shown(first.iter)}"
        return (*before, Loop(self.key(), text, body, self._at(node, source)))


def _has_again(body: Block) -> bool:
    return any(isinstance(item, Group) and not item.body for item in body)
