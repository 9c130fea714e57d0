"""What touches the world. Each step may run again after a crash, under the same key or with the same arguments: none does harm.

Plain functions run in a worker thread, so a blocking call like those of sqlite3 holds up nothing.
"""

from datetime import date, timedelta

import loom
from models import Alarm, Page, Shift
from outside import Outside

ASK_AGAIN = loom.Retry(attempts=5, delay=timedelta(seconds=1))


@loom.step
def take_alarms(step: loom.StepContext) -> list[Alarm]:
    """Take what is new. Asked again under its key, the monitor says the same."""
    outside: Outside = step.resources["outside"]
    return outside.monitor.take(key=step.idempotency_key)


@loom.step
def close_alarm(step: loom.StepContext, alarm: str, ended: str) -> None:
    outside: Outside = step.resources["outside"]
    outside.monitor.close(alarm, ended)


@loom.step(reads=True)
def who_is_on_call(step: loom.StepContext) -> Shift:
    outside: Outside = step.resources["outside"]
    return outside.rota.shift()


@loom.step
def begin_shift(step: loom.StepContext, day: date) -> Shift:
    outside: Outside = step.resources["outside"]
    return outside.rota.begin(day)


@loom.step(retry=ASK_AGAIN)
def page(step: loom.StepContext, call: Page) -> None:
    """Wake somebody. The key is the same in every attempt, so that it rings once."""
    outside: Outside = step.resources["outside"]
    outside.pager.ring(call, key=step.idempotency_key)


# What helps, and what undoes it. Each is told apart by the incident and the host or service, so doing it again changes nothing;
# undoing copes with what never happened.


@loom.step
def drain(step: loom.StepContext, host: str) -> None:
    """Keep traffic away from an ill host."""
    outside: Outside = step.resources["outside"]
    outside.balancer.do("drain", host, incident=step.execution_id)


@loom.step
def restore(step: loom.StepContext, host: str) -> None:
    outside: Outside = step.resources["outside"]
    outside.balancer.undo("drain", host, incident=step.execution_id, by="restore")


@loom.step
def add_capacity(step: loom.StepContext, service: str) -> None:
    """Give a service one host more."""
    outside: Outside = step.resources["outside"]
    outside.balancer.do("add", service, incident=step.execution_id)


@loom.step
def release(step: loom.StepContext, service: str) -> None:
    outside: Outside = step.resources["outside"]
    outside.balancer.undo("add", service, incident=step.execution_id, by="release")
