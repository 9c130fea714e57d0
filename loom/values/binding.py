"""Arguments and results of a step on their way to the log and back, compiled once a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from loom import values
from loom.core.claims import ClaimCheck
from loom.core.flow import resolved_hints
from loom.core.json import JsonObject
from loom.core.missing import MISSING
from loom.core.step import Step
from loom.values.results import codec_of_result

VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
INLINE_CODECS_MAX: Final = 512


class Binding:
    """How one function is called durably: bind arguments by name, encode them, decode them for the callee."""

    def __init__(
        self, fn: Callable[..., Any], signature: inspect.Signature | None, *, claim_check: ClaimCheck[Any] | None = None
    ) -> None:
        hints = _hints(fn) if signature is not None else {}
        parameters = list(signature.parameters.values()) if signature is not None else []
        self.signature, self._name = signature, getattr(fn, "__name__", type(fn).__name__)
        self.returns = hints.get("return", MISSING)
        self.result = codec_of_result(self.returns, claim_check)
        self.hints = {p.name: _whole(p, hints.get(p.name, MISSING)) for p in parameters}
        self.codecs = {name: values.codec_for(hint, name) for name, hint in self.hints.items()}
        self.variadic = any(p.kind in VARIADIC for p in parameters)
        positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self._in_order = [(p.name, self.codecs[p.name].encode_both) for p in positional]
        self._simple = len(positional) == len(parameters)
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        # The usual case: nothing can be left out of what is compared, so that one walk does.
        self._is_plain = not self._defaults and not any(codec.has_defaults for codec in self.codecs.values())
        self._plain = [(p.name, self.codecs[p.name].encode) for p in positional]

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
        """Return the arguments by name, as they stand on the log, and as they are compared (kernel rule 9.3).

        What is compared leaves out arguments and fields of models that equal their default.

        Raises:
            TypeError: they do not fit the signature.
            NotSerializable: one of them cannot be encoded; the path starts with the parameter's name.
        """
        if self.signature is None:
            whole = {"args": values.encode(list(args)), "kwargs": values.encode(dict(kwargs))}
            return whole, whole
        if not kwargs and self._simple and len(args) == len(self._in_order):
            if self._is_plain:
                plain = {name: encode(value) for (name, encode), value in zip(self._plain, args, strict=True)}
                return plain, plain
            both = {name: encode(value) for (name, encode), value in zip(self._in_order, args, strict=True)}
        else:
            bound = self._bound(self.signature, args, kwargs)
            both = {name: self.codecs[name].encode_both(value) for name, value in bound.items()}
        encoded = {name: pair[0] for name, pair in both.items()}
        compared = {name: pair[1] for name, pair in both.items() if not self._is_default(name, pair[0])}
        return encoded, compared

    def _bound(
        self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the arguments by name.

        Raises:
            TypeError: they do not fit; it says how the function is called.
        """
        try:
            return signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            misfit = str(error)
        shown = [
            p.replace(annotation=_Bare(p.annotation)) if isinstance(p.annotation, str) else p
            for p in signature.parameters.values()
        ]
        called = f"{self._name}{inspect.Signature(shown)}"
        taken = sum(p.kind in _POSITIONAL for p in signature.parameters.values())
        if len(args) > taken and not self.variadic:
            raise TypeError(f"{called} takes {taken} argument{'s' if taken != 1 else ''}, {len(args)} were given")
        raise TypeError(f"{called}: {misfit}")

    def decode(self, encoded: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return a fresh copy of the arguments, as positional and keyword arguments of a call."""
        if self.signature is None:
            return values.decode(encoded["args"]), values.decode(encoded["kwargs"])
        decoded = {name: self.codecs[name].decode(value) for name, value in encoded.items()}
        if not self.variadic:
            return [], decoded
        bound = inspect.BoundArguments(self.signature, decoded)
        return list(bound.args), bound.kwargs

    def validated(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return *arguments*, given by name from outside, as values of the parameters' types.

        Raises:
            InvalidPayload: some are missing, unknown or do not fit; all of them are told.
        """
        unknown = [name for name in arguments if name not in self.hints]
        problems = [values.Problem(name, "is no parameter of this tool", "") for name in unknown]
        given: dict[str, Any] = {}
        for name, hint in self.hints.items():
            if name not in arguments:
                if name not in self._defaults:
                    problems.append(values.Problem(name, "is missing", ""))
                continue
            try:
                given[name] = values.check(arguments[name], hint)
            except values.InvalidPayload as error:
                problems.extend(replace(p, path=f"{name}.{p.path}") for p in error.problems)
        if problems:
            raise values.InvalidPayload(problems=tuple(problems))
        return given

    def _is_default(self, name: str, encoded: Any) -> bool:
        if name not in self._defaults:
            return False
        try:
            return values.alike(self.codecs[name].encode(self._defaults[name]), encoded)
        except values.NotSerializable:
            return False


class _Bare(str):
    """An annotation as its author wrote it, which a signature shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _whole(parameter: inspect.Parameter, hint: Any) -> Any:
    if hint is MISSING:
        return hint
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple[hint, ...]
    return dict[str, hint] if parameter.kind is parameter.VAR_KEYWORD else hint


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    return resolved_hints(fn if inspect.isroutine(fn) or inspect.isclass(fn) else type(fn).__call__)


@lru_cache(maxsize=INLINE_CODECS_MAX)
def binding_of_function(fn: Callable[..., Any]) -> Binding:
    """Return the binding of an inline function; one without a signature is recorded as args and kwargs."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return Binding(fn, None)
    if any(p.kind is p.POSITIONAL_ONLY for p in signature.parameters.values()):
        return Binding(fn, None)
    return Binding(fn, signature)


@lru_cache(maxsize=4096)
def _binding(fn: Callable[..., Any], takes_context: bool, claim_check: ClaimCheck[Any] | None) -> Binding:
    signature = inspect.signature(fn)
    if takes_context:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return Binding(fn, signature, claim_check=claim_check)


def binding_of(step: Step[Any, Any]) -> Binding:
    """Return the binding of a declared step."""
    return _binding(step.fn, step.takes_context, step.claim_check)
