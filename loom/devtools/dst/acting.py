"""Steps in a simulation: what stands in for them, how long they take, and the deaths between an effect and its record."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from loom.core.errors import LoomError
from loom.core.middleware import ClaimsResults, EffectContext, Middleware, Next
from loom.core.missing import MISSING
from loom.core.step import Step, StepContext
from loom.core.step import step as declared
from loom.devtools.dst.machine import ProcessLoop
from loom.devtools.dst.made_up import made_up
from loom.devtools.dst.observed import Effect
from loom.devtools.dst.schedule import Fault, Places
from loom.devtools.dst.world import NoValue, World
from loom.devtools.testing import OneAtATime
from loom.driving.effects import EffectRuntime
from loom.values.binding import binding_of

STEP_S: Final = 0.02
"""So long a step takes at most, half before its effect and half after it, unless the schedule makes it slow."""

_HINT: Final = "Give it a stand-in, World(steps={{{step!r}: ...}}) by --world, or let it run as it is written: World(real=True), --real."


class Audience(Protocol):
    """Who is told of effects."""

    def began(self, step: Step[Any, Any], context: StepContext, process: str) -> Effect:
        """An attempt at *step* begins."""
        ...

    def refused(self, error: LoomError) -> None:
        """The simulation cannot go on: it lacks something."""
        ...

    def tell(self, process: str, what: str) -> None:
        """Something happened in a process."""
        ...


class SimulatedEffects(EffectRuntime):
    """The effects of one simulated process: those of *world*, with the *middleware* of the app round them."""

    def __init__(
        self,
        world: World,
        loop: ProcessLoop,
        places: Places,
        *,
        middleware: tuple[Middleware, ...],
        audience: Audience,
        claims: ClaimsResults,
    ) -> None:
        wrapping = [*middleware] or [_pass_on]  # with one, each step is given its context
        super().__init__(wrapping, threads=OneAtATime(), claims=claims)
        self._world, self._loop, self._places, self._audience = world, loop, places, audience
        self._stand_ins: dict[str, Step[Any, Any]] = {}

    def invoke(
        self, step: Step[Any, Any], context: StepContext | None, args: list[Any], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        """Return what runs one attempt at what stands in for *step*; see `EffectRuntime.invoke`."""

        async def acted(context: StepContext, *args: Any, **kwargs: Any) -> Any:
            return await self._act(step, context, args, kwargs)

        return super().invoke(replace(step, fn=acted, takes_context=True), context, args, kwargs)

    async def _act(self, step: Step[Any, Any], context: StepContext, args: Any, kwargs: Any) -> Any:
        effect = self._audience.began(step, context, self._loop.name)
        fault = self._places.next("step")
        if fault is not None and not fault.strikes_after:
            self._audience.tell(self._loop.name, f"{fault} ({step.id})")
        if fault is not None and fault.kind == "crash-before":
            await self._loop.die()
        await self._take_time(fault)
        effect.happened = True
        effect.result = result = await self._result(step, context, args, kwargs)
        effect.ended = True
        self._audience.tell(self._loop.name, f"{effect.step_id} has happened")
        if fault is not None and fault.kind == "crash-after":
            self._audience.tell(self._loop.name, f"{fault} ({step.id})")
            await self._loop.die()
        await self._take_time(None)
        return result

    async def _take_time(self, fault: Fault | None) -> None:
        seconds = self._loop.machine.random.random() * STEP_S / 2
        await asyncio.sleep(seconds + fault.seconds if fault is not None else seconds)

    async def _result(self, step: Step[Any, Any], context: StepContext, args: Any, kwargs: Any) -> Any:
        if step.id in self._world.steps:
            stand_in = self._world.steps[step.id]
            if not callable(stand_in):
                return stand_in
            known = self._stand_ins.get(step.id)
            if known is None:
                known = self._stand_ins[step.id] = _as_step(step.id, stand_in)
            return await _called(known, context, args, kwargs)
        if self._world.runs(step.id) or _is_own(step):
            return await _called(step, context, args, kwargs)
        try:
            return result_of(step)
        except NoValue as error:
            self._audience.refused(error)
            return await self._loop.die()


def result_of(step: Step[Any, Any]) -> Any:
    """Return a result made up from the type that *step* says it returns.

    Raises:
        NoValue: it says none, or one that has no simple value.
    """
    returns, what = binding_of(step).returns, f"the step {step.id}"
    if returns is MISSING:
        hint = f"Say it, as in `-> int`. Or: {_HINT.format(step=step.id)}"
        raise NoValue(what, "it does not say what it returns", hint)
    return made_up(returns, what=what, hint=_HINT.format(step=step.id))


def _is_own(step: Step[Any, Any]) -> bool:
    """Whether *step* is one of Loom, such as the start of a child: nothing stands in for it."""
    return str(getattr(step.fn, "__module__", "")).startswith("loom.")


def _as_step(step_id: str, stand_in: Any) -> Step[Any, Any]:
    return stand_in if isinstance(stand_in, Step) else declared(id=step_id)(stand_in)


def _called(step: Step[Any, Any], context: StepContext, args: Any, kwargs: Any) -> Awaitable[Any]:
    given = (context, *args) if step.takes_context else args
    return _awaited(step.fn, given, kwargs)


async def _awaited(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    result = fn(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def _pass_on(about: EffectContext, given: dict[str, Any], call: Next) -> Any:
    return await call(given)
