"""What wraps an effect: `async (ctx, input, next) -> result`, as authors and rings write it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from loom.core.claims import ClaimCheck, Claimed, StepContent
from loom.core.step import Step, StepContext


class EffectContext(NamedTuple):
    """What a middleware may know of the effect: its tool id, and the context that the step itself gets."""

    tool_id: str
    step: StepContext
    idempotent: bool


class StepTimedOut(TimeoutError):
    """An attempt ran longer than the step's timeout."""


class ClaimsResults(Protocol):
    """What takes the results of steps that declare a claim check, and gives contents to steps: loom/rings/claim_check.py."""

    @property
    def content(self) -> StepContent:
        """What a step gets as `step.content`."""
        ...

    async def claimed(self, check: ClaimCheck[Any], result: Any) -> Claimed[Any, Any]:
        """Keep *result* where it is larger than *check* allows on the log, and return its envelope.

        Raises:
            NotSerializable, DigestTooLarge: it, or its digest, cannot be kept.
            EffectInterrupted: the store could not be written.
        """
        ...


class Effects(Protocol):
    """The one door through which a run touches the world (spec 5.2); loom/driving/effects.py is the one there is."""

    @property
    def middleware(self) -> Sequence[Middleware]: ...

    def invoke(
        self, step: Step[Any, Any], context: StepContext | None, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        """Return what runs one attempt. *context* is None only where nothing looks at it.

        Raises, when awaited:
            StepTimedOut: it took longer than the step allows; a thread has ended by then all the same.
        """
        ...


Next: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
Middleware: TypeAlias = Callable[[EffectContext, dict[str, Any], Next], Awaitable[Any]]
