"""What an expression stands for, as far as the source tells: a thing of a library, a step, a set, the context ...

Where it does not tell, the answer is `UNKNOWN`, and no rule says anything: a checker that cries wolf is switched off.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.devtools.checking.hazards import names
from loom.devtools.checking.source import COMPREHENSIONS, FUNCTIONS, Binding, Project, Source
from loom.fingerprint.normal_form import FunctionNode

Kind: TypeAlias = Literal[
    "unknown",
    "outside",  # a thing of a library, by its full name; what comes of calling it has () in its name
    "module",
    "function",
    "class",
    "object",  # of a class of the project
    "coroutine",  # of an async function of the project
    "step",
    "flow",
    "context",
    "verb",  # a method of the context, by its name
    "syscall",  # what calling a verb that has to be awaited returns
    "block",  # of ctx.scope
    "saga",
    "set",
    "keys",  # of a dict: ordered, but a set once it is combined
]


class Meaning(NamedTuple):
    """What an expression stands for: its *kind*, a *name* in full, or the *node* of *source* that defines it."""

    kind: Kind
    name: str = ""
    node: Any = None
    source: Any = None


DEPTH_MAX: Final = 60
"""How far an expression is followed through what it is made of."""

UNKNOWN: Final = Meaning("unknown")
SET: Final = Meaning("set")
CONTEXT: Final = Meaning("context")

VERBS: Final = names(
    "run execute map parallel select first any suspend receive sleep sleep_until continue_as_new decide emit stream"
)
"""The methods of a context that return something to await."""
BRANCHING: Final = names("map parallel select first any")
"""Those that call functions of the flow in branches."""
AWAITED_OF_LOOM: Final = names("spawn await_child await_children await_all", "loom.")
_SETS: Final = frozenset(
    {
        "builtins.set",
        "builtins.frozenset",
        "typing.Set",
        "typing.FrozenSet",
        "typing.AbstractSet",
        "typing.MutableSet",
        "collections.abc.Set",
        "collections.abc.MutableSet",
    }
)
_SET_METHODS: Final = names("union intersection difference symmetric_difference copy")
_CONTEXTS: Final = frozenset({"loom.Context", "loom.kernel.context.Context"})
_STEPS: Final = frozenset({"loom.step", "loom.tool", "loom.core.step.step", "loom.core.step.tool"})
_FLOWS: Final = frozenset({"loom.flow", "loom.core.flow.flow"})
_PROPERTIES: Final = frozenset({"property", "cached_property"})
_TRANSPARENT: Final = frozenset({"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired"})


class Meanings:
    """Tells what expressions stand for, and remembers it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.given: dict[ast.arg, Meaning] = {}
        """What parameters were given where the function was called."""
        self._known: dict[tuple[ast.AST, str], Meaning] = {}
        self._brought: dict[tuple[str, str], Meaning] = {}
        self._asked: set[ast.arg] = set()
        self._depth = 0

    def give(self, parameter: ast.arg, meaning: Meaning) -> bool:
        """Note what *parameter* is given, and return whether something was told without it."""
        before = self.given.get(parameter, UNKNOWN)
        if before != UNKNOWN or meaning == UNKNOWN:
            return False
        self.given[parameter] = meaning
        if parameter in self._asked:
            self._known.clear()
        return parameter in self._asked

    def of(self, node: ast.AST | None, source: Source) -> Meaning:
        """Return what *node*, an expression of *source*, stands for."""
        if node is None:
            return UNKNOWN
        key = (node, source.path)
        known = self._known.get(key)
        if known is None and self._depth < DEPTH_MAX:
            self._known[key] = UNKNOWN  # what is asked on the way back to itself cannot be told
            self._depth += 1
            known = self._of(node, source)
            self._depth -= 1
            self._known[key] = known
        return known or UNKNOWN

    def _of(self, node: ast.AST, source: Source) -> Meaning:
        match node:
            case ast.Name(id=name):
                return self.named(name, node, source)
            case ast.Attribute(value=value, attr=name):
                return self._attribute(self.of(value, source), name)
            case ast.Call():
                return self._called(node, source)
            case ast.Await(value=value):
                return self._awaited(value, source)
            case _:
                return self._made(node, source)

    def _made(self, node: ast.AST, source: Source) -> Meaning:  # noqa: PLR0911  # a row for each kind
        match node:
            case ast.Set() | ast.SetComp():
                return SET
            case ast.Lambda():
                return Meaning("function", "lambda", node, source)
            case ast.BinOp():
                return self._combined(node, source)
            case ast.IfExp(body=one, orelse=other):
                return _either([self.of(one, source), self.of(other, source)])
            case ast.BoolOp(values=values):
                return _either([self.of(each, source) for each in values])
            case ast.NamedExpr(value=value):
                return self.of(value, source)
            case ast.AnnAssign(value=value, annotation=annotation):
                return _either([self.annotated(annotation, source), self.of(value, source)])
            case _:
                return UNKNOWN

    # -- names -----------------------------------------------------------------------------------------------------------

    def named(self, name: str, at: ast.AST, source: Source) -> Meaning:
        """Return what *name* stands for, where it is used at *at*."""
        if is_bound_by_comprehension(name, at, source):
            return UNKNOWN
        scope, bindings = find_name(name, at, source)
        if scope is None:
            return Meaning("outside", f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN
        return _either([self._bound(name, each, source) for each in bindings])

    def _bound(self, name: str, binding: Binding, source: Source) -> Meaning:  # noqa: PLR0911  # a row for each kind
        match binding.how, binding.node:
            case "import", _:
                return self._imported(source.imports.get(name, ""), source)
            case "value", value:
                return self.of(value, source)
            case "entered", value:
                return self.of(value, source)
            case "parameter", ast.arg() as parameter:
                return self.parameter(parameter, source)
            case "class", node:
                return Meaning("class", name, node, source)
            case "function", ast.FunctionDef() | ast.AsyncFunctionDef() as function:
                return self.function(function, source)
            case _:
                return UNKNOWN

    def function(self, node: FunctionNode, source: Source) -> Meaning:
        """Return what a definition makes of *node*: a step, a flow, or a function."""
        for decorator in getattr(node, "decorator_list", ()):
            made = self._declared_by(decorator, source)
            if made is not None:
                return Meaning(made, getattr(node, "name", ""), node, source)
        return Meaning("function", getattr(node, "name", "lambda"), node, source)

    def _declared_by(self, decorator: ast.expr, source: Source) -> Literal["step", "flow"] | None:
        full = self.of(decorator.func if isinstance(decorator, ast.Call) else decorator, source).name
        return "step" if full in _STEPS else "flow" if full in _FLOWS else None

    def parameter(self, parameter: ast.arg, source: Source) -> Meaning:
        """Return what *parameter* is, by what it was given, its annotation, or its place."""
        self._asked.add(parameter)
        if parameter in self.given:
            return self.given[parameter]
        if parameter.annotation is not None:
            return self.annotated(parameter.annotation, source)
        function = next(each for each in source.above(parameter) if isinstance(each, FUNCTIONS))
        arguments = [*function.args.posonlyargs, *function.args.args]
        is_first = bool(arguments) and arguments[0] is parameter
        owner = next(source.above(function), None)
        if is_first and isinstance(owner, ast.ClassDef):
            kind: Kind = "class" if "classmethod" in decorator_names(function) else "object"
            return Meaning(kind, owner.name, owner, source)
        if parameter.arg == "ctx" or (is_first and self._is_flow(function, source)):
            return CONTEXT
        return self.of(defaults_of(function).get(parameter), source)

    def _is_flow(self, function: FunctionNode, source: Source) -> bool:
        return any(self._declared_by(each, source) == "flow" for each in getattr(function, "decorator_list", ()))

    def _imported(self, full: str, source: Source) -> Meaning:
        """Return what an import of *full* in *source* brings: of the project as far as it can be read."""
        key = (full, source.path)
        if key not in self._brought:
            self._brought[key] = UNKNOWN  # modules may import each other
            self._brought[key] = self._looked_up(full, source)
        return self._brought[key]

    def _looked_up(self, full: str, source: Source) -> Meaning:
        parts = full.split(".")
        for count in range(len(parts), 0, -1):
            module = self.project.module(".".join(parts[:count]), source)
            if module is not None:
                meaning = Meaning("module", module.name, module.tree, module)
                for name in parts[count:]:
                    meaning = self._attribute(meaning, name)
                return meaning
        return Meaning("outside", full) if full else UNKNOWN

    # -- attributes and calls ----------------------------------------------------------------------------------------------

    def _attribute(self, owner: Meaning, name: str) -> Meaning:  # noqa: PLR0911  # a row for each kind
        match owner.kind:
            case "outside":
                return Meaning("outside", f"{owner.name}.{name}")
            case "module":
                return self._of_module(owner.source, name)
            case "context":
                return Meaning("verb", name)
            case "step":
                return Meaning("outside", f"loom.Step().{name}", owner.node, owner.source)
            case "set":
                return Meaning("outside", f"builtins.set().{name}")
            case "saga" | "block":
                return Meaning("outside", f"loom.{owner.kind}().{name}")
            case "object" | "class":
                return self._of_class(owner, name)
            case _:
                return Meaning("outside", f"?.{name}") if name in {"keys", "items"} else UNKNOWN

    def _of_module(self, module: Source, name: str) -> Meaning:
        bindings = module.bindings(module.tree).get(name)
        if bindings:
            return _either([self._bound(name, bindings[-1], module)])
        inner = self.project.module(f"{module.name}.{name}", module)
        return Meaning("module", inner.name, inner.tree, inner) if inner else UNKNOWN

    def _of_class(self, owner: Meaning, name: str) -> Meaning:
        for node, source in self.classes(owner):
            bindings = source.bindings(node).get(name)
            if bindings:
                return self._member(bindings[-1], name, source)
            values = [self.of(value, source) for value in _assigned_to_self(node, name)]
            if values:
                return _either(values)
        return UNKNOWN

    def _member(self, binding: Binding, name: str, source: Source) -> Meaning:
        if isinstance(binding.node, ast.FunctionDef) and decorator_names(binding.node) & _PROPERTIES:
            return self._returned(binding.node, source)
        if isinstance(binding.node, ast.AnnAssign):
            return self.annotated(binding.node.annotation, source)
        return self._bound(name, binding, source)

    def classes(self, owner: Meaning, depth: int = 8) -> Iterator[tuple[ast.ClassDef, Source]]:
        """Yield the class of *owner*, and those of the project that it inherits from."""
        yield owner.node, owner.source
        for base in owner.node.bases if depth else ():
            meaning = self.of(base, owner.source)
            if meaning.kind == "class":
                yield from self.classes(meaning, depth - 1)

    def _called(self, call: ast.Call, source: Source) -> Meaning:  # noqa: PLR0911  # a row for each kind
        callee = self.of(call.func, source)
        match callee.kind:
            case "outside":
                return self._of_library(callee, call, source)
            case "verb":
                return _of_verb(callee.name)
            case "class":
                return Meaning("object", callee.name, callee.node, callee.source)
            case "function" if isinstance(callee.node, ast.AsyncFunctionDef):
                return Meaning("coroutine", callee.name, callee.node, callee.source)
            case "flow":
                return Meaning("coroutine", callee.name, callee.node, callee.source)
            case "function":
                return self._returned(callee.node, callee.source)
            case _:
                return UNKNOWN

    def _of_library(self, callee: Meaning, call: ast.Call, source: Source) -> Meaning:  # noqa: PLR0911  # a row for each kind
        name = callee.name
        if name in _SETS or (name.startswith("builtins.set().") and name.rpartition(".")[2] in _SET_METHODS):
            return SET
        if name == "loom.saga":
            return Meaning("saga")
        if name in AWAITED_OF_LOOM:
            return Meaning("syscall", name)
        if name.startswith("loom.saga().run"):
            return Meaning("syscall", "saga.run")
        if name.startswith("loom.Step()."):
            return Meaning("step", node=callee.node, source=callee.source)
        decorator = name.removesuffix("()")
        if decorator in _STEPS | _FLOWS and call.args:
            made = self.of(call.args[0], source)
            return made._replace(kind="step" if decorator in _STEPS else "flow") if made.kind == "function" else made
        return Meaning("keys") if name == "?.keys" else Meaning("outside", f"{name}()")

    def _returned(self, function: FunctionNode, source: Source) -> Meaning:
        """Return what calling a plain function comes to: by its annotation, else by what it returns."""
        if isinstance(function, ast.Lambda):
            return self.of(function.body, source)
        told = self.annotated(function.returns, source) if function.returns else UNKNOWN
        if told != UNKNOWN:
            return told
        values = [each.value for each in inside(function) if isinstance(each, ast.Return)]
        return _either([self.of(value, source) for value in values])

    def _awaited(self, value: ast.expr, source: Source) -> Meaning:
        meaning = self.of(value, source)
        if meaning.kind == "coroutine" and meaning.node.returns:
            return self.annotated(meaning.node.returns, meaning.source)
        if meaning == Meaning("syscall", "run") and isinstance(value, ast.Call) and value.args:
            step = self.of(value.args[0], source)
            if step.kind == "step" and getattr(step.node, "returns", None):
                return self.annotated(step.node.returns, step.source)
        if meaning.kind == "syscall" and isinstance(value, ast.Call):
            expected = next((each.value for each in value.keywords if each.arg == "expects"), None)
            return self.annotated(expected, source)
        return Meaning("outside", meaning.name) if meaning.kind == "outside" else UNKNOWN

    def _combined(self, node: ast.BinOp, source: Source) -> Meaning:
        left, right = self.of(node.left, source), self.of(node.right, source)
        if isinstance(node.op, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub):
            is_set = "set" in {left.kind, right.kind} or "keys" in {left.kind, right.kind}
            return SET if is_set else UNKNOWN
        return left if isinstance(node.op, ast.Div) and left.name.startswith("pathlib.") else UNKNOWN

    # -- annotations -------------------------------------------------------------------------------------------------------

    def annotated(self, node: ast.AST | None, source: Source) -> Meaning:
        """Return what a value with the annotation *node* is."""
        match node:
            case ast.Constant(value=str(text)):
                return self._quoted(text, node, source)
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner) if name in _TRANSPARENT:
                return self.annotated(inner.elts[0] if isinstance(inner, ast.Tuple) else inner, source)
            case ast.Subscript(value=value):
                return self.annotated(value, source)
            case ast.BinOp(left=left, right=right, op=ast.BitOr()):
                return _either([self.annotated(left, source), self.annotated(right, source)])
            case ast.Name() | ast.Attribute():
                return self._instance(self.of(node, source))
            case _:
                return UNKNOWN

    def _quoted(self, text: str, at: ast.AST, source: Source) -> Meaning:
        try:
            expression = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return UNKNOWN
        for node in ast.walk(expression):
            source.parents[node] = at
        return self.annotated(expression, source)

    @staticmethod
    def _instance(meaning: Meaning) -> Meaning:
        if meaning.kind == "class":
            return meaning._replace(kind="object")
        if meaning.kind != "outside":
            return UNKNOWN
        if meaning.name in _SETS:
            return SET
        if meaning.name in _CONTEXTS:
            return CONTEXT
        plain = meaning.name.startswith(("builtins.", "typing.", "collections.", "loom."))
        return UNKNOWN if plain else Meaning("outside", f"{meaning.name}()")


def _of_verb(name: str) -> Meaning:
    if name == "scope":
        return Meaning("block")
    return Meaning("syscall", name) if name in VERBS else UNKNOWN


def _either(meanings: list[Meaning]) -> Meaning:
    """Return the one of *meanings* that matters: a set before all else, then the first that can be told."""
    if SET in meanings:
        return SET
    return next((each for each in reversed(meanings) if each != UNKNOWN), UNKNOWN)


def find_name(name: str, at: ast.AST, source: Source) -> tuple[ast.AST | None, list[Binding]]:
    """Return the scope that binds *name* as *at* sees it, and those of its bindings that can be in force there."""
    scope: ast.AST = source.scope_of(at)
    is_own = True
    while True:
        bindings = source.bindings(scope).get(name)
        if bindings:
            return scope, _in_force(bindings, at, source) if is_own else bindings
        if isinstance(scope, ast.Module):
            return None, []
        scope, is_own = source.scope_of(scope), False


def _in_force(bindings: list[Binding], at: ast.AST, source: Source) -> list[Binding]:
    """Return the bindings before *at*, back to the last that every way there passes; all where none is before it."""
    place = (getattr(at, "lineno", 0), getattr(at, "col_offset", 0))
    blocks = {(parent, field) for parent, field in _blocks_round(at, source)}
    found: list[Binding] = []
    for each in reversed(bindings):
        if each.at <= place:
            found.append(each)
            if all(block in blocks for block in each.block):
                break
    return found[::-1] or bindings


def _blocks_round(node: ast.AST, source: Source) -> Iterator[tuple[ast.AST, str]]:
    below = node
    for each in source.above(node):
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(each, field, None)
            if isinstance(inner, list) and below in inner:
                yield each, field
        below = each


def is_bound_by_comprehension(name: str, at: ast.AST, source: Source) -> bool:
    """Return whether *name* is a variable of a comprehension round *at*."""
    for each in source.above(at):
        if isinstance(each, COMPREHENSIONS):
            targets = (node for part in each.generators for node in ast.walk(part.target))
            if any(isinstance(node, ast.Name) and node.id == name for node in targets):
                return True
        elif isinstance(each, ast.stmt):
            return False
    return False


def inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when *function* is called: not what functions and classes inside it do, nor annotations."""
    body = getattr(function, "body", [])
    pending: list[ast.AST] = list(reversed(body)) if isinstance(body, list) else [body]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        pending += reversed(list(_evaluated(node)))


def _evaluated(node: ast.AST) -> Iterable[ast.AST]:
    if isinstance(node, ast.AnnAssign):
        return [node.target, *([node.value] if node.value else [])]
    return ast.iter_child_nodes(node)


def decorator_names(node: ast.AST) -> set[str]:
    """Return the last names of the decorators of *node*."""
    decorators = getattr(node, "decorator_list", ())
    return {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in decorators}


def defaults_of(function: FunctionNode) -> dict[ast.arg, ast.expr]:
    """Return the default value of each parameter of *function* that has one."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {parameter: default for parameter, default in named if default is not None}


def _assigned_to_self(node: ast.ClassDef, name: str) -> Iterator[ast.AST]:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for each in inside(method):
            if isinstance(each, ast.Assign):
                for target in each.targets:
                    yield from _to_attribute(target, each.value, name)
            elif isinstance(each, ast.AnnAssign):
                yield from _to_attribute(each.target, each, name)


def _to_attribute(target: ast.expr, value: ast.AST, name: str) -> Iterator[ast.AST]:
    match target:
        case ast.Attribute(value=ast.Name(), attr=attr) if attr == name:
            yield value
        case ast.Tuple(elts=targets) if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
            for one, given in zip(targets, value.elts, strict=True):
                yield from _to_attribute(one, given, name)
