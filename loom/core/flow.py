"""Declaring a flow: `@flow` on a plain `async def` that takes a context and one input or none."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    get_type_hints,
    overload,
)

from loom.core.changes import OnChange
from loom.core.changes import on_change as checked
from loom.core.effect_class import EffectClass, effect_class
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
    on_change: OnChange | None = None
    effects: EffectClass | None = None

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


class FlowOptions(TypedDict, total=False):
    """What `flow` takes; see there."""

    id: str | None
    version: str
    starts: Starts | None
    on_change: OnChange | None
    effects: EffectClass | None


def _declare(fn: Callable[..., Any], options: FlowOptions) -> Flow[Any, Any]:
    name = getattr(fn, "__qualname__", repr(fn))
    if not inspect.iscoroutinefunction(fn):
        raise InvalidDeclaration(f"the flow {name} must be an async def")
    parameters = list(inspect.signature(fn).parameters.values())
    if not 1 <= len(parameters) <= 2 or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise InvalidDeclaration(
            f"the flow {name} must take a context and one input or none",
            hint="Put several inputs into one model: async def flow(ctx: loom.Context, order: Order).",
        )
    starts, on_change, effects = options.get("starts"), options.get("on_change"), options.get("effects")
    _refuse_starts(name, starts, takes_input=len(parameters) == 2)
    return Flow(
        fn=fn,
        id=FlowId(declared_name("flow", options.get("id") or fn.__name__)),
        version=options.get("version", "1"),
        takes_input=len(parameters) == 2,
        input_required=len(parameters) == 2 and parameters[1].default is inspect.Parameter.empty,
        description=inspect.getdoc(fn) or "",
        starts=starts,
        on_change=None if on_change is None else checked(on_change, f"the flow {name}"),
        effects=None if effects is None else effect_class(effects, f"the flow {name}"),
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

    def __init__(self, options: FlowOptions) -> None:
        self._options = options

    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Flow[P, R]:
        return _declare(fn, self._options)


@overload
def flow(fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Flow[P, R]: ...
@overload
def flow(**options: Unpack[FlowOptions]) -> FlowDecorator: ...
def flow(fn: Callable[..., Any] | None = None, /, **options: Unpack[FlowOptions]) -> Any:
    """Declare a flow: a plain `async def` that takes a `Context` and one input or none.

    *id* is the function's name unless given. *version* ("1") is the author's own word for the contract of the flow; what
    the code is, the fingerprint tells. *starts* says how many of its runs may begin, and when (`loom.Starts`). *on_change* says
    what becomes of its runs whose code has changed (`check`, `refuse` or `allow`), as the app does unless given. *effects* is the
    most powerful class of effect that it may reach (`none`, `read`, `write` or `once`); `loom check` proves it, nothing else does.

    Raises:
        InvalidDeclaration: the function is not async, its parameters are not a context and one input or none, *starts* has keys
            while it takes no input, or *on_change* or *effects* is none of theirs.
    """
    decorator = FlowDecorator(options)
    return decorator if fn is None else decorator(fn)
