"""The effect runtime: the one door through which a run touches the world (spec 5.2).

An effect is known by its tool id and called with its decoded arguments through a chain of middleware, each
`async (ctx, input, next) -> result`, outermost first. Retrying stands outside the chain, since its attempts are facts of the
log: `next_attempt` decides, the step syscall records. With no middleware the call goes straight to the function.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from loom.core.claims import ClaimCheck, ContentNotWired
from loom.core.middleware import ClaimsResults, EffectContext, Middleware, Next, StepTimedOut
from loom.core.step import Step, StepContext
from loom.spi.threads import DaemonThreads


class EffectRuntime:
    """Runs effects, through the middleware it was made with."""

    def __init__(
        self,
        middleware: Sequence[Middleware] = (),
        *,
        threads: DaemonThreads | None = None,
        claims: ClaimsResults | None = None,
        stand_ins: Mapping[str, Step[Any, Any]] | None = None,
    ) -> None:
        self.middleware, self.claims = tuple(middleware), claims
        self._threads = threads or DaemonThreads()
        self._stand_ins = dict(stand_ins or {})

    def on(self, threads: DaemonThreads, claims: ClaimsResults) -> EffectRuntime:
        """Return one that runs effects as this does, elsewhere: on *threads*, with contents kept by *claims*."""
        return EffectRuntime(self.middleware, threads=threads, claims=claims, stand_ins=self._stand_ins)

    def with_stand_ins(self, stand_ins: Mapping[str, Step[Any, Any]]) -> EffectRuntime:
        """Return one that calls the functions of *stand_ins*, by the id of a step, in the place of those of the steps."""
        all_of_them = {**self._stand_ins, **stand_ins}
        return EffectRuntime(self.middleware, threads=self._threads, claims=self.claims, stand_ins=all_of_them)

    def chain(self) -> list[str]:
        """Return the names of what an effect passes through, outermost first."""
        named = [getattr(m, "__qualname__", type(m).__qualname__) for m in self.middleware]
        return ["retry", *named]

    def invoke(
        self, step: Step[Any, Any], context: StepContext | None, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        """Return what runs one attempt and gives what the function returns.

        *context* is None only where nothing looks at it.

        Raises, when awaited:
            StepTimedOut: it took longer than the step allows; a thread has ended by then all the same.
            ContentNotWired (at once): its result is to be claimed, and there is no place for contents.
        """
        stand_in = self._stand_ins.get(step.id)
        if stand_in is not None:
            step = replace(step, fn=stand_in.fn, takes_context=stand_in.takes_context)
        if step.claim_check is not None and self.claims is None:
            raise ContentNotWired(what=f"the result of {step.id}")
        if context is not None and self.claims is not None:
            context = replace(context, content=self.claims.content)
        if context is not None and self.middleware:
            work = self._through(step, context, kwargs, partial(self._call, step, context, args))
        else:
            work = self._call(step, context, args, kwargs)
        if step.claim_check is not None:
            assert self.claims is not None
            work = _claimed(self.claims, step.claim_check, work)
        return work if step.timeout is None else _bounded(work, step.timeout)

    def _through(
        self, step: Step[Any, Any], context: StepContext, kwargs: dict[str, Any], call: Next
    ) -> Awaitable[Any]:
        about = EffectContext(step.id, context, step.idempotent)
        chain = call
        for middleware in reversed(self.middleware):
            chain = partial(_link, middleware, about, chain)
        return chain(kwargs)

    def _call(
        self, step: Step[Any, Any], context: StepContext | None, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        if step.takes_context:
            args = [context, *args]
        if step.is_async:
            work: Awaitable[Any] = step.fn(*args, **kwargs)
            return work
        return self._in_thread(partial(step.fn, *args, **kwargs))

    async def _in_thread(self, fn: Callable[[], Any]) -> Any:
        running = self._threads.submit(fn, contextvars.copy_context())
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread cannot be stopped: no further attempt starts before it has ended, its result is dropped.
            if not running.done():
                await asyncio.wait({running})
            if not running.cancelled():
                running.exception()
            raise
        # a plain def may hand back a coroutine (functools.partial of one, a lambda)
        return await result if asyncio.iscoroutine(result) else result


def _link(middleware: Middleware, about: EffectContext, after: Next, kwargs: dict[str, Any]) -> Awaitable[Any]:
    return middleware(about, kwargs, after)


async def _claimed(claims: ClaimsResults, check: ClaimCheck[Any], work: Awaitable[Any]) -> Any:
    """Return the envelope of what *work* gives: outside of all middleware, which sees the result itself."""
    return await claims.claimed(check, await work)


async def _bounded(work: Awaitable[Any], timeout: timedelta) -> Any:
    bound = asyncio.timeout(timeout.total_seconds())
    try:
        async with bound:
            return await work
    except TimeoutError as error:
        if bound.expired():
            raise StepTimedOut(f"the attempt took longer than {timeout.total_seconds():g} s") from error
        raise
