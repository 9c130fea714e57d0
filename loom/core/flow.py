"""Declaring a flow: `@flow` on a plain `async def` that takes a context and one input or none."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

from loom.core.errors import InvalidDeclaration
from loom.core.ids import FlowId, declared_name
from loom.core.missing import MISSING
from loom.core.starts import Starts

if TYPE_CHECKING:
    from loom.kernel.context import Context

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow(Generic[P, R_co]):
    """A declared flow. Calling it calls the plain function; the runtime makes it durable."""

    fn: Callable[..., Awaitable[Any]]
    id: FlowId
    version: str
    takes_input: bool
    input_required: bool
    description: str = ""
    starts: Starts | None = None

    def __call__(self, ctx: Context, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R_co]:
        return self.fn(ctx, *args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Awaitable[Any]]:
        return self.fn

    def hints(self) -> tuple[Any, Any]:
        """Return the annotations of the input and of the result, MISSING where there is none.

        Raises:
            InvalidDeclaration: an annotation names something that cannot be found.
        """
        notes = resolved_hints(self.fn)
        names = list(inspect.signature(self.fn).parameters)
        return (notes.get(names[1], MISSING) if self.takes_input else None), notes.get("return", MISSING)


def resolved_hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """Return the resolved annotations of *fn*, with `Annotated` kept."""
    try:
        return get_type_hints(fn, include_extras=True)
    except Exception as error:  # an annotation is an arbitrary expression of the author's
        raise InvalidDeclaration(
            f"an annotation of {fn.__module__}.{fn.__qualname__} cannot be resolved: {error}",
            hint="Import the type at run time (not under TYPE_CHECKING), or quote nothing that is not importable.",
        ) from error


def _declare(fn: Callable[..., Any], id: str | None, version: str, starts: Starts | None) -> Flow[Any, Any]:
    name = getattr(fn, "__qualname__", repr(fn))
    if not inspect.iscoroutinefunction(fn):
        raise InvalidDeclaration(f"the flow {name} must be an async def")
    parameters = list(inspect.signature(fn).parameters.values())
    if not 1 <= len(parameters) <= 2 or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise InvalidDeclaration(
            f"the flow {name} must take a context and one input or none",
            hint="Put several inputs into one model: async def flow(ctx: loom.Context, order: Order).",
        )
    _refuse_starts(name, starts, takes_input=len(parameters) == 2)
    return Flow(
        fn=fn,
        id=FlowId(declared_name("flow", id or fn.__name__)),
        version=version,
        takes_input=len(parameters) == 2,
        input_required=len(parameters) == 2 and parameters[1].default is inspect.Parameter.empty,
        description=inspect.getdoc(fn) or "",
        starts=starts,
    )


def _refuse_starts(name: str, starts: object, *, takes_input: bool) -> None:
    if starts is None:
        return
    if not isinstance(starts, Starts):
        raise InvalidDeclaration(f"the flow {name}: starts={starts!r} is no loom.Starts")
    if starts.paths and not takes_input:
        hint = "Leave the key off: then it counts for the flow as a whole."
        raise InvalidDeclaration(f"the flow {name} takes no input, so it has no {starts.paths[0]!r}", hint=hint)


class FlowDecorator:
    """What `@flow(...)` with options returns."""

    def __init__(self, id: str | None, version: str, starts: Starts | None) -> None:
        self._id, self._version, self._starts = id, version, starts

    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Flow[P, R]:
        return _declare(fn, self._id, self._version, self._starts)


@overload
def flow(fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Flow[P, R]: ...
@overload
def flow(*, id: str | None = ..., version: str = ..., starts: Starts | None = ...) -> FlowDecorator: ...
def flow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,
    version: str = "1",
    starts: Starts | None = None,
) -> Any:
    """Declare a flow: a plain `async def` that takes a `Context` and one input or none.

    *id* is the function's name unless given. *version* is the author's own word for the contract of the flow; what
    the code is, the fingerprint tells. *starts* says how many of its runs may begin, and when (`loom.Starts`).

    Raises:
        InvalidDeclaration: the function is not async, its parameters are not a context and one input or none, or *starts*
            has keys while it takes no input.
    """
    decorator = FlowDecorator(id, version, starts)
    return decorator if fn is None else decorator(fn)
