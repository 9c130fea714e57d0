"""What code a flow consists of, as one short text: the fingerprint that a run records when it starts (kernel rule 9).

From the flow the survey follows what its code names: helper functions of the author's project with all that they name
in turn, constants by value, steps by their contract (id, signature, result) and not by their body, the types through
which values are revived by their fields. What belongs to the standard library, to an installed package or to Loom is a
name. Everything becomes words, and the words one digest.

Rules to keep: nothing may enter that differs between two machines, processes or Pythons for the same code (a path, a
module of the author's, an address, an order of hashing, a `repr`). No code of the author's is run, beyond what evaluates
hints. Source is read in `tree_of` and nowhere else. A change of the words is a change of `RULES`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import linecache
import re
import sys
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import PurePath
from types import FunctionType, GenericAlias, MappingProxyType, MethodType, ModuleType, NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias

from loom.fingerprint.normal_form import Reference, Unreadable, Word, body_words, constant, decorators_words, tree_of
from loom.values.canonical import digest
from loom.values.shapes import shape_of

__maturity__ = "beta"

RULES: Final = "1"
_UNREADABLE: Final = "unreadable:"
_SHORT: Final = 10

_MISSING: Final = object()
_LIBRARY: Final = PurePath(linecache.__file__).parent
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_SYNONYMS: Final = {"posixpath": "os", "ntpath": "os"}
_CONSTANTS: Final = frozenset({NoneType, bool, int, float, complex, str, bytes, type(...)})
_EXACT_TEXT: Final = (
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    *(decimal.Decimal, fractions.Fraction, uuid.UUID, range),
)
_MAPPINGS: Final = (dict, MappingProxyType)
_DECLARED: Final = {"model": "__pydantic_fields__", "dataclass": "__dataclass_fields__"}
_MODULE_NAMES: Final = frozenset({"__name__", "__file__", "__path__", "__package__", "__spec__", "__doc__"})
_UNDEFINED: Final = frozenset({"_MISSING_TYPE", "PydanticUndefinedType"})
_TYPING: Final = frozenset({"typing", "typing_extensions"})
_RAISED: Final = (NameError, AttributeError, TypeError, ValueError, SyntaxError, LookupError, ImportError, RuntimeError)
"""What hints and objects of the author's may raise when they are looked at."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Subject:
    """A function, class or alias that is described once, in its turn, and stands as a number where it is named."""

    it: Any


_Term: TypeAlias = str | _Subject


def fingerprint(function: Callable[..., Any], *, types: Iterable[Any] = ()) -> str:
    """Return the fingerprint of the flow *function* and of the *types* through which its input and result are revived.

    Two texts are to be compared with `same`. When the source of the flow or of a helper cannot be read, the text says
    whose, and is the same as no other. Nothing is raised, and nothing is cached.
    """
    try:
        flow = _unwrapped(function)
        words = list(_Survey(_home(flow)).words(flow, types))
    except Unreadable as missing:
        return f"{_UNREADABLE}{missing}"
    except _RAISED as error:
        return f"{_UNREADABLE}{type(error).__name__}"
    return f"{RULES}:{digest(words)}"


def readable(text: str) -> bool:
    """Return whether *text* is a fingerprint of code that could be read."""
    return not text.startswith(_UNREADABLE)


def short(text: str) -> str:
    """Return as much of a fingerprint as tells it from others at a glance."""
    return text[:_SHORT] if readable(text) else text


def same(recorded: str, present: str) -> bool:
    """Return whether two fingerprints are known to be of the same code."""
    return recorded == present and readable(recorded)


def _unwrapped(function: Any) -> FunctionType:
    """Return the function that the author wrote, below declarations and wrappers."""
    for _ in range(100):  # there may be a circle
        inner = [name for name in ("__func__", "__wrapped__", "fn") if _static(function, name) is not _MISSING]
        if not inner:
            break
        function = getattr(function, inner[0])
    if not isinstance(function, FunctionType):
        raise Unreadable(getattr(function, "__qualname__", type(function).__qualname__))
    return function


def _static(thing: Any, name: str) -> Any:
    """Return an attribute without running code of *thing*: a proxy or a mock would answer to any name."""
    return inspect.getattr_static(thing, name, _MISSING)


# Whose code it is


def _home(function: FunctionType) -> str:
    return str(function.__globals__.get("__name__", "")).partition(".")[0]


def _origin(module: str) -> Literal["standard", "installed", "elsewhere"]:
    """Return whose code a module is, as far as its place tells."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return "standard" if module.partition(".")[0] in sys.stdlib_module_names else "elsewhere"
    path = PurePath(file)
    if not _INSTALLED.isdisjoint(path.parts):
        return "installed"
    return "standard" if _LIBRARY in path.parents else "elsewhere"


def is_of_a_project(module: str) -> bool:
    """Return whether *module* is of the author's, and not of the standard library, of an installed package, or Loom's."""
    return module.partition(".")[0] != "loom" and _origin(module) == "elsewhere"


# What can be told without running anything


def _looked_up(name: str, function: FunctionType) -> Any:
    """Return what *name* stands for in *function*: of a closure or its module, or nothing known."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if name not in cells:  # where its module lies and what it is called makes no difference
        return _MISSING if name in _MODULE_NAMES else function.__globals__.get(name, _MISSING)
    try:
        return cells[name].cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _is_step(value: Any) -> bool:
    names = ("__loom_step__",), ("fn", "id")
    return any(all(_static(value, name) is not _MISSING for name in every) for every in names)


def _hints(thing: Any) -> Mapping[str, Any]:
    """Return the resolved annotations of *thing*, or as text where a name is not there at run time."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except _RAISED:
        pass
    try:
        return dict(thing.__annotations__)
    except _RAISED:
        return {}


def _field_hints(kind: Any, sort: str) -> Mapping[str, Any]:
    if sort != "model":
        return _hints(kind)
    if not kind.__pydantic_complete__:
        with contextlib.suppress(RuntimeError):  # as its first use would: whether there was one makes no difference
            kind.model_rebuild(raise_errors=False, _types_namespace={})
    return {name: field.annotation for name, field in kind.__pydantic_fields__.items()}


def _has_fields(kind: type[Any]) -> bool:
    return _origin(kind.__module__) != "standard" and (typing.is_typeddict(kind) or shape_of(kind) is not None)


def _library_root(module: str) -> str:
    """Return whose name a library goes by: where inside it something lies differs between Pythons."""
    root = module.partition(".")[0]
    return _SYNONYMS.get(root, root.lstrip("_"))


def _sorted_by(terms: list[_Term]) -> list[str]:
    return [term if isinstance(term, str) else str(getattr(term.it, "__qualname__", "")) for term in terms]


class _Survey:
    """Everything that counts of one flow, as words. *home* is the top package of the flow: its own wherever it lies."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._numbers: dict[int, int] = {}
        self._queue: list[_Subject] = []
        self._open: set[int] = set()

    def words(self, flow: FunctionType, hints: Iterable[Any]) -> Iterator[str]:
        """Yield the words of *flow* and of all it leads to, each subject once, in the order of first mention."""
        yield from self._numbered([_Subject(flow)])
        for hint in hints:
            yield from self._numbered(self._hint(hint, deep=True))
        for subject in self._queue:  # it grows meanwhile
            yield from ("subject", *self._numbered(self._description(subject.it)))

    def _numbered(self, terms: Iterable[_Term]) -> Iterator[str]:
        for term in terms:
            if isinstance(term, str):
                yield term
                continue
            if id(term.it) not in self._numbers:
                self._numbers[id(term.it)] = len(self._queue)
                self._queue.append(term)
            yield f"subject {self._numbers[id(term.it)]}"

    def _description(self, it: Any) -> Iterator[_Term]:
        if isinstance(it, FunctionType):
            return self._code(it)
        return self._fields(it) if isinstance(it, type) else self._hint(it.__value__, deep=True)

    def _owns(self, module: str) -> bool:
        root = module.partition(".")[0]
        return root == self._home or (root != "loom" and _origin(module) == "elsewhere")

    # Code

    def _code(self, function: FunctionType) -> Iterator[_Term]:
        node, home = tree_of(function), _home(function)
        for words in decorators_words(node, home):
            if not self._is_looms(words, function):
                yield from ("@", *self._resolved(words, function))
        yield from self._resolved(body_words(node, home), function)
        for default in function.__defaults__ or ():
            yield from ("default", *self.value(default))
        for name, default in sorted((function.__kwdefaults__ or {}).items()):
            yield from ("default", name, *self.value(default))

    def _is_looms(self, decorator: list[Word], function: FunctionType) -> bool:
        called = next((word for word in decorator if isinstance(word, Reference)), None)
        return called is not None and [*self._reference(called, function)][:2] == ["library", "loom"]

    def _resolved(self, words: Iterable[Word], function: FunctionType) -> Iterator[_Term]:
        for word in words:
            if isinstance(word, str):
                yield word
            else:
                yield from self._reference(word, function)

    def _reference(self, reference: Reference, function: FunctionType) -> Iterator[_Term]:
        """Follow a dotted name as far as it is known before the code runs."""
        first, *rest = reference.path
        value = _looked_up(first, function)
        while rest and (inner := self._attribute(value, rest[0])) is not _MISSING:
            value = inner
            del rest[0]
        if value is _MISSING:
            yield from ("global", first)
        elif rest and issubclass(type(value), ModuleType) and not self._owns(value.__name__):
            yield from ("library", _library_root(value.__name__), rest.pop(0))
        else:
            yield from self.value(value, revived=reference.revived)
        for name in rest:
            yield from (".", name)

    def _attribute(self, value: Any, name: str) -> Any:
        """Return what *name* is in a module of the author's or a package, or a constant of a class of the author's."""
        if issubclass(type(value), ModuleType):
            inner = vars(value).get(name, _MISSING)
            return inner if self._owns(value.__name__) or isinstance(inner, ModuleType) else _MISSING
        if not issubclass(type(value), type) or not self._owns(value.__module__):
            return _MISSING
        if isinstance(value, enum.EnumMeta) and name in value.__members__:
            return value.__members__[name]
        inner = vars(value).get(name, _MISSING)
        return inner if type(inner) in _CONSTANTS else _MISSING

    # Values

    def value(self, value: Any, *, revived: bool = False) -> Iterator[_Term]:
        """Yield what counts of a value that code names; *revived* says that answers are revived through it."""
        if type(value) in _CONSTANTS:
            yield constant(value)
        elif value is _MISSING:
            yield "-"
        elif issubclass(type(value), type):  # not isinstance: it asks a proxy for its class
            yield from self._hint(value, deep=revived)
        elif _is_step(value):
            yield from self._step(value)
        else:
            reader = next((_READERS[kind] for kind in _READERS if issubclass(type(value), kind)), None)
            yield from reader(self, value) if reader else self._other(value, revived=revived)

    def _other(self, value: Any, *, revived: bool) -> Iterator[_Term]:
        if _static(value, "__wrapped__") is not _MISSING:
            yield from self.value(value.__wrapped__)
        elif type(value).__module__ in _TYPING or type(value) in {GenericAlias, UnionType}:
            yield from self._hint(value, deep=revived)
        elif getattr(_static(value, "__dataclass_params__"), "frozen", False):
            yield from self._name(type(value))
            for field in dataclasses.fields(value):
                given = getattr(value, field.name, None)
                if not field.metadata.get("added_later") or given != field.default:
                    yield from (field.name, *self.value(given))
        elif _static(value, "__qualname__") is not _MISSING:
            yield from self._name(value)
        else:  # what may change while it runs, or cannot be seen into, counts as an object of its class
            yield from ("object", *self._name(type(value)))

    def _name(self, thing: Any) -> list[str]:
        module = getattr(thing, "__module__", None) or type(getattr(thing, "__self__", None)).__module__
        name = str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", type(thing).__name__))
        name = name.rpartition("<locals>.")[2]
        return ["own", name] if self._owns(str(module)) else ["library", _library_root(str(module)), name]

    def function(self, function: Any) -> Iterator[_Term]:
        function = getattr(function, "__func__", function)
        if self._owns(str(function.__globals__.get("__name__", ""))):  # where it was written, whatever it wraps
            yield _Subject(function)
        elif hasattr(function, "__wrapped__"):
            yield from self.value(function.__wrapped__)
        else:
            yield from self._name(function)

    def module(self, module: ModuleType) -> Iterator[_Term]:
        yield from ["own"] if self._owns(module.__name__) else ["library", module.__name__]

    def member(self, member: enum.Enum) -> Iterator[_Term]:
        yield from (*self._name(type(member)), ".", str(member.name))
        if self._owns(type(member).__module__):
            yield from self.value(member.value)

    def text(self, value: Any) -> Iterator[_Term]:
        yield from (*self._name(type(value)), str(value))

    def pattern(self, pattern: re.Pattern[Any]) -> Iterator[_Term]:
        yield from ("pattern", constant(pattern.pattern), constant(pattern.flags))

    def partial(self, partial: functools.partial[Any]) -> Iterator[_Term]:
        yield from ("partial", *self.value(partial.func), *self.items(partial.args), *self.items(partial.keywords))

    def items(self, items: Any) -> Iterator[_Term]:
        if id(items) in self._open:
            yield "itself"
            return
        self._open.add(id(items))
        each = [[*self.value(item)] for item in (items.items() if isinstance(items, _MAPPINGS) else items)]
        if isinstance(items, Set):
            each.sort(key=_sorted_by)
        self._open.discard(id(items))
        yield from (*self._name(type(items)), "[", *(term for terms in each for term in terms), "]")

    # Contracts

    def _step(self, step: Any) -> Iterator[_Term]:
        """Yield the contract of a step, or of another flow: what they do inside is served from a log."""
        yield from ("step", str(getattr(step, "id", None)), constant(getattr(step, "idempotent", None)))
        if naming := getattr(step, "naming", None):
            yield from (str(naming.kind), constant(naming.value))
        failures: Mapping[str, Any] = getattr(step, "failures", None) or {}
        for channel, hint in failures.items():
            yield from (constant(channel), *self._hint(hint, deep=True))
        function = getattr(step, "fn", step)
        hints, parameters = _hints(function), inspect.signature(function).parameters.values()
        for each in [*parameters][getattr(step, "takes_context", False) :]:
            yield from (each.kind.name, each.name, *self._hint(hints.get(each.name, _MISSING), deep=False))
            yield from self.value(_MISSING if each.default is each.empty else each.default)
        yield from ("->", *self._hint(hints.get("return", _MISSING), deep=True))

    def _hint(self, hint: Any, *, deep: bool) -> Iterator[_Term]:
        """Yield what counts of an annotation; if not *deep*, classes count by name only."""
        origin = typing.get_origin(hint)
        arguments = typing.get_args(hint)
        if origin is typing.Literal:
            yield from ("literal", *(term for value in arguments for term in self.value(value)))
        elif origin is typing.Annotated:
            yield from self._hint(arguments[0], deep=deep)
        elif origin is not None:
            is_union = origin in {typing.Union, UnionType}
            yield from ["union"] if is_union else self._hint(origin, deep=deep)
            yield from self._hint(list(arguments), deep=deep)
        elif isinstance(hint, list):
            yield from ("[", *(term for each in hint for term in self._hint(each, deep=deep)), "]")
        elif hint is None or hint is NoneType:
            yield constant(None)
        else:
            yield from self._named_hint(hint, deep=deep)

    def _named_hint(self, hint: Any, *, deep: bool) -> Iterator[_Term]:
        if isinstance(hint, str | typing.ForwardRef):  # it names what is not there at run time
            text = hint if isinstance(hint, str) else hint.__forward_arg__
            yield "".join(text.split())
        elif isinstance(hint, typing.NewType):
            yield from ("new", *self._hint(hint.__supertype__, deep=deep))
        elif deep and type(hint).__name__ == "TypeAliasType":
            yield _Subject(hint)
        elif type(hint) in _CONSTANTS:
            yield constant(hint)
        elif deep and isinstance(hint, type) and _has_fields(hint):
            yield _Subject(hint)
        else:
            yield from self._name(hint)

    def _fields(self, kind: Any) -> Iterator[_Term]:
        """Describe a class by what a value is revived from: names, hints and defaults, not methods, not its own name."""
        shape = shape_of(kind)
        sort = shape.sort if shape else "typed dict"
        yield sort
        if sort == "enum":
            for name, member in kind.__members__.items():
                yield from (name, *self.value(member.value))
            return
        hints, declared = _field_hints(kind, sort), getattr(kind, _DECLARED.get(sort, ""), {})
        for name in shape.fields if shape else hints:
            yield from (name, *self._hint(hints.get(name, _MISSING), deep=True))
            if sort == "typed dict":
                yield str(name in kind.__required_keys__)
            elif sort == "named tuple":
                yield from self.value(kind._field_defaults.get(name, _MISSING))
            else:
                for source in (declared[name].default_factory, declared[name].default):
                    yield from self.value(_MISSING if type(source).__name__ in _UNDEFINED else source)


_READERS: Final[dict[Any, Callable[[_Survey, Any], Iterator[_Term]]]] = {
    (FunctionType, MethodType): _Survey.function,
    ModuleType: _Survey.module,
    enum.Enum: _Survey.member,
    _EXACT_TEXT: _Survey.text,
    re.Pattern: _Survey.pattern,
    functools.partial: _Survey.partial,
    (tuple, list, set, frozenset, *_MAPPINGS): _Survey.items,
}
