"""The syscall of a step: start, attempts, outcome, doubt.

A step that is not idempotent has its start, and every further attempt, on disk before the attempt. If such an attempt ends
without Loom knowing how (the process was lost, a timeout, a cancellation), the step is in doubt and waits for a verdict of a
person. An exception that the author raised is a definite end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loom import values
from loom.core import facts as f
from loom.core.derived import fraction, idempotency_key
from loom.core.failures import StepFailed, TypedFailure, failure_from
from loom.core.json import JsonObject
from loom.core.logs import step_log
from loom.core.middleware import StepTimedOut
from loom.core.state import UNTRIED
from loom.core.step import Step, StepContext
from loom.kernel.calls import Call, Event
from loom.kernel.flights import is_interruption
from loom.values.binding import Binding
from loom.values.failing import failure_to_raise, step_failure_record

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

LOST: Final = "the process was lost while it ran"
LOST_AGAIN: Final = "{} processes were lost while it ran; it may be what ends them"
CRASHES_MAX: Final = 3


class StepSyscall:
    """One call of a step with encoded *args*."""

    starts = "STEP_STARTED"
    generation = 0

    def __init__(self, step: Step[Any, Any], binding: Binding, args: JsonObject) -> None:
        self.step, self.binding, self.args = step, binding, args

    def asked(self) -> Any:
        return self.args

    def begin(self, call: Call, drive: Drive) -> None:
        step = self.step
        self.generation = generation = drive.state.facts.generation
        start = f.StepStarted(
            id=call.id,
            ordinal=call.ordinal,
            digest=call.digest,
            args=self.args or None,
            tool=step.id if step.naming.kind == "name" or step.is_tool else None,
            once=True if not step.idempotent else None,
            gen=generation or None,
        )
        drive.started(call, drive.commit("STEP_STARTED", start))
        self._dispatch(call, drive, attempt=1)

    def reopen(self, call: Call, drive: Drive) -> None:
        assert call.start is not None
        self.generation = call.start.payload.gen or 0
        known = drive.state.attempts.get(call.sequence, UNTRIED)
        if call.start.payload.digest == call.digest:
            self.args = call.start.payload.args or {}  # a fork may have been given others
        if known.doubt is not None:
            return
        if known.in_flight and (call.start.payload.once or (known.crashes >= CRASHES_MAX and drive.wants(call))):
            reason = LOST if call.start.payload.once else LOST_AGAIN.format(known.crashes)
            drive.commit("EFFECT_INDOUBT", f.EffectIndoubt(start=call.sequence, reason=reason))
            return
        self._after_rest(call, drive, known.due_at, known.failed + 1)

    def _after_rest(self, call: Call, drive: Drive, due_at: int, attempt: int) -> None:
        if not self._goes_on(call, drive):
            return
        if due_at <= drive.now_ms():
            self._dispatch(call, drive, attempt, again=True)
            return
        drive.timers.add(
            due_at, lambda: self._dispatch(call, drive, attempt, again=True), lambda: self._goes_on(call, drive)
        )

    def _goes_on(self, call: Call, drive: Drive) -> bool:
        return drive.wants(call) and not drive.is_closing(call.branch)

    def _dispatch(self, call: Call, drive: Drive, attempt: int, *, again: bool = False, marked: bool = False) -> None:
        if marked or (again and not self.step.idempotent):
            drive.commit("STEP_ATTEMPTED", f.StepAttempted(start=call.sequence, attempt=attempt))
        drive.flights.start(call, self, attempt, everything=not self.step.idempotent, reads=self.step.reads)

    async def attempt(self, call: Call, drive: Drive, number: int) -> Any:
        step = self.step
        if drive.cancelling.dooms(call):
            drive.flights.drop(call)
            return None
        needs_context = step.takes_context or drive.effects.middleware
        context = self._context(call, drive, number) if needs_context else None
        args, kwargs = self.binding.decode(self.args)
        return self.binding.result.encode(await drive.effects.invoke(step, context, args, kwargs))

    def _context(self, call: Call, drive: Drive, attempt: int) -> StepContext:
        state, timeout = drive.state, self.step.timeout
        return StepContext(
            execution_id=state.execution_id,
            step_id=call.id,
            idempotency_key=idempotency_key(state.execution_id, state.facts.seed, call.id, self.generation),
            attempt=attempt,
            resources=drive.resources,
            log=step_log(state.execution_id, call.id, attempt),
            deadline=None if timeout is None else asyncio.get_running_loop().time() + timeout.total_seconds(),
            cancelled=partial(drive.cancelling.dooms, call),
            generation=self.generation,
        )

    def landed(self, call: Call, drive: Drive, number: int, *, result: Any, error: BaseException | None) -> None:
        if error is not None and drive.is_interrupted:
            return  # it may have failed because of the very signal: it runs again, or is in doubt
        if error is None:
            drive.delivery.put(drive.commit("STEP_COMPLETED", f.StepCompleted(call.sequence, result)))
        elif not self.step.idempotent and isinstance(error, StepTimedOut):
            drive.commit("EFFECT_INDOUBT", f.EffectIndoubt(start=call.sequence, reason=str(error)))
            drive.delivery.stir()
        elif is_interruption(error):
            drive.interrupted_by(error)
        else:
            self._failed(call, drive, number, error)

    def _failed(self, call: Call, drive: Drive, attempt: int, error: BaseException) -> None:
        record = step_failure_record(self.step, error)
        rest = None
        if not isinstance(error, values.NotSerializable):
            facts = drive.state.facts
            part = fraction(facts.seed, call.id, str(attempt))
            is_final = "channel" in record or isinstance(error, TypedFailure) or not self.step.idempotent
            rest = self.step.retry.rest_ms(error, attempt, is_final=is_final, fraction=part)
        if rest is None:
            fact = f.StepFailed(start=call.sequence, failure=record, attempts=attempt)
            drive.delivery.put(drive.commit("STEP_FAILED", fact))
            return
        due_at = drive.now_ms() + rest
        drive.commit("STEP_ATTEMPT_FAILED", f.StepAttemptFailed(call.sequence, attempt, record, due_at))
        self._after_rest(call, drive, due_at, attempt + 1)
        drive.delivery.stir()

    def revive(self, call: Call, event: Event) -> Any:
        payload = event.payload
        if event.type == "STEP_COMPLETED":
            return self.binding.result.decode(payload.result)
        if event.type == "STEP_FAILED":
            raise failure_to_raise(self.step, call.id, payload.failure, payload.attempts)
        if payload.verdict == "done":
            return self.binding.result.decode(payload.result)
        raise StepFailed(step=call.id, record=failure_from(payload.failure or {}), attempts=1)

    def verdict(self, call: Call, body: Mapping[str, Any]) -> f.EffectResolved:
        """Return the fact that the verdict of a person is; its value is validated like a result.

        Raises:
            InvalidPayload: the value is not what the step returns.
        """
        kind = body["verdict"]
        if kind == "done":
            value = values.parse(body.get("value"), self.binding.returns)
            return f.EffectResolved(call.sequence, "done", result=self.binding.result.encode(value))
        if kind == "failed":
            told = body.get("value") or "a person resolved it as failed"
            return f.EffectResolved(call.sequence, "failed", failure={"type": "loom.Resolved", "message": str(told)})
        return f.EffectResolved(call.sequence, "retry")

    def again(self, call: Call, drive: Drive) -> None:
        """Run it again after the verdict "retry", though its branch was cut meanwhile."""
        known = drive.state.attempts.get(call.sequence, UNTRIED)
        if not drive.cancelling.dooms(call):
            self._dispatch(call, drive, known.failed + 1, marked=True)
