"""The syscalls that open branches, as a flow calls them: what they take, checked and put into one value.

What a scope means stands in kernel/scopes.py, when it ends in tally.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, overload

from loom.core.block import Scope
from loom.core.durations import timeout_ms
from loom.core.ids import label
from loom.core.json import JsonObject
from loom.core.step import Step
from loom.core.tally import Selected, Shape, Tally, as_dict, as_list, as_selected, as_tuple, as_value

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


class Opening(NamedTuple):
    """What a scope is opened with: the *branches*, by *names*, at most *limit* at once, a *tally*, and what it returns.

    *about* is compared on replay: its kind, its branches, and what else it was asked with. *name* is its label.
    """

    about: JsonObject
    name: str
    names: Sequence[str] = ()
    branches: Sequence[Body[Any]] = ()
    tally: Tally | None = None
    shape: Shape = as_list
    limit: int | None = None


class Branching:
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
    def parallel(self, *branches: Any, name: str = "parallel") -> Coroutine[Any, Any, Any]:
        """Run branches side by side, each an `async def branch(ctx)`, and return their results in the order given.

        A mapping names the branches (`checks/risk/...` in identities) and returns a dict. When a branch fails, the
        others end the step they are in and are cut; the first failure is raised.
        """
        return self._branches("parallel", branches, name, shapes=(as_tuple, as_dict))

    def select(self, label: str = "select", /, **arms: Body[T]) -> Coroutine[Any, Any, Selected[T]]:
        """Wait for the first of several things, and return its name and value: `won.name`, `won.value`.

        An arm is an async function of the context, or one of `loom.gate`, `loom.timer` and `loom.topic`. Who won is
        recorded. The other arms are cut: a gate is closed, an idempotent step in flight is cancelled, one that is
        not idempotent ends and is recorded. If the arm that ends first fails, its failure is raised.
        """
        tally = Tally(wanted=1)
        return self._branches("select", [arms], label, shapes=(as_selected, as_selected), tally=tally)

    @overload
    def first(self, n: int, a: Body[T1], b: Body[T2], /, *, name: str = ...) -> Coroutine[Any, Any, list[T1 | T2]]: ...
    @overload
    def first(
        self, n: int, a: Body[T1], b: Body[T2], c: Body[T3], /, *, name: str = ...
    ) -> Coroutine[Any, Any, list[T1 | T2 | T3]]: ...
    @overload
    def first(self, n: int, /, *branches: Body[T], name: str = ...) -> Coroutine[Any, Any, list[T]]: ...
    @overload
    def first(
        self, n: int, branches: Mapping[str, Body[T]], /, *, name: str = ...
    ) -> Coroutine[Any, Any, dict[str, T]]: ...
    def first(self, n: int, /, *branches: Any, name: str = "first") -> Coroutine[Any, Any, Any]:
        """Run branches side by side until *n* have succeeded, and return those results in the order in which they came.

        A mapping names the branches and returns a dict in that order. Who counted is recorded, and the others are cut as
        by `select`. A branch that fails does not count; once too few are left, the first failure is raised, with the
        others attached as notes.
        """
        count = len(branches[0] if _is_mapping(branches) else branches)
        if not (_is_count(n) and n <= count):
            raise ValueError(f"the first {n!r:.60} of {count} branches")
        tally = Tally(wanted=int(n), failures_max=count - int(n))
        return self._branches("first", branches, name, shapes=(as_list, as_dict), tally=tally)

    @overload
    def any(self, a: Body[T1], b: Body[T2], /, *, name: str = ...) -> Coroutine[Any, Any, T1 | T2]: ...
    @overload
    def any(
        self, a: Body[T1], b: Body[T2], c: Body[T3], /, *, name: str = ...
    ) -> Coroutine[Any, Any, T1 | T2 | T3]: ...
    @overload
    def any(self, *branches: Body[T], name: str = ...) -> Coroutine[Any, Any, T]: ...
    @overload
    def any(self, branches: Mapping[str, Body[T]], /, *, name: str = ...) -> Coroutine[Any, Any, Selected[T]]: ...
    def any(self, *branches: Any, name: str = "any") -> Coroutine[Any, Any, Any]:
        """Run branches side by side until one has succeeded, and return its result; of a mapping, its name as well.

        It is recorded and the others are cut as by `select`. A branch that fails does not count; when all have failed, the
        first failure is raised, with the others attached as notes.
        """
        count = len(branches[0] if _is_mapping(branches) else branches)
        tally = Tally(wanted=1, failures_max=count - 1)
        return self._branches("any", branches, name, shapes=(as_value, as_selected), tally=tally)

    def scope(self, *, name: str = "scope", timeout: timedelta | float | None = None) -> Scope:
        """Return a block in which tasks run side by side: `async with ctx.scope() as scope: task = scope.start(fn, arg)`.

        Leaving the block waits for its tasks. When the body of the block or a task fails, the others end the step that they
        are in and are cut, and the first failure is raised, with later ones attached as notes. *timeout* is a
        timedelta, or seconds, from when the block is entered.

        Raises:
            ScopeTimedOut: its time was over, and what was left in it was cut, as by `select`.
        """
        about: JsonObject = {"kind": "scope"}
        if timeout is not None:
            about["timeout_ms"] = timeout_ms(timeout)
        return self._block(Opening(about, name))

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
    def map(
        self, fn: Any, items: Iterable[Any], /, *, limit: int | None = None, name: str = "map"
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run a step, or an `async def branch(ctx, item)`, for each item, a branch an item, at most *limit* at once.

        Returns the results in the order of the items.
        """
        if isinstance(items, (set, frozenset)):
            raise TypeError("ctx.map takes items in an order; sort the set first")
        if limit is not None and not _is_count(limit):
            raise ValueError(f"limit={limit!r:.60}: a number of branches, at least one at once")
        branches = [branch_of(fn, item) for item in items]
        names = list(map(str, range(len(branches))))
        return self._open(Opening({"kind": "map", "branches": len(names)}, name, names, branches, limit=limit))

    def _branches(
        self,
        kind: str,
        branches: Sequence[Any],
        name: str,
        *,
        shapes: tuple[Shape, Shape],
        tally: Tally | None = None,
    ) -> Coroutine[Any, Any, Any]:
        named = _is_mapping(branches)
        functions = dict(branches[0]) if named else {str(i): each for i, each in enumerate(branches)}
        for function in functions.values():
            if not callable(function) or isinstance(function, Step):  # a step is asked for by ctx.run, in the branch
                raise TypeError(f"ctx.{kind} takes async functions of a context, not {type(function).__name__}")
        if not functions and tally is not None:
            raise ValueError(f"ctx.{kind} of no branches")
        names = [label("branch", each) for each in functions]
        numbered = names == [str(i) for i in range(len(names))]
        about: JsonObject = {"kind": kind, "branches": len(names) if numbered else names}
        if kind == "first" and tally is not None:
            about["wanted"] = tally.wanted
        return self._open(Opening(about, name, names, list(functions.values()), tally, shapes[named]))

    def _open(self, opening: Opening) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    def _block(self, opening: Opening) -> Scope:
        raise NotImplementedError


def _is_count(number: Any) -> bool:
    return isinstance(number, Integral) and int(number) >= 1


def _is_mapping(branches: Sequence[Any]) -> bool:
    return len(branches) == 1 and isinstance(branches[0], Mapping)


def branch_of(fn: Any, *args: Any, **kwargs: Any) -> Body[Any]:
    """Return a branch that runs *fn*, a step or an async function of the context, with the arguments."""
    if isinstance(fn, Step):
        return lambda ctx: ctx.run(fn, *args, **kwargs)
    return lambda ctx: fn(ctx, *args, **kwargs)
