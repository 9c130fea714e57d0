"""Declaring a unit of work: `@step` and `@tool`. Declarations do nothing by themselves."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from numbers import Integral
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from loom.core.claims import NO_CONTENT, ClaimCheck, Claimed, StepContent
from loom.core.errors import InvalidDeclaration, StepNotDurable
from loom.core.failures import FailureTypes
from loom.core.ids import declared_name, label
from loom.core.inside import INSIDE
from loom.core.retry import ONCE, Retry

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

DETACHED: Final = "detached"

ADDED_LATER: Final[Mapping[str, bool]] = {"added_later": True}
"""Metadata of a field that declarations have only of late: it counts in the fingerprint of code where it is set, and else the code is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """What a step may know about the attempt it is in. It is injected, and never recorded.

    *idempotency_key* is the same for every attempt of this step of this run, across crashes: hand it to the other
    side. *attempt* counts from 1. *deadline* is when this attempt is cut off (monotonic seconds of the running
    loop), None without a timeout. *resources* are those of `define_config(resources=...)`. *generation* is how often the
    run had been retried when it asked for this step. *content* gives the results that other steps have claimed, and takes one
    that is larger than memory.
    """

    execution_id: str
    step_id: str
    idempotency_key: str
    attempt: int
    resources: Mapping[str, Any]
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    deadline: float | None = None
    generation: int = 0
    cancelled: Callable[[], bool] = bool
    content: StepContent = NO_CONTENT

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is being cancelled, so that nobody waits for this step any more: one that runs long looks here."""
        return self.cancelled()

    @staticmethod
    def detached(**fields: Any) -> StepContext:
        """Return a context for calling a step as a plain function, in a test say; *fields* override."""
        known: dict[str, Any] = {
            "execution_id": DETACHED,
            "step_id": DETACHED,
            "idempotency_key": DETACHED,
            "attempt": 1,
            "resources": {},
            "log": logging.getLogger("loom.step"),
        }
        return StepContext(**(known | fields))


@dataclass(frozen=True, slots=True)
class Naming:
    """How a call of a step is told apart from others: by occurrence, key, a name of its own, as a retry, or as an undo."""

    kind: Literal["occurrence", "key", "name", "retry", "compensate"]
    value: str = ""


BY_OCCURRENCE: Final = Naming("occurrence")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step(Generic[P, R_co]):
    """A declared unit of work. Calling it calls the plain function; `ctx.run(step, ...)` makes it durable."""

    fn: Callable[..., Any]
    id: str
    takes_context: bool
    signature: inspect.Signature
    retry: Retry = ONCE
    timeout: timedelta | None = None
    idempotent: bool = True
    reads: bool = False
    failures: FailureTypes = field(default_factory=dict)
    naming: Naming = BY_OCCURRENCE
    description: str = ""
    is_tool: bool = False
    claim_check: ClaimCheck[Any] | None = None
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.fn))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the plain function, with a detached context where it takes one: in a test, say.

        In the body of a flow that is rarely meant, since nothing is recorded, so `StepNotDurable` is warned of there.
        """
        if INSIDE.get() == "flow":
            told = f"{self.id} was called as a plain function in a flow: it runs again at every replay"
            warnings.warn(StepNotDurable(f"{told}; write await ctx.run({self.id}, ...)"), stacklevel=2)
        if self.takes_context and not (args and isinstance(args[0], StepContext)):
            return self.fn(StepContext.detached(), *args, **kwargs)
        return self.fn(*args, **kwargs)

    def keyed(self, key: object) -> Step[P, R_co]:
        """Return the step with *key* naming the occurrence (`fetch#order-7`), for loops whose order may change."""
        return replace(self, naming=Naming("key", str(key)))

    def named(self, name: str) -> Step[P, R_co]:
        """Return the step under an id of its own; calling it again with equal arguments is served the first outcome."""
        return replace(self, naming=Naming("name", label("step", name)))

    def retried(self, n: int) -> Step[P, R_co]:
        """Return the step as the author's own *n*-th deliberate retry (`charge#retry:1`)."""
        number: Any = n
        if not isinstance(number, Integral) or n < 1:
            raise InvalidDeclaration(f"{self.id}.retried({n}): deliberate retries are counted from 1")
        return replace(self, naming=Naming("retry", str(int(n))))

    def undone_by(self, undo: Step[P, Any], *, unless: Sequence[str] = ()) -> Undoable[P, R_co]:
        """Return the step together with the one that undoes it, for `saga.run`: both take the same parameters.

        *undo* is called whatever became of the step, also where it FAILED: it has to look up what was done, and cope with a step
        that never happened, or happened half. Refunding blindly refunds a charge that was declined. *unless* names declared
        failures that say for sure that there is nothing to undo: `charge.undone_by(refund, unless=["declined"])`.

        Raises:
            InvalidDeclaration: the two take different parameters, or the step declares no failure of that name.
        """
        for channel in unless:
            if channel not in self.failures:
                hint = (
                    f"Declare it: failures={{{channel!r}: ...}}. Other failures do not tell whether anything was done."
                )
                raise InvalidDeclaration(f"{self.id} declares no failure {channel!r}", hint=hint)
        if list(self.signature.parameters) != list(undo.signature.parameters):
            raise InvalidDeclaration(
                f"{undo.id} cannot undo {self.id}: {undo.signature} is not {self.signature}",
                hint="Give both the same parameters, or give the undo arguments of its own: saga.undo(undo, ...).",
            )
        return Undoable(self, undo, tuple(unless))

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.fn


@dataclass(frozen=True, slots=True)
class Undoable(Generic[P, R_co]):
    """A step and the one that undoes it, *unless* it failed as one of these. `Step.undone_by` makes it."""

    step: Step[P, R_co]
    undo: Step[P, Any]
    unless: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)


def _takes_context(fn: Callable[..., Any], signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.annotation is inspect.Parameter.empty:
        return False
    note = first.annotation
    if isinstance(note, str):
        return note.rpartition(".")[2] == "StepContext"
    return note is StepContext


def _declare(fn: Callable[..., Any], *, id: str | None, is_tool: bool, **options: Any) -> Step[Any, Any]:
    if isinstance(fn, Step):
        raise InvalidDeclaration(f"{fn.id} is a step already")
    if not callable(fn):
        raise InvalidDeclaration(f"a step is a function, not {type(fn).__name__}")
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        raise InvalidDeclaration(
            f"{fn.__qualname__} is a generator", hint="A step returns one value; use ctx.stream for pieces."
        )
    name = declared_name("tool" if is_tool else "step", id or str(getattr(fn, "__name__", type(fn).__name__)))
    signature = inspect.signature(fn)
    takes_context = _takes_context(fn, signature)
    if takes_context:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    if any(p.kind is p.POSITIONAL_ONLY for p in signature.parameters.values()):
        raise InvalidDeclaration(f"{name} has positional-only parameters; arguments are recorded by name")
    options["description"] = options.get("description") or inspect.getdoc(fn) or ""
    if options.get("reads") and not options.get("idempotent", True):
        raise InvalidDeclaration(f"{name} cannot be both reads=True and idempotent=False")
    return Step(fn=fn, id=name, takes_context=takes_context, signature=signature, is_tool=is_tool, **options)


class StepDecorator:
    """What `@step(...)` with options returns: it keeps the signature, less an injected `StepContext`."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    @overload
    def __call__(self, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Step[Any, Any]:
        return _declare(fn, **self._options)


class ClaimingDecorator(Protocol[D_co]):
    """What a decorator with `claim_check` is to a type checker: the result of the step is the envelope of what is returned."""

    @overload
    def __call__(self, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, Claimed[R, D_co]]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Step[P, Claimed[R, D_co]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[StepContext, P], R], /) -> Step[P, Claimed[R, D_co]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, Claimed[R, D_co]]: ...


@overload
def step(fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    id: str | None = ...,
    retry: Retry = ...,
    timeout: timedelta | None = ...,
    idempotent: bool = ...,
    reads: bool = ...,
    failures: FailureTypes | None = ...,
) -> StepDecorator: ...
@overload
def step(
    *,
    claim_check: ClaimCheck[D],
    id: str | None = ...,
    retry: Retry = ...,
    timeout: timedelta | None = ...,
    idempotent: bool = ...,
    reads: bool = ...,
    failures: FailureTypes | None = ...,
) -> ClaimingDecorator[D]: ...
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,
    retry: Retry = ONCE,
    timeout: timedelta | None = None,
    idempotent: bool = True,
    reads: bool = False,
    failures: FailureTypes | None = None,
    claim_check: ClaimCheck[Any] | None = None,
) -> Any:
    """Declare a durable unit of work.

    *id* is the function's name unless given. *timeout* bounds one attempt. `idempotent=False` says that running it
    twice does harm: it is started once, and if Loom cannot know whether it happened, the run parks in doubt.
    `reads=True` says that it changes nothing anywhere, so it need not wait for earlier outcomes to be on disk.
    *failures* declares channels for `fail`, or the author's own exception types. With *claim_check* the result is claimed: what
    `ctx.run` returns is its envelope, and a large result itself is kept as a content.

    Raises:
        InvalidDeclaration: the function or the options cannot be honoured.
    """
    decorator = StepDecorator(
        id=id,
        is_tool=False,
        retry=retry,
        timeout=timeout,
        idempotent=idempotent,
        reads=reads,
        failures=dict(failures or {}),
        claim_check=claim_check,
    )
    return decorator if fn is None else decorator(fn)


@overload
def tool(fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /) -> Step[P, R]: ...
@overload
def tool(fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
@overload
def tool(fn: Callable[Concatenate[StepContext, P], R], /) -> Step[P, R]: ...
@overload
def tool(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def tool(
    *,
    id: str | None = ...,
    description: str | None = ...,
    retry: Retry = ...,
    timeout: timedelta | None = ...,
    idempotent: bool = ...,
    reads: bool = ...,
    failures: FailureTypes | None = ...,
) -> StepDecorator: ...
@overload
def tool(
    *,
    claim_check: ClaimCheck[D],
    id: str | None = ...,
    description: str | None = ...,
    retry: Retry = ...,
    timeout: timedelta | None = ...,
    idempotent: bool = ...,
    reads: bool = ...,
    failures: FailureTypes | None = ...,
) -> ClaimingDecorator[D]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,
    description: str | None = None,
    retry: Retry = ONCE,
    timeout: timedelta | None = None,
    idempotent: bool = True,
    reads: bool = False,
    failures: FailureTypes | None = None,
    claim_check: ClaimCheck[Any] | None = None,
) -> Any:
    """Declare a step that a model may call by its id: `ctx.execute("stock", {"item": "lamp"})`.

    It is found where the app has it: `define_config(steps=[stock])`, or a module of `step_modules`. Arguments that come by id are
    validated against the signature before the tool runs. *description* is the docstring unless given: hand it to the model, with the
    `id` and the `signature`. The rest is as in `step`.

    Raises:
        InvalidDeclaration: the function or the options cannot be honoured.
    """
    decorator = StepDecorator(
        id=id,
        is_tool=True,
        description=description or "",
        retry=retry,
        timeout=timeout,
        idempotent=idempotent,
        reads=reads,
        failures=dict(failures or {}),
        claim_check=claim_check,
    )
    return decorator if fn is None else decorator(fn)
