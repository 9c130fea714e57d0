"""What one call of a flow is in its picture: a syscall, branches, a child, or a helper to go into."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from loom.devtools.checking.meaning import CONTEXT, Meaning, Meanings
from loom.devtools.checking.source import Source
from loom.devtools.checking.walk import parameters_given
from loom.devtools.graphing.structure import Act, ActKind, Arm, Block, Fork, Group, Leave, Place
from loom.devtools.graphing.words import Words, keyword, shown

if TYPE_CHECKING:
    from loom.devtools.graphing.reading import Reader

_LABELLED: Final[Mapping[str, ActKind]] = {
    "suspend": "gate",
    "receive": "message",
    "decide": "decision",
    "emit": "event",
    "stream": "stream",
}
_BRANCHING: Final = frozenset({"map", "parallel", "select", "first", "any"})
_ARMS: Final[Mapping[str, ActKind]] = {"loom.gate": "gate", "loom.topic": "message", "loom.timer": "timer"}


class Asked(NamedTuple):
    """The step that a call runs: *name* is that of its identity, where the source tells."""

    name: str | None
    text: str
    notes: tuple[str, ...] = ()
    undo: str | None = None


class Calls:
    """Reads the calls of flows."""

    def __init__(self, reader: Reader, meanings: Meanings) -> None:
        self._reader, self._of, self._words = reader, meanings.of, Words(meanings)
        self._meanings = meanings

    def read(self, call: ast.Call, source: Source) -> Block:
        """Return what *call* itself is: what its arguments are was read before."""
        callee = self._of(call.func, source)
        if callee.kind == "verb":
            return self._verb(callee.name, call, source)
        if callee.kind in {"function", "flow"}:
            return self._helper(callee, call, source)
        return self._of_loom(callee.name, call, source) if callee.kind == "outside" else ()

    def _of_loom(self, name: str, call: ast.Call, source: Source) -> Block:
        match name:
            case "loom.saga().run":
                return (self._step(call, source),)
            case "loom.block().start":
                self._reader.start(self._task(call, source))
                return ()
            case "loom.spawn":
                return (self._spawned(call, source),)
            case "loom.await_child":
                return (self._ended(_at(call, 1), call, source),)
            case "loom.await_children" | "loom.await_all":
                return (self._children(call, source),)
            case _:
                return ()

    def _act(self, kind: ActKind, asked: Asked, node: ast.expr, source: Source) -> Act:
        notes = tuple(filter(None, asked.notes))
        return Act(self._reader.key(), kind, asked.text, asked.name, _place(node, source), notes, asked.undo)

    # -- syscalls --------------------------------------------------------------------------------------------------------

    def _verb(self, verb: str, call: ast.Call, source: Source) -> Block:
        if verb in _BRANCHING:
            return (self._fork(verb, call, source),)
        if verb == "run":
            return (self._step(call, source),)
        if verb == "execute":
            named = keyword(call, "id")
            tool = _at(call, 0)
            asked = Asked(self._words.text(named or tool, source), self._told(tool, source))
            return (self._act("step", asked, call, source),)
        if verb in {"sleep", "sleep_until"}:
            return (self._timer(call, source, until=verb == "sleep_until"),)
        if verb == "continue_as_new":
            place = _place(call, source)
            return (Leave(self._reader.key(), "rolls over", shown(call.args[0]) if call.args else "", place),)
        kind = _LABELLED.get(verb)
        return (self._labelled(kind, call, source),) if kind is not None else ()

    def _labelled(self, kind: ActKind, call: ast.Call, source: Source) -> Act:
        label = _at(call, 0) or keyword(call, "label")
        notes = []
        if (expected := keyword(call, "expects")) is not None:
            notes.append(f"answer: {shown(expected)}" if kind == "gate" else f"{shown(expected)}")
        if (timeout := keyword(call, "timeout")) is not None:
            notes.append(f"at most {self._words.span(timeout, source)}")
        asked = Asked(self._words.text(label, source), self._told(label, source), tuple(notes))
        return self._act(kind, asked, call, source)

    def _told(self, node: ast.expr | None, source: Source) -> str:
        return self._words.text(node, source) or shown(node)

    def _timer(self, call: ast.Call, source: Source, *, until: bool) -> Act:
        named = keyword(call, "name")
        name = "sleep" if named is None else self._words.text(named, source)
        when = _at(call, 0)
        text = f"until {shown(when)}" if until else self._words.span(when, source)
        return self._act("timer", Asked(name, text, ("" if name == "sleep" else name or "",)), call, source)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _step(self, call: ast.Call, source: Source) -> Act:
        first = _at(call, 0)
        label = self._words.text(first, source)
        asked = Asked(label, label) if label is not None else self.asked(first, source)
        undo = ("undone by " + asked.undo,) if asked.undo else ()
        return self._act("step", asked._replace(notes=(*asked.notes, *undo)), call, source)

    def asked(self, node: ast.expr | None, source: Source) -> Asked:
        """Return what asking for the step *node* comes to."""
        value, home = self._words.constant(node, source)
        match value:
            case ast.Call(func=ast.Attribute(value=inner, attr="named"), args=[name]):
                found, text = self.asked(inner, home), self._words.text(name, home)
                return found._replace(name=text, text=f"{found.text} as {text or shown(name)}")
            case ast.Call(func=ast.Attribute(value=inner, attr="undone_by"), args=[undo]):
                return self.asked(inner, home)._replace(undo=self.asked(undo, home).text)
            case ast.Call(func=ast.Attribute(value=inner, attr="keyed" | "retried")):
                return self.asked(inner, home)
        meaning = self._of(node, source)
        if meaning.kind != "step" or meaning.node is None:
            return Asked(None, shown(node))
        declared = self.declared(meaning)
        return Asked(declared.name, declared.text, declared.notes)

    def declared(self, meaning: Meaning, made_by: Sequence[ast.expr] | None = None) -> Asked:
        """Return the id that a step or flow is declared with, and what its declaration, or *made_by*, says."""
        node, home = meaning.node, meaning.source
        options: dict[str, ast.expr] = {}
        for decorator in getattr(node, "decorator_list", ()) if made_by is None else made_by:
            if isinstance(decorator, ast.Call):
                options |= {each.arg: each.value for each in decorator.keywords if each.arg}
        name = self._words.text(options["id"], home) if "id" in options else getattr(node, "name", None)
        notes = []
        if _is(options.get("idempotent"), False):
            notes.append("once")
        if _is(options.get("reads"), True):
            notes.append("reads")
        if (timeout := options.get("timeout")) is not None:
            notes.append(f"at most {self._words.span(timeout, home)}")
        return Asked(name, name or meaning.name, tuple(notes))

    def step_act(self, node: ast.expr, source: Source) -> Act:
        """Return the step *node* as an act, where it is handed to a scope."""
        return self._act("step", self.asked(node, source), node, source)

    # -- children --------------------------------------------------------------------------------------------------------

    def _spawned(self, call: ast.Call, source: Source) -> Act:
        node = _at(call, 1)
        meaning = self._of(node, source)
        flow = self.declared(meaning).name if meaning.kind == "flow" else self._words.text(node, source)
        policy = self._words.text(keyword(call, "on_cancel"), source)
        note = "outlives a cancellation" if policy == "abandon" else ""
        return self._act("child", Asked(flow and f"spawn.{flow}", flow or shown(node), (note,)), call, source)

    def _ended(self, child: ast.expr | None, node: ast.expr, source: Source) -> Act:
        text = f"end of {shown(child)}" if child is not None else "end of a child"
        return self._act("message", Asked(None, text), node, source)

    def _children(self, call: ast.Call, source: Source) -> Fork:
        arms = (Arm("each", (self._ended(None, call, source),), each=True),)
        return Fork(self._reader.key(), "map", "children", arms, _place(call, source))

    # -- branches --------------------------------------------------------------------------------------------------------

    def _fork(self, verb: str, call: ast.Call, source: Source) -> Fork:
        key = self._reader.key()
        named = _at(call, 0) if verb == "select" else keyword(call, "name")
        name = verb if named is None else self._words.text(named, source)
        notes = tuple(f"at most {shown(each.value)} at once" for each in call.keywords if each.arg == "limit")
        notes += (f"{shown(_at(call, 0))} of them",) if verb == "first" else ()
        arms = tuple(
            Arm(label, self.branch(value, source), each)
            for label, value, each in _handed(verb, call)
            if value is not None
        )
        return Fork(key, verb, name, arms, _place(call, source), notes)

    def branch(self, node: ast.expr, source: Source) -> Block:
        """Return what a branch does that *node*, a function of the context, is run as."""
        made = self._of(node.func, source).name if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and made in _ARMS:
            kind = _ARMS[made]
            until = self._timer(node, source, until=False) if kind == "timer" else self._labelled(kind, node, source)
            return (until,)
        if isinstance(node, ast.Call) and made == "functools.partial" and node.args:
            return self.branch(node.args[0], source)
        return self._run_as_branch(self._of(node, source), node, source)

    def _run_as_branch(self, meaning: Meaning, node: ast.expr, source: Source) -> Block:
        match meaning.kind, meaning.name:
            case "step", _:
                return (self.step_act(node, source),)
            case "outside", "loom.await_child":
                return (self._ended(None, node, source),)
            case "function", _:
                arguments = [*meaning.node.args.posonlyargs, *meaning.node.args.args]
                if arguments:
                    self._meanings.give(arguments[0], CONTEXT)
                return self._reader.called(meaning)
            case _:
                self._reader.unfollowed(node, source)
                return ()

    def _task(self, call: ast.Call, source: Source) -> Arm:
        named = keyword(call, "name")
        name = self._words.text(named, source) if named is not None else None
        body = self.branch(call.args[0], source) if call.args else ()
        return Arm(name or "task", body, each=name is None)

    # -- helpers ---------------------------------------------------------------------------------------------------------

    def _helper(self, callee: Meaning, call: ast.Call, source: Source) -> Block:
        is_method = isinstance(call.func, ast.Attribute) and self._of(call.func.value, source).kind == "object"
        for parameter, value in parameters_given(call, callee.node, bound=is_method):
            self._meanings.give(parameter, self._of(value, source))
        body = self._reader.called(callee)
        if not body or (isinstance(body[0], Group) and not body[0].body):
            return body
        return (Group(self._reader.key(), "helper", callee.name, body, _place(call, source)),)


def _handed(verb: str, call: ast.Call) -> Iterator[tuple[str, ast.expr | None, bool]]:
    """Yield the branches that *call* hands over: label, function, and whether there are any number of them."""
    match verb, call.args:
        case "map", [function, *_]:
            yield "each", function, True
        case "select", _:
            yield from ((each.arg, each.value, False) for each in call.keywords if each.arg)
        case _, [*_, ast.Dict(keys=keys, values=values)]:
            for key, value in zip(keys, values, strict=True):
                yield str(key.value) if isinstance(key, ast.Constant) else shown(key), value, key is None
        case _, arguments:
            given = arguments[1:] if verb == "first" else arguments
            for at, each in enumerate(given):
                inner = each.value if isinstance(each, ast.Starred) else each
                elt = getattr(inner, "elt", None)
                yield ("each" if inner is not each else str(at)), inner if elt is None else elt, inner is not each


def _at(call: ast.Call, index: int) -> ast.expr | None:
    found = call.args[index] if index < len(call.args) else None
    return None if isinstance(found, ast.Starred) else found


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _place(node: ast.expr, source: Source) -> Place:
    return Place(source.path, node.lineno)
