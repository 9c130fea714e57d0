"""The rule on what a flow may reach: `@loom.flow(effects="read")` is proved, or what cannot be is named (EFF-06).

Here doubt is a finding. A ceiling is a promise to whoever lets such flows run, and one that holds only where the reader could
follow would be none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from loom.core.effect_class import EFFECT_CLASSES, EffectClass
from loom.devtools.checking import durable, effects, identities, walk
from loom.devtools.checking.findings import Finding
from loom.devtools.checking.hazards import hazard_of_call
from loom.devtools.checking.meaning import UNKNOWN, Meaning, Meanings
from loom.devtools.checking.source import Project, Source
from loom.fingerprint.normal_form import FunctionNode

_ASKS: Final = frozenset({"clock", "random", "environment", "identity"})
_FREE: Final = (
    "builtins.",
    "math.",
    "json.",
    "re.",
    "datetime.",
    "decimal.",
    "itertools.",
    "functools.",
    "hashlib.",
    "?.",
)

_ANYTHING: Final = tuple(f"builtins.{name}" for name in ("__import__", "getattr", "eval", "exec", "compile", "setattr"))


def check_ceiling(function: FunctionNode, source: Source, project: Project) -> Iterator[Finding]:
    """Yield what the flow *function* reaches beyond the class of effects that it declares."""
    ceiling = _declared(function)
    if ceiling is None:
        return
    if ceiling not in EFFECT_CLASSES:
        told = f"`effects={ceiling!r}` is none of {', '.join(EFFECT_CLASSES)}"
        yield walk.finding(source, "effect-class", function, told)
        return
    going = walk.Walk(project, _Ceiling(ceiling, getattr(function, "name", "")).rules())
    going.flow(function, source)
    yield from going.found()


def _declared(function: FunctionNode) -> Any:
    for decorator in getattr(function, "decorator_list", ()):
        for option in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if option.arg == "effects" and isinstance(option.value, ast.Constant):
                return option.value.value
    return None


class _Ceiling:
    """What the flow called *flow* promises: to reach nothing above *highest*."""

    def __init__(self, highest: EffectClass, flow: str) -> None:
        self.highest = highest
        self.promise = f"the flow `{flow}` is declared `effects={highest!r}`"

    def rules(self) -> Mapping[type[ast.AST], Sequence[Callable[[walk.Here, Any], None]]]:
        """Return the rules that walk through the flow, and those that measure what it reaches."""
        return {
            ast.Call: (self.calls, durable.leaves_effects_out, walk.reach_branches, identities.follow),
            ast.Name: (walk.reach_named, self.names),
            ast.Attribute: (walk.reach_named, self.names),
        }

    def names(self, here: walk.Here, node: ast.Name | ast.Attribute) -> None:
        """A step that is named may be run, and so may a flow."""
        meaning = here.of(node) if isinstance(node.ctx, ast.Load) else UNKNOWN
        if meaning.kind == "step":
            self._measure(here, node, f"`{walk.shown(node)}`", class_of_step(meaning, here.meanings))
        elif meaning.kind == "flow":
            here.reach(meaning.node, meaning.source)

    def calls(self, here: walk.Here, call: ast.Call) -> None:
        """What a syscall runs that is no step that can be found."""
        callee, what = here.of(call.func), f"`{walk.shown(call)}`"
        if callee.kind != "verb":
            return
        effect = durable.effect_of(here, call)
        if effect is not None and here.of(effect).kind != "step":
            self._measure(here, call, what, _class_of_function(here.of(effect), here.meanings))
        elif callee.name == "execute" or (callee.name == "run" and effect is None and not _is_step(here, call)):
            self._measure(here, call, what, None)

    def _measure(self, here: walk.Here, node: ast.AST, what: str, reached: EffectClass | None) -> None:
        if reached is None and self.highest != EFFECT_CLASSES[-1]:
            here.report("effect-class", node, f"what {what} does cannot be told, and {self.promise}")
        elif reached is not None and EFFECT_CLASSES.index(reached) > EFFECT_CLASSES.index(self.highest):
            here.report("effect-class", node, f"{what} is an effect of class `{reached}`, and {self.promise}")


def _is_step(here: walk.Here, call: ast.Call) -> bool:
    return bool(call.args) and here.of(call.args[0]).kind == "step"


def class_of_step(meaning: Meaning, meanings: Meanings) -> EffectClass | None:
    """Return the class of the step that *meaning* is, None where its declaration cannot be read."""
    if meaning.node is None:
        return None
    options = effects.options_of(meaning.node, meaning.source, meanings)
    if options.idempotent is False:
        return "once"
    return "read" if options.reads else "write"


def _class_of_function(meaning: Meaning, meanings: Meanings) -> EffectClass | None:
    """Return the class of what runs inline: `none` or `read` only where each of its calls is known to be no more."""
    if meaning.kind == "outside":
        return _class_of_call(meaning.name)
    if meaning.kind != "function":
        return None
    reached: list[EffectClass] = ["none"]
    for call, place in effects.calls_of(meaning.node, meaning.source, meanings):
        called = meanings.of(call.func, place)
        if called.kind in {"function", "class"}:
            continue
        found = _class_of_call(called.name) if called.kind == "outside" else None
        if found is None:
            return None
        reached.append(found)
    return max(reached, key=EFFECT_CLASSES.index)


def _class_of_call(name: str) -> EffectClass | None:
    hazard = hazard_of_call(name, 1)
    if hazard is not None:
        return "read" if hazard.rule in _ASKS else "write"
    return "none" if name.startswith(_FREE) and not name.startswith(_ANYTHING) else None
