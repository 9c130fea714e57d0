"""Declaring a read model: a pure fold over the events of one run, whose outcome is kept as a row beside the logs.

A declaration does nothing by itself: `define_config(read_models=[...])` registers it, and a worker keeps its rows current.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, get_type_hints, overload

from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.ids import declared_name
from loom.core.missing import MISSING

R = TypeVar("R")

Fold = Callable[[R | None, EventEnvelope[Any]], R | None]
"""Given the row so far (None: there is none) and the next event, returns the row after it; None: the run has no row."""

_SHAPE: Final = "Write it as: def totals(row: Totals | None, event: loom.EventEnvelope) -> Totals | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadModel(Generic[R]):
    """A declared read model; `loom.read_model` makes it. Calling it calls the plain function."""

    fn: Fold[R]
    id: str
    description: str = ""

    def __call__(self, row: R | None, event: EventEnvelope[Any]) -> R | None:
        return self.fn(row, event)

    @property
    def __wrapped__(self) -> Fold[R]:
        return self.fn

    def row_type(self) -> Any:
        """Return the annotation of what the fold returns, MISSING where there is none.

        Raises:
            InvalidDeclaration: it names something that cannot be found.
        """
        try:
            return get_type_hints(self.fn, include_extras=True).get("return", MISSING)
        except Exception as error:  # an annotation is an arbitrary expression of the author's
            told = f"an annotation of the read model {self.id} cannot be resolved: {error}"
            raise InvalidDeclaration(told, hint="Import the type at run time (not under TYPE_CHECKING).") from error


@overload
def read_model(fn: Fold[R], /) -> ReadModel[R]: ...
@overload
def read_model(*, id: str | None = None) -> Callable[[Fold[R]], ReadModel[R]]: ...
def read_model(fn: Fold[Any] | None = None, /, *, id: str | None = None) -> Any:
    """Declare a read model: a plain `def` that takes the row of a run so far, and its next event, and returns the row after it.

        @loom.read_model
        def totals(row: Totals | None, event: loom.EventEnvelope) -> Totals | None: ...

    It begins with None and is given every event of a run, in order, each once. It must be pure: no clock, no randomness, no
    I/O, no global that changes, and the row that it is given stays as it is. *id* names it in stores (else the name of
    the function). When its code changes, its rows are made anew.

    Raises:
        InvalidDeclaration: it is no such function, or its name is none for a store.
    """
    if fn is None:
        return lambda fn: _declare(fn, id)
    return _declare(fn, id)


def _declare(fn: Fold[Any], id: str | None) -> ReadModel[Any]:
    name = getattr(fn, "__qualname__", repr(fn))
    if not inspect.isfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn):
        raise InvalidDeclaration(f"the read model {name} must be a plain def", hint=_SHAPE)
    parameters = list(inspect.signature(fn).parameters.values())
    if len(parameters) != 2 or any(
        each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters
    ):
        raise InvalidDeclaration(f"the read model {name} must take a row and an event", hint=_SHAPE)
    return ReadModel(fn=fn, id=declared_name("read model", id or fn.__name__), description=inspect.getdoc(fn) or "")
