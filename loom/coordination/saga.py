"""Sagas: what was done is undone, in reverse, when what comes after it cannot be done (spec 5.8).

The undo of a step is registered before the step begins, so that one that failed half-way, or was cut short, is undone as
well. Undos are steps like any other, told apart by the tag `#compensate:i`: each has its outcome on the log once, and is
served from there by every later replay. No event of the kernel knows of them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from loom.core.failures import CompensationFailed, StepFailed, TypedFailure, failure_from
from loom.core.json import JsonObject
from loom.core.step import Naming, Step, Undoable
from loom.kernel.calls import DriveEnding
from loom.kernel.context import Context
from loom.values.binding import Binding, binding_of
from loom.values.failing import record_of

P = ParamSpec("P")
R = TypeVar("R")


class _Undo(NamedTuple):
    """A step that undoes something, and its arguments as they were when it was registered."""

    step: Step[Any, Any]
    binding: Binding
    arguments: JsonObject


class Saga:
    """Steps that are undone together, and how each is undone. `loom.saga` makes one."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._undos: list[_Undo] = []

    def run(self, step: Undoable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run a step as `ctx.run` does; should the saga fail, what undoes it is called with the same arguments.

            await saga.run(book_flight.undone_by(cancel_flight), reference, trip)

        The undo is called whatever became of the step: one that failed, or was cut off, may have been done all the same. So it looks
        up what was done, by an argument of both: a reference made by `ctx.uuid()`, say. A declared failure that is among the
        `unless` of the pair says that nothing was, and the undo is not called then.

        Raises:
            TypeError, NotSerializable: the arguments do not fit; nothing was recorded, and nothing will be undone.
            StepFailed, TypedFailure, or the declared exception: as `ctx.run`.
        """
        if not isinstance(step, Undoable):
            raise TypeError("saga.run takes step.undone_by(undo); a step that needs no undo is run by ctx.run")
        registered = _undo(step.undo, args, kwargs)
        running = self._ctx.run(step.step, *args, **kwargs)
        self._undos.append(registered)
        return self._unless_failed(running, registered, step) if step.unless else running

    async def _unless_failed(self, running: Coroutine[Any, Any, R], undo: _Undo, pair: Undoable[Any, R]) -> R:
        """Return what *running* gives; forget *undo* where it fails as what there is nothing to undo of."""
        try:
            return await running
        except Exception as failure:
            if _channel(failure, pair.step) in pair.unless:
                self._undos = [each for each in self._undos if each is not undo]
            raise

    def undo(self, undo: Step[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Have *undo* called with arguments of its own, should the saga fail. Say so before you do what it undoes.

        Raises:
            TypeError, NotSerializable: the arguments do not fit; nothing was registered.
        """
        self._undos.append(_undo(undo, args, kwargs))

    async def __aenter__(self) -> Saga:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or _only_puts_away(error):
            return
        async with self._ctx.shield():
            failed = await self._compensate()
        if failed:
            raise _compensation_failed(failed) from error

    async def _compensate(self) -> list[tuple[str, Exception]]:
        """Undo all, the last first, and return what failed for good."""
        failed: list[tuple[str, Exception]] = []
        while self._undos:
            undo = self._undos.pop()
            try:
                args, kwargs = undo.binding.decode(undo.arguments)
                await self._ctx.run(undo.step, *args, **kwargs)
            except Exception as failure:  # noqa: BLE001  # it is on the log, whatever it is; the others are to be undone as well
                failed.append((undo.step.id, failure))
        return failed


def saga(ctx: Context, /) -> Saga:
    """Return a saga: steps that are undone, in reverse, when the block is left by an exception or a cancellation.

        async with loom.saga(ctx) as saga:
            await saga.run(book_flight.undone_by(cancel_flight), reference, trip)
            await saga.run(book_hotel.undone_by(cancel_hotel), reference, trip)

    What left the block goes on when all is undone. An undo that fails for good does not keep the others from being called;
    `CompensationFailed` names it then. A block that ends well undoes nothing, whatever comes after it.

    Raises:
        CompensationFailed: undos failed; its cause is what left the block.
    """
    return Saga(ctx)


def _undo(undo: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Undo:
    binding = binding_of(undo)
    arguments, _ = binding.encode(args, kwargs)
    return _Undo(replace(undo, naming=Naming("compensate")), binding, arguments)


def _channel(failure: Exception, step: Step[Any, Any]) -> str | None:
    """Return the name by which *step* declares *failure*, None where it does not."""
    if isinstance(failure, TypedFailure):
        return failure.channel
    return next((name for name, kind in step.failures.items() if kind is type(failure)), None)


def _only_puts_away(error: BaseException) -> bool:
    """Whether *error* ends the drive, or the process, and not the saga: the flow comes back to where it stands."""
    if isinstance(error, BaseExceptionGroup):
        return all(_only_puts_away(each) for each in error.exceptions)
    return isinstance(error, (DriveEnding, KeyboardInterrupt, GeneratorExit))


def _compensation_failed(failed: list[tuple[str, Exception]]) -> CompensationFailed:
    steps = [step for step, _ in failed]
    records = [each.record if isinstance(each, StepFailed) else failure_from(record_of(each)) for _, each in failed]
    return CompensationFailed(steps=steps, records=records)
