"""Rules on what a flow asks the world: clocks, chance, the environment, files, networks, processes, threads, output."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from loom.devtools.checking.hazards import Hazard, hazard_of_call, hazard_of_name
from loom.devtools.checking.meaning import Meanings, find_name
from loom.devtools.checking.source import FUNCTIONS, Source
from loom.devtools.checking.walk import Here, shown

_SAID: Final = {
    "clock": "reads a clock, which says something else at every replay",
    "random": "draws by chance, anew at every replay",
    "environment": "asks the surroundings, which differ from machine to machine and from day to day",
    "identity": "is another number in every process",
    "io": "touches the disk or the terminal, again at every replay",
    "network": "reaches a network, again at every replay",
    "process": "starts or signals a process, again at every replay",
    "threads": "does work in a thread or process that Loom knows nothing of",
    "sleep": "sleeps without a record, again at every replay",
    "bare-concurrency": "waits in a way that is not recorded",
    "log": "writes its output again at every replay",
}
_CALLED_BACK: Final = frozenset({"clock", "random", "identity", "io"})
_GENERATORS: Final = ("random.Random().", "numpy.random.default_rng().", "numpy.random.RandomState().")
_AT_IMPORT: Final = frozenset({"clock", "random", "environment", "identity", "io", "process"})
_CHANGES: Final = {
    "time.time": "{ctx}.now().timestamp()",
    "datetime.datetime.now": "{ctx}.now()",
    "datetime.datetime.utcnow": "{ctx}.now()",
    "datetime.datetime.today": "{ctx}.now()",
    "datetime.date.today": "{ctx}.now().date()",
    "random.random": "{ctx}.random()",
    "uuid.uuid4": "{ctx}.uuid()",
    "uuid.uuid1": "{ctx}.uuid()",
    "random.Random": "random.Random({ctx}.random())",
    "asyncio.sleep": "{ctx}.sleep({arguments})",
    "time.sleep": "await {ctx}.sleep({arguments})",
    "builtins.print": "{ctx}.log.info({arguments})",
}


def calls_outside(here: Here, call: ast.Call) -> None:
    """A call of a library that does what a flow must not, and such a function that is handed on to be called."""
    found = _hazard(here, call.func, len(call.args) + len(call.keywords)) or _shared_generator(here, call)
    if found is not None and not _is_own_hash(here, found) and not _only_yields(call, found):
        here.report(found.rule, call, f"`{shown(call)}` {_SAID[found.rule]}", _change(here, call, found))
    for argument in (*call.args, *(each.value for each in call.keywords)):
        if argument in here.skipped or not isinstance(argument, ast.Name | ast.Attribute):
            continue
        handed = _hazard(here, argument, 0)
        if handed is not None and "()" not in handed.name and handed.rule in _CALLED_BACK:
            here.report(handed.rule, argument, f"`{shown(argument)}`, handed on to be called, {_SAID[handed.rule]}")


def _hazard(here: Here, callee: ast.AST, arguments: int) -> Hazard | None:
    meaning = here.of(callee)
    return hazard_of_call(meaning.name, arguments) if meaning.kind == "outside" else None


def _shared_generator(here: Here, call: ast.Call) -> Hazard | None:
    """A draw from a generator that the module keeps: which number comes next depends on what ran before."""
    if not isinstance(call.func, ast.Attribute) or not here.of(call.func).name.startswith(_GENERATORS):
        return None
    return Hazard("random", "") if module_variable(here, call.func.value)[1] is not None else None


def _is_own_hash(here: Here, found: Hazard) -> bool:
    return found.name == "builtins.hash" and getattr(here.visit.function, "name", "") == "__hash__"


def _only_yields(call: ast.Call, found: Hazard) -> bool:
    """Whether it is `asyncio.sleep(0)`: a turn of the loop, which the delivery of outcomes reckons with."""
    match call.args:
        case [ast.Constant(value=0)]:
            return found.name == "asyncio.sleep"
    return False


def _change(here: Here, call: ast.Call, found: Hazard) -> str | None:
    arguments = ", ".join(map(ast.unparse, call.args))
    if found.name.startswith("logging."):
        rest = ", ".join([*map(ast.unparse, call.args), *(ast.unparse(each) for each in call.keywords)])
        return f"{here.context}.log.{found.name.rpartition('.')[2]}({rest})"
    change = _CHANGES.get(found.name)
    return change and change.format(ctx=here.context, arguments=arguments)


def names_outside(here: Here, node: ast.Name | ast.Attribute) -> None:
    """The environment by its name; and a value of a module that the world gave when it was imported."""
    if not isinstance(node.ctx, ast.Load):
        return
    meaning = here.of(node)
    found = hazard_of_name(meaning.name) if meaning.kind == "outside" else None
    if found is not None:
        here.report(found.rule, node, f"`{shown(node)}` {_SAID[found.rule]}")
    for hazard in _given_at_import(here, node):
        message = (
            f"`{shown(node)}` is what `{hazard.name}` gave when its module was imported: another process has another"
        )
        here.report("import-time", node, message)
        break


def _given_at_import(here: Here, node: ast.Name | ast.Attribute) -> Iterator[Hazard]:
    for value, source in module_values(here, node):
        yield from hazards_in(value, source, here.meanings)


def module_values(here: Here, node: ast.Name | ast.Attribute) -> Iterator[tuple[ast.AST, Source]]:
    """Yield what the module assigns to the variable of its own, or of another module, that *node* names."""
    name, source = module_variable(here, node)
    if source is not None:
        for binding in source.bindings(source.tree).get(name, ()):
            if binding.how == "value":
                yield binding.node, source


def module_variable(here: Here, node: ast.AST) -> tuple[str, Source | None]:
    """Return the name and the module of the variable at the top of a module that *node* names, if it names one."""
    match node:
        case ast.Attribute(value=value, attr=name):
            owner = here.of(value)
            return (name, owner.source) if owner.kind == "module" else ("", None)
        case ast.Name(id=name):
            scope, bindings = find_name(name, node, here.source)
            if not isinstance(scope, ast.Module):
                return "", None
            if all(each.how == "import" for each in bindings):
                return _imported_variable(here, name)
            return name, here.source
    return "", None


def _imported_variable(here: Here, name: str) -> tuple[str, Source | None]:
    module, _, inner = here.source.imports.get(name, "").rpartition(".")
    found = here.meanings.project.module(module, here.source) if module else None
    return (inner, found) if found is not None and inner in found.bindings(found.tree) else ("", None)


def hazards_in(value: ast.AST, source: Source, meanings: Meanings) -> Iterator[Hazard]:
    """Yield what evaluating *value*, at the top of a module, asks of the world."""
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, FUNCTIONS):
            continue
        pending += ast.iter_child_nodes(node)
        found = None
        if isinstance(node, ast.Call):
            meaning = meanings.of(node.func, source)
            found = (
                hazard_of_call(meaning.name, len(node.args) + len(node.keywords)) if meaning.kind == "outside" else None
            )
        elif isinstance(node, ast.Name | ast.Attribute):
            meaning = meanings.of(node, source)
            found = hazard_of_name(meaning.name) if meaning.kind == "outside" else None
        if found is not None and found.rule in _AT_IMPORT:
            yield found


def makes_defaults(here: Here, call: ast.Call) -> None:
    """A class of the project whose fields are made, when it is called, by something that a flow must not ask."""
    meaning = here.of(call.func)
    if meaning.kind != "class":
        return
    given = {each.arg for each in call.keywords}
    for cls, source in here.meanings.classes(meaning):
        for statement in cls.body:
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) not in given:
                _makes_default(here, call, statement, source)


def _makes_default(here: Here, call: ast.Call, field: ast.AnnAssign, source: Source) -> None:
    if not isinstance(field.value, ast.Call):
        return
    factory = next((each.value for each in field.value.keywords if each.arg == "default_factory"), None)
    if factory is None:
        return
    meaning = here.meanings.of(factory, source)
    if meaning.kind == "function":
        here.reach(meaning.node, meaning.source)
    found = hazard_of_call(meaning.name) if meaning.kind == "outside" else None
    if found is not None:
        name = ast.unparse(field.target)
        here.report(
            found.rule, call, f"`{shown(call)}` makes its `{name}` by `{found.name}`, which {_SAID[found.rule]}"
        )
