"""Arms of `select`: what a flow may wait for, as values. Each is an async function of a context like any other branch."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, overload

from loom.core.missing import MISSING

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(Generic[T]):
    """Waits for an answer, as `ctx.suspend` does."""

    label: str
    expects: Any = MISSING
    show: Any = None
    timeout: timedelta | None = None
    key: str | None = None

    def __call__(self, ctx: Any, /) -> Coroutine[Any, Any, T]:
        suspended: Coroutine[Any, Any, T] = ctx.suspend(
            self.label, expects=self.expects, show=self.show, timeout=self.timeout, key=self.key
        )
        return suspended


@dataclass(frozen=True, slots=True)
class Timer:
    """Waits for the clock, as `ctx.sleep` and `ctx.sleep_until` do."""

    when: timedelta | datetime
    name: str = "sleep"

    def __call__(self, ctx: Any, /) -> Coroutine[Any, Any, None]:
        sleep = ctx.sleep_until if isinstance(self.when, datetime) else ctx.sleep
        slept: Coroutine[Any, Any, None] = sleep(self.when, name=self.name)
        return slept


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic(Generic[T]):
    """Waits for a message, as `ctx.receive` does."""

    name: str
    expects: Any = MISSING

    def __call__(self, ctx: Any, /) -> Coroutine[Any, Any, T]:
        received: Coroutine[Any, Any, T] = ctx.receive(self.name, expects=self.expects)
        return received


@overload
def gate(
    label: str, *, expects: type[T], show: Any = ..., timeout: timedelta | None = ..., key: str | None = ...
) -> Gate[T]: ...


@overload
def gate(
    label: str, *, expects: Any = ..., show: Any = ..., timeout: timedelta | None = ..., key: str | None = ...
) -> Gate[Any]: ...
def gate(
    label: str, *, expects: Any = MISSING, show: Any = None, timeout: timedelta | None = None, key: str | None = None
) -> Gate[Any]:
    """Return an arm that opens a gate and waits for its answer; what it is given means what it does for `ctx.suspend`.

    A gate that nobody answers within *timeout* fails, as an arm that raises `GateTimedOut`.
    """
    return Gate(label=label, expects=expects, show=show, timeout=timeout, key=key)


def timer(when: timedelta | datetime, /, *, name: str = "sleep") -> Timer:
    """Return an arm that waits for a duration, or until an aware datetime; its value is None."""
    return Timer(when, name)


@overload
def topic(name: str, *, expects: type[T]) -> Topic[T]: ...
@overload
def topic(name: str, *, expects: Any = ...) -> Topic[Any]: ...
def topic(name: str, *, expects: Any = MISSING) -> Topic[Any]:
    """Return an arm that waits for the next message of a topic; only the arm that wins takes a message."""
    return Topic(name=name, expects=expects)
