"""The syscalls that open branches, as a flow calls them. What they mean stands in scopes.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from loom.core.ids import label as check_label
from loom.core.step import Step
from loom.kernel.calls import Branch
from loom.kernel.entering import Entering, syscall
from loom.kernel.scopes import ScopeSyscall

if TYPE_CHECKING:
    from loom.kernel.context import Context

R = TypeVar("R")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")

Body: TypeAlias = Callable[["Context"], Awaitable[T]]
"""A branch of `parallel`: an async function of the context."""


class Branching(Entering):
    """The part of a context that opens branches."""

    @overload
    def parallel(self, a: Body[T1], b: Body[T2], /, *, name: str = ...) -> Coroutine[Any, Any, tuple[T1, T2]]: ...
    @overload
    def parallel(
        self, a: Body[T1], b: Body[T2], c: Body[T3], /, *, name: str = ...
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3]]: ...
    @overload
    def parallel(
        self, a: Body[T1], b: Body[T2], c: Body[T3], d: Body[T4], /, *, name: str = ...
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3, T4]]: ...
    @overload
    def parallel(self, *branches: Body[T], name: str = ...) -> Coroutine[Any, Any, tuple[T, ...]]: ...
    @overload
    def parallel(self, branches: Mapping[str, Body[T]], /, *, name: str = ...) -> Coroutine[Any, Any, dict[str, T]]: ...
    @syscall
    def parallel(self, *branches: Any, name: str = "parallel") -> Coroutine[Any, Any, Any]:
        """Run branches side by side, each an `async def branch(ctx)`, and return their results in the order given.

        A mapping names the branches (`checks/risk/...` in identities) and returns a dict. When a branch fails, the
        others end the step they are in and are cut; the first failure is raised.
        """
        branch = self._enter("parallel")
        named = len(branches) == 1 and isinstance(branches[0], Mapping)
        names = list(branches[0]) if named else [str(i) for i in range(len(branches))]
        functions = list(branches[0].values()) if named else list(branches)
        for function in functions:
            if not callable(function):
                raise TypeError(f"ctx.parallel takes async functions of a context, not {type(function).__name__}")
        bodies = [partial(function, self) for function in functions]
        shape = partial(_named, names) if named else tuple
        return self._scope(branch, ScopeSyscall("parallel", names, bodies, limit=None, shape=shape), name)

    @overload
    def map(
        self, fn: Step[[T], R], items: Iterable[T], /, *, limit: int | None = ..., name: str = ...
    ) -> Coroutine[Any, Any, list[R]]: ...
    @overload
    def map(
        self,
        fn: Callable[[Context, T], Awaitable[R]],
        items: Iterable[T],
        /,
        *,
        limit: int | None = ...,
        name: str = ...,
    ) -> Coroutine[Any, Any, list[R]]: ...
    @syscall
    def map(
        self, fn: Any, items: Iterable[Any], /, *, limit: int | None = None, name: str = "map"
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run a step, or an `async def branch(ctx, item)`, for each item, a branch an item, at most *limit* at once.

        Returns the results in the order of the items.
        """
        branch = self._enter("map")
        if isinstance(items, (set, frozenset)):
            raise TypeError("ctx.map takes items in an order; sort the set first")
        if limit is not None and limit < 1:
            raise ValueError(f"limit={limit}: at least one branch at once")
        bodies = [partial(_branch_of(fn, item), self) for item in items]
        names = [str(i) for i in range(len(bodies))]
        return self._scope(branch, ScopeSyscall("map", names, bodies, limit=limit), name)

    def _scope(self, branch: Branch, scope: ScopeSyscall, name: str) -> Coroutine[Any, Any, Any]:
        check_label("scope", name)
        if scope.kind == "parallel":
            for branch_name in scope.names:
                check_label("branch", branch_name)
        return self._drive.asking.outcome(self._call(branch, scope, branch.mint(name), scope.asked()))


def _branch_of(fn: Any, *args: Any) -> Callable[[Any], Awaitable[Any]]:
    return (lambda ctx: ctx.run(fn, *args)) if isinstance(fn, Step) else (lambda ctx: fn(ctx, *args))


def _named(names: Sequence[str], results: list[Any]) -> dict[str, Any]:
    return dict(zip(names, results, strict=True))
