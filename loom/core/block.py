"""The block of `ctx.scope` and its tasks, as a flow sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, TypeVarTuple, Unpack, overload

from loom.core.ids import label
from loom.core.step import Step

if TYPE_CHECKING:
    from loom.kernel.context import Context

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


BODY: Final = "body"
"""The name of the branch that the body of a block is."""


class ScopeTask(Generic[R]):
    """A task of a scope: `await task` waits for its result, from any branch, and gives it again after the block.

    When it fails its scope ends, and with it whoever waits for the task in there. After the block `await task` raises what it
    failed with, or `BranchWasCut`.
    """

    def __init__(
        self, name: str, *, result: Callable[[], Coroutine[Any, Any, R]], has_ended: Callable[[], bool]
    ) -> None:
        self.name, self._result, self._has_ended = name, result, has_ended

    @property
    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._has_ended()

    def __await__(self) -> Generator[Any, Any, R]:
        return self._result().__await__()


class TaskNames:
    """The names that the branches of one block have."""

    def __init__(self) -> None:
        self._taken = {BODY}
        self._numbered = 0

    def take(self, name: str | None) -> str:
        """Return *name*, or the next number, as the name of a new task.

        Raises:
            InvalidId, ValueError: it cannot be a name, or is taken.
        """
        if name is None:
            name, self._numbered = str(self._numbered), self._numbered + 1
        if label("task", name) in self._taken:
            raise ValueError(f"a task of this scope is called {name!r} already")
        self._taken.add(name)
        return name


class Scope(Protocol):
    """A block in which tasks run side by side; `ctx.scope` makes it."""

    @overload
    def start(self, fn: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ScopeTask[R]: ...
    @overload
    def start(self, fn: Step[..., R], /, *args: Any, name: str, **kwargs: Any) -> ScopeTask[R]: ...
    @overload
    def start(
        self, fn: Callable[[Context, Unpack[Ts]], Awaitable[R]], /, *args: *Ts, name: str | None = ...
    ) -> ScopeTask[R]: ...
    def start(self, fn: Any, /, *args: Any, **kwargs: Any) -> ScopeTask[Any]:  # type: ignore[misc]  # it takes them all
        """Start an `async def fn(ctx, *args)`, or a step, as a task of the block; `name=` is what identities call it.

        Raises:
            RuntimeError: the block is not open.
            ValueError: a task of the block has this name already.
        """
        ...

    async def __aenter__(self) -> Scope: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
