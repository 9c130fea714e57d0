"""Rules on what a flow keeps outside itself: globals, attributes of modules and classes, defaults that grow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from loom.devtools.checking.hazards import names
from loom.devtools.checking.meaning import defaults_of, find_name, inside
from loom.devtools.checking.outside import hazards_in, module_variable
from loom.devtools.checking.source import Source
from loom.devtools.checking.walk import Here, shown
from loom.fingerprint.normal_form import FunctionNode

_MUTATORS: Final = names(
    "append extend insert add update setdefault pop popitem remove discard clear appendleft popleft extendleft rotate "
    "sort reverse put put_nowait move_to_end subtract"
)
_SAID: Final = "a replay changes it again, and other runs see it"


def assigns(here: Here, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> None:
    """An assignment to a global, or to a part of something that a module or a class keeps."""
    for target in _targets(node):
        if isinstance(target, ast.Name):
            if _is_global(here, target):
                here.variables.changed_by_flows.add((here.source.path, target.id))
                here.report("global-mutation", node, f"`{shown(node)}` changes a global: {_SAID}")
        elif _is_kept_outside(here, target.value):
            here.report("global-mutation", node, f"`{shown(node)}` changes what outlives the run: {_SAID}")


def _targets(node: ast.AST) -> Iterator[ast.Name | ast.Attribute | ast.Subscript]:
    pending: list[ast.expr] = list(getattr(node, "targets", None) or [node.target])  # type: ignore[attr-defined]  # one of them
    while pending:
        target = pending.pop()
        if isinstance(target, ast.Tuple | ast.List):
            pending += target.elts
        elif isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
            yield target


def _is_global(here: Here, target: ast.Name) -> bool:
    if target.id in here.source.bindings(here.visit.function):
        return False
    declared = (each for each in inside(here.visit.function) if isinstance(each, ast.Global))
    return any(target.id in each.names for each in declared)


def _is_kept_outside(here: Here, owner: ast.expr, *, values_only: bool = False) -> bool:
    """Whether *owner* is a module, a class, or a variable of a module; or, with *values_only*, the last."""
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    if not values_only and isinstance(owner, ast.Name | ast.Attribute):
        meaning = here.of(owner)
        if meaning.kind in {"module", "class"}:
            return True
        if (
            meaning.kind == "outside"
            and "()" not in meaning.name
            and not meaning.name.startswith(("builtins.", "loom.", "?."))
        ):
            return meaning.name != "os.environ"
    name, module = module_variable(here, owner)
    if module is not None:
        here.variables.changed_by_flows.add((module.path, name))
        return any(each.how == "value" for each in module.bindings(module.tree).get(name, ()))
    return isinstance(owner, ast.Attribute) and _is_kept_outside(here, owner.value, values_only=True)


def mutates(here: Here, call: ast.Call) -> None:
    """`CACHE.append(...)`, `next(NUMBERS)`."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _MUTATORS:
            if here.of(owner).kind not in {"step", "flow"} and _is_kept_outside(here, owner, values_only=True):
                here.report("global-mutation", call, f"`{shown(call)}` changes what outlives the run: {_SAID}")
        case ast.Call(func=ast.Name(id="next"), args=[owner, *_]):
            if _is_kept_outside(here, owner, values_only=True):
                here.report("global-mutation", call, f"`{shown(call)}` moves what outlives the run: {_SAID}")


def reads_shared(here: Here, node: ast.Name | ast.Attribute) -> None:
    """A variable of a module that functions change."""
    if not isinstance(node.ctx, ast.Load):
        return
    name, module = module_variable(here, node)
    if module is not None and name in _changed_names(module, here):
        told = f"`{shown(node)}` is changed by other code, so it depends on what ran before"
        found = here.report("shared-state", node, told)
        here.variables.read[found.key] = (module.path, name)


def _changed_names(module: Source, here: Here) -> frozenset[str]:
    known = here.variables.changed.get(module.path)
    if known is None:
        known = here.variables.changed[module.path] = frozenset(_changed_in(module))
    return known


def _changed_in(module: Source) -> Iterator[str]:
    values = {name for name, each in module.bindings(module.tree).items() if any(b.how == "value" for b in each)}
    for node in ast.walk(module.tree):
        match node:
            case ast.Global(names=names):
                yield from values.intersection(names)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _MUTATORS:
                if name in values and _is_in_function(name, node, module):
                    yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                if name in values and _is_in_function(name, node, module):
                    yield name


def _is_in_function(name: str, node: ast.AST, module: Source) -> bool:
    return not isinstance(module.scope_of(node), ast.Module) and isinstance(
        find_name(name, node, module)[0], ast.Module
    )


def growing_defaults(here: Here, function: FunctionNode) -> None:
    """`def f(found=[])` whose body changes `found`; `def f(at=datetime.now())`, which is read when it is imported."""
    for parameter, default in defaults_of(function).items():
        if _is_mutable(here, default) and _is_changed(function, parameter.arg):
            message = f"`{parameter.arg}={shown(default)}` is one object for all calls, and this function changes it"
            here.report("mutable-default", default, message, "None")
        for hazard in hazards_in(default, here.source, here.meanings):
            message = f"`{parameter.arg}={shown(default)}` is what `{hazard.name}` gave when this function was defined"
            here.report("import-time", default, message)


def _is_mutable(here: Here, default: ast.expr) -> bool:
    if isinstance(default, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    made = here.of(default.func).name if isinstance(default, ast.Call) else ""
    return made in {"builtins.list", "builtins.dict", "builtins.set", "collections.deque", "collections.defaultdict"}


def _is_changed(function: FunctionNode, name: str) -> bool:
    for node in inside(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)):
                if owner == name and method in _MUTATORS:
                    return True
            case ast.Subscript(value=ast.Name(id=owner), ctx=ast.Store() | ast.Del()):
                if owner == name:
                    return True
            case ast.AugAssign(target=ast.Name(id=owner)):
                if owner == name:
                    return True
    return False
