"""Children: runs that a run starts, and waits for as long as it takes (spec 5.8). Built from steps and messages alone.

Starting a child is a step: it starts the child under an id made from its own identity, so doing it again, after a crash,
finds the child there. The end of a child is a message for its parent, sent in the transaction that ends it; waiting for a
child is receiving that message. Who is driven where, loom/driving/family.py decides; the log of neither run knows it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload
from weakref import WeakKeyDictionary

from loom import values
from loom.core.child_names import CANCEL, CHILD_TOPIC, SPAWN
from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.failures import ChildFailed, NestingTooDeep, failure_from
from loom.core.flow import Flow
from loom.core.ids import ID_LENGTH_MAX, ExecutionId
from loom.core.missing import MISSING
from loom.core.origins import remember_start
from loom.core.retry import Retry
from loom.core.step import Naming, StepContext, step
from loom.driving.family import FAMILY, Birth, Family
from loom.kernel.context import Context
from loom.spi.errors import StoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

OnCancel: TypeAlias = Literal["cancel", "abandon"]

_PATIENT: Final = Retry(
    attempts=1_000, delay=timedelta(seconds=0.1), delay_max=timedelta(seconds=60), on=(StoreUnavailable,)
)
_FOREIGN: Final = re.compile(r"[:+\x00-\x20\x7f-\x9f\u2028\u2029]")
"""What stands for something else in the id of a child, or in no id at all."""
_CHILD_MAX: Final = ID_LENGTH_MAX - len(CHILD_TOPIC)
_PARENT_KEPT: Final = 100
_NAME_KEPT: Final = 60


@dataclass(frozen=True, slots=True)
class Child(Generic[R_co]):
    """A run that this one has started: its id, and the id of its flow. It can be kept, and handed to steps."""

    id: str
    flow: str


@overload
def spawn(
    ctx: Context, flow: Flow[P, R], input: Any = ..., /, *, key: object = ..., on_cancel: OnCancel = ...
) -> Coroutine[Any, Any, Child[R]]: ...
@overload
def spawn(
    ctx: Context, flow: str, input: Any = ..., /, *, key: object = ..., on_cancel: OnCancel = ...
) -> Coroutine[Any, Any, Child[Any]]: ...
def spawn(
    ctx: Context,
    flow: Flow[Any, Any] | str,
    input: Any = MISSING,
    /,
    *,
    key: object = None,
    on_cancel: OnCancel = "cancel",
) -> Coroutine[Any, Any, Child[Any]]:
    """Start a run of *flow* as a child of this one, once, durably, and go on beside it.

        child = await loom.spawn(ctx, payout, claim)
        receipt = await loom.await_child(ctx, child)

    The child has an id and a log of its own (`refund-42:payout`), and is driven in this process, beside its parent. When
    its parent has ended it goes on. Cancelling the parent cancels it as well, unless *on_cancel* is `abandon`. *key* names the
    occurrence, for loops whose order may change.

    Raises:
        UnknownFlow, InvalidPayload: nothing was started.
        NestingTooDeep: this run has too many ancestors: 32, or as many as `define_config(nesting_max=...)` allows.
        StepFailed: the id that the child would have is taken by another run.
    """
    if on_cancel not in ("cancel", "abandon"):
        raise InvalidDeclaration(f"on_cancel={on_cancel!r}: a child is to 'cancel' with its parent, or to 'abandon'")
    family = _family("spawn")
    found = family.verbs.flow(flow)
    if found.starts is not None and found.starts.dedupe is not None:
        raise InvalidDeclaration(
            f"runs of {found.id} are named by their {found.starts.dedupe}, and a child by its parent"
        )
    encoded = family.verbs.starting.encoded_input(found, input)
    family.drive_of(ctx.execution_id)
    naming = _begin.naming if key is None else Naming("key", str(key))
    named = replace(_begin, id=SPAWN + found.id, naming=naming)
    return _handle(ctx.run(named, found.id, encoded, on_cancel=on_cancel, defaulted=input is MISSING), found)


async def _handle(starting: Coroutine[Any, Any, str], flow: Flow[Any, Any]) -> Child[Any]:
    return Child(await starting, flow.id)


# What this log says so far goes to disk no later than the start of the child: one writer puts both into one transaction. So the
# child acts on nothing that a crash can take back (kernel rule 3), and need not wait for it, as if it only read.
@step(id="spawn", retry=_PATIENT, reads=True, failures={"nesting_too_deep": NestingTooDeep})
async def _begin(step: StepContext, flow: str, input: Any, *, on_cancel: str, defaulted: bool = False) -> str:
    """Start a child and return its id; where it is there already, that of an earlier try, it is only looked after."""
    family = _family("spawn")
    drive, found = family.drive_of(step.execution_id), family.verbs.flow(flow)
    parent = drive.state.facts.parent
    depth = 1 + (parent["depth"] if parent else 0)
    if depth > family.nesting_max:
        raise NestingTooDeep(execution_id=step.execution_id, flow=flow, depth=depth - 1)
    chain = drive.state.facts.chain
    about = {"execution_id": chain[0] if chain else step.execution_id, "policy": on_cancel, "depth": depth}
    about |= {"step": step.step_id, "key": step.idempotency_key}
    given = MISSING if defaulted or not found.takes_input else values.decode(input, _hints(found)[0])
    child = child_id(step.execution_id, step.step_id, step.generation)
    await family.start(drive, Birth(found, given, child, about))
    return child


def child_id(parent: str, step_id: str, generation: int) -> ExecutionId:
    """Return the id of the child that *step_id* of *parent* starts: the same each time, and no other's.

    `refund-42:payout`, and `refund-42:map/3/payout`, `refund-42:payout#1`, `refund-42:payout+1` after a retry of the run. One
    that would be too long keeps the beginning of its parent's id and the end of its own.
    """
    path, sign, name = step_id.rpartition("/")
    identity = _FOREIGN.sub(_escaped, path + sign + name.removeprefix(SPAWN))
    whole = f"{parent}:{identity}" + (f"+{generation}" if generation else "")
    if len(whole) <= _CHILD_MAX:
        return ExecutionId(whole)
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ExecutionId(f"{parent[:_PARENT_KEPT]}:{digest}:{whole[-_NAME_KEPT:]}")


def _escaped(sign: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in sign[0].encode())


# -- waiting for them ---------------------------------------------------------------------------------------------------

Message: TypeAlias = dict[str, Any]

_HEARD: Final[WeakKeyDictionary[Context, dict[str, Message | None]]] = WeakKeyDictionary()
"""What a flow has received from its children in one drive, by their ids; None while it waits."""


def await_child(ctx: Context, child: Child[R], /, *, timeout: timedelta | None = None) -> Coroutine[Any, Any, R]:
    """Wait until *child* has ended, for as long as it takes, and return what its flow returned.

    It may be awaited in any branch, and again; but in one branch at a time.

    Raises:
        ChildFailed: it failed, or was cancelled.
        ReceiveTimedOut: it has not ended within *timeout*; it goes on, and can be awaited again.
    """
    waiting = _Waiting(ctx, _family("await_child"), child)
    message = waiting.heard.get(child.id)
    if message is not None:
        return waiting.again(message)
    if child.id in waiting.heard:
        raise InvalidDeclaration(f"{child.id} is awaited already", hint="Await it in one place, and share the result.")
    receiving = ctx.receive(waiting.topic, expects=Message, timeout=timeout)  # refused, it is awaited nowhere
    waiting.listen()
    return waiting.first(receiving)


class _Waiting(Generic[R]):
    """One wait of the flow of *ctx* for *child*."""

    def __init__(self, ctx: Context, family: Family, child: Child[R]) -> None:
        self.topic = CHILD_TOPIC + child.id
        self.heard = _HEARD.setdefault(ctx, {})
        self._child, self._family, self._drive = child, family, family.drive_of(ctx.execution_id)
        self._hint = _hints(family.verbs.flow(child.flow))[1]

    def listen(self) -> None:
        """It is waited for from now on, here and nowhere else."""
        self.heard[self._child.id] = None
        self._family.listen(self._drive)

    async def first(self, receiving: Coroutine[Any, Any, Message]) -> R:
        """Receive how it ended, and return its result."""
        try:
            message = self.heard[self._child.id] = await receiving
        except BaseException:
            del self.heard[self._child.id]  # it can be awaited again
            raise
        return self._result(message)

    async def again(self, message: Message) -> R:
        """Return the result that was received before."""
        return self._result(message)

    def _result(self, message: Message) -> R:
        if message["status"] == "completed":
            result: R = values.decode(message["result"], self._hint)
            return result
        child, failure = self._child, message["failure"]
        record = failure_from(failure or {"type": "loom.Cancelled", "message": message["reason"] or ""})
        failed = ChildFailed(child=child.id, flow=child.flow, status=message["status"], record=record)
        remember_start(failed, self._received())  # a retry of this run begins there
        raise failed

    def _received(self) -> EventEnvelope[Any]:
        settled = (each for each in self._drive.state.settled if each.outcome.type == "MESSAGE_RECEIVED")
        return next(each.outcome for each in settled if each.start.payload.topic == self.topic)


async def await_children(ctx: Context, children: Iterable[Child[R]], /) -> list[R | ChildFailed]:
    """Wait until all of *children* have ended, and return for each, in their order, its result or its failure."""
    return await ctx.map(_result_or_failure, list(children), name="children")


async def _result_or_failure(ctx: Context, child: Child[R]) -> R | ChildFailed:
    try:
        return await await_child(ctx, child)
    except ChildFailed as failed:
        return failed


async def await_all(ctx: Context, children: Iterable[Child[R]], /) -> list[R]:
    """Wait until all of *children* have ended well, and return their results, in their order.

    When one fails, those that still go on are cancelled, but for those to be abandoned, and its failure is raised.

    Raises:
        ChildFailed: the first of them that failed, or was cancelled.
    """
    waited = list(children)
    try:
        return await ctx.map(await_child, waited, name="children")
    except ChildFailed as failed:
        rest = [child.id for child in waited if child.id != failed.child]
        await ctx.run(_cancel, rest, f"{failed.child} {failed.status}")
        raise


@step(id=CANCEL, retry=_PATIENT)
async def _cancel(step: StepContext, children: list[str], reason: str) -> None:
    family = _family("await_all")
    await family.cancel(family.drive_of(step.execution_id), children, reason=reason)


def _family(verb: str) -> Family:
    family = FAMILY.get(None)
    if family is None:
        raise InvalidDeclaration(f"loom.{verb} is called in a flow, which a runtime drives")
    return family


@lru_cache(maxsize=256)
def _hints(flow: Flow[Any, Any]) -> tuple[Any, Any]:
    return flow.hints()
