"""The static check as one function: which files, what they say, and what is found in them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from loom.devtools.checking import ceilings, durable, effects, identities, ordering, outside, signals, state, walk
from loom.devtools.checking.allowing import answered_for
from loom.devtools.checking.findings import RULES, Finding
from loom.devtools.checking.meaning import Meaning
from loom.devtools.checking.source import Project, Read, Source
from loom.fingerprint.normal_form import FunctionNode

_OF_NODES: Final[Mapping[type[ast.AST], Sequence[Callable[[walk.Here, Any], None]]]] = {
    ast.Call: (
        durable.effects_of_verbs,
        walk.reach_branches,
        identities.named_in_a_loop,
        identities.follow,
        outside.calls_outside,
        outside.makes_defaults,
        ordering.orders_a_set,
        state.mutates,
        durable.bare_steps,
        durable.tasks,
    ),
    ast.Name: (walk.reach_named, outside.names_outside, state.reads_shared),
    ast.Attribute: (walk.reach_named, outside.names_outside, state.reads_shared),
    ast.Await: (durable.awaits,),
    ast.AsyncFor: (durable.iterates,),
    ast.AsyncWith: (durable.enters, signals.suppressed),
    ast.With: (signals.suppressed,),
    ast.Try: (signals.handlers,),
    ast.TryStar: (signals.handlers,),
    ast.Expr: (durable.forgotten,),
    ast.For: (ordering.loops_over_a_set,),
    ast.ListComp: (ordering.builds_from_a_set,),
    ast.SetComp: (ordering.builds_from_a_set,),
    ast.DictComp: (ordering.builds_from_a_set,),
    ast.GeneratorExp: (ordering.builds_from_a_set,),
    ast.Starred: (ordering.unpacks_a_set,),
    ast.FormattedValue: (ordering.shows_a_set,),
    ast.Assign: (ordering.assigns_from_a_set, state.assigns, durable.kept_and_forgotten),
    ast.AugAssign: (state.assigns,),
    ast.AnnAssign: (state.assigns, durable.kept_and_forgotten),
    ast.Delete: (state.assigns,),
    ast.FunctionDef: (state.growing_defaults,),
    ast.AsyncFunctionDef: (state.growing_defaults,),
}
"""The rules for each kind of node of a flow."""


class Report(NamedTuple):
    """What a check came to: the *findings* in the order of their places, and how much was looked at."""

    findings: tuple[Finding, ...]
    files: int
    flows: int

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(each.severity == "error" for each in self.findings)

    @property
    def warnings(self) -> int:
        """How many are warnings."""
        return len(self.findings) - self.errors


def check(paths: Iterable[str], read: Read, *, rules: Collection[str] = frozenset(RULES)) -> Report:
    """Check the flows and steps that the modules at *paths* declare, and all that the flows reach in the project.

    *read* gives the source at a path of the project, None where there is none; paths are relative and use `/`. A module
    that is not Python is a finding. Only *rules* are applied.
    """
    project = Project(read)
    targets = [source for path in sorted(set(paths)) if (source := project.source(path)) is not None]
    going = walk.Walk(project, _OF_NODES)
    flows, declared = 0, list[Finding]()
    for source in targets:
        for function, kind in _declared(source, going):
            if kind == "flow":
                flows += 1
                declared += _if_not_async(function, source)
                going.flow(function, source)
                declared += ceilings.check_ceiling(function, source, project)
            else:
                declared += effects.check_step(function, source, going.meanings)
    broken = [
        Finding(path, error.line, 1, "syntax", error.problem, error.line, 1) for path, error in project.broken.items()
    ]
    found = [each for each in (*going.found(), *declared, *broken) if each.rule in rules]

    def judged(source: Source, line: int) -> bool:
        return source in targets and not _is_dark(source, line, going)

    left = answered_for(found, project.read(), asked=rules, judged=judged)
    findings = {each for each in left if each.rule in rules}
    return Report(tuple(sorted(findings)), len(targets) + len(broken), flows)


def _if_not_async(function: FunctionNode, source: Source) -> Iterator[Finding]:
    if not isinstance(function, ast.AsyncFunctionDef):
        name = getattr(function, "name", "lambda")
        yield walk.finding(source, "not-async", function, f"the flow `{name}` is no `async def`, so it is refused")


def _is_dark(source: Source, line: int, going: walk.Walk) -> bool:
    """Return whether something is called on *line* of which nothing is known."""
    calls = (each for each in source.parents if isinstance(each, ast.Call))
    here = (each for each in calls if each.lineno <= line <= (each.end_lineno or each.lineno))
    return any(going.meanings.of(each.func, source).kind == "unknown" for each in here)


def _declared(source: Source, going: walk.Walk) -> Iterator[tuple[Any, str]]:
    """Yield the flows and steps that *source* declares, by a decorator or by a call."""
    if b"loom" not in source.text:
        return
    for node in source.parents:
        meaning: Meaning | None = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list:
            meaning = going.meanings.function(node, source)
        elif isinstance(node, ast.Call) and _may_declare(node, source):
            meaning = going.meanings.of(node, source)
        if meaning is not None and meaning.kind in {"flow", "step"} and meaning.source is source:
            yield meaning.node, meaning.kind


def _may_declare(call: ast.Call, source: Source) -> bool:
    """Return whether *call* can make a flow or a step: told by its last name, without asking what it stands for."""
    match call.func:
        case ast.Name(id=name):
            return source.imports.get(name, "").startswith("loom.") and bool(call.args)
        case ast.Attribute(attr=name):
            return name in {"flow", "step", "tool"} and bool(call.args)
        case ast.Call():
            return bool(call.args) and _may_declare(ast.Call(call.func.func, [call], []), source)
        case _:
            return False
