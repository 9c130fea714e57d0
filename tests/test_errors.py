"""Every error of Loom has a code and survives copying and pickling, however its constructor looks."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import importlib
import inspect
import pickle
import pkgutil
import re
import types
import typing
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

import pytest

import loom
from loom.core.errors import LoomError


@functools.cache
def import_everything() -> None:
    """Import all of loom; a plugin whose extra is not installed is left out."""
    for module in pkgutil.walk_packages(loom.__path__, "loom.", onerror=lambda _: None):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            if not module.name.startswith("loom.plugins.") or (missing.name or "").startswith("loom"):
                raise


def subclasses(kind: type[LoomError]) -> Iterator[type[LoomError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith(("loom.", "loom_cli.")):
            yield child
        yield from subclasses(child)


def all_errors() -> list[type[LoomError]]:
    import_everything()
    return sorted({LoomError, *subclasses(LoomError)}, key=lambda kind: kind.__qualname__)


def sample(hint: Any) -> Any:
    """Return some value of the type *hint*; a string where anything goes."""
    if isinstance(hint, typing.NewType):
        return sample(hint.__supertype__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return arguments[0]
    if origin in {typing.Union, types.UnionType}:
        return None if types.NoneType in arguments else sample(arguments[0])
    if isinstance(origin, type):
        return sample_collection(origin, arguments)
    return sample_value(hint)


def sample_collection(origin: type, arguments: tuple[Any, ...]) -> Any:
    if issubclass(origin, Mapping):
        return {sample(arguments[0]): sample(arguments[1])}
    if issubclass(origin, AbstractSet):
        return frozenset({sample(arguments[0])})
    if issubclass(origin, tuple) and ... not in arguments:
        return tuple(map(sample, arguments))
    return (sample(arguments[0]),)


def sample_value(hint: Any) -> Any:
    if not isinstance(hint, type) or hint in {str, object}:
        return "sample"
    if issubclass(hint, enum.Enum):
        return next(iter(hint))
    if issubclass(hint, bool | int | float | bytes | bytearray):
        return hint(1)
    if hint is types.NoneType:
        return None
    return sample_object(hint)


def sample_object(kind: type) -> Any:
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name]) for field in dataclasses.fields(kind) if field.init})
    if issubclass(kind, BaseException):
        return kind("sample")
    return "sample"


def made(kind: type[LoomError]) -> LoomError:
    """Return an error of *kind*, its constructor called by the types it names."""
    own = kind.__init__
    if own is Exception.__init__:
        return kind("sample")
    hints = typing.get_type_hints(own)
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            by_name[name] = sample(hints[name])
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            by_position.append(sample(hints[name]))
    return kind(*by_position, **by_name)


def assert_twin(twin: LoomError, error: LoomError) -> None:
    assert type(twin) is type(error)
    assert (str(twin), twin.args, twin.code, twin.hint) == (str(error), error.args, error.code, error.hint)
    assert repr(vars(twin)) == repr(vars(error))


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__qualname__)
def test_an_error_has_a_code_and_survives_copy_and_pickle(kind: type[LoomError]) -> None:
    error = made(kind)

    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)
    assert_twin(copy.copy(error), error)
    assert_twin(pickle.loads(pickle.dumps(error)), error)


def test_every_code_is_the_code_of_one_error() -> None:
    codes = [kind.code for kind in all_errors()]

    assert sorted(set(codes)) == sorted(codes)


class Fragile(LoomError):
    """An error that forgets a field when it is copied."""

    code: ClassVar[str] = "fragile"

    def __init__(self, *, where: str) -> None:
        self.where = where
        super().__init__(f"lost at {where}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (), {})


def test_an_error_that_does_not_survive_is_seen() -> None:
    with pytest.raises(TypeError, match="where"):
        copy.copy(made(Fragile))
