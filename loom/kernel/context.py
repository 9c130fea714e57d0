"""What a flow is given: the syscalls, each a plain function that mints its identity when called.

This is the whole of the kernel's ABI towards authors. A syscall encodes what it is given and takes its place in its branch at
once, and returns a coroutine; nothing else happens until that is awaited. Calling a syscall from a task that is no branch of
the flow stops the drive, since its place would be left to chance.
"""

from __future__ import annotations

import logging
import uuid as uuid_module
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar, Unpack, overload

from loom import values
from loom.core.branching import Branching, Opening
from loom.core.derived import derived_uuid, fraction
from loom.core.durations import instant, milliseconds, timeout_ms
from loom.core.envelope import AS_OF
from loom.core.errors import UnknownFlow
from loom.core.gate_options import SuspendOptions, checked
from loom.core.identity import Tag
from loom.core.ids import label as check_label
from loom.core.inline import inline_step
from loom.core.missing import MISSING
from loom.core.step import Step
from loom.kernel.block import Block
from loom.kernel.calls import Branch, Call, DriveEnding
from loom.kernel.entering import Entering, syscall
from loom.kernel.errors import StepIdReused
from loom.kernel.fold import USER_PREFIX
from loom.kernel.gates import GateSyscall, TimerSyscall
from loom.kernel.receiving import ReceiveSyscall
from loom.kernel.records import DecisionSyscall, EmitSyscall, StreamSyscall
from loom.kernel.scopes import ScopeSyscall
from loom.kernel.steps import StepSyscall
from loom.kernel.succession import SuccessionSyscall
from loom.values.binding import Binding, binding_of, binding_of_function
from loom.values.sizes import bounded

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

KERNEL_ABI: Final = "1.0.0"


class Context(Entering, Branching):
    """The syscalls of one drive. Any branch of the flow uses the same object; the branch is found by the task."""

    def __init__(self, drive: Drive, tools: Mapping[str, Step[Any, Any]], log: logging.LoggerAdapter[Any]) -> None:
        super().__init__(drive)
        self._tools = tools
        self.log = log
        """A logger that is silent while the flow replays."""

    @property
    def execution_id(self) -> str:
        """The id of this execution."""
        return self._drive.state.execution_id

    # -- work ----------------------------------------------------------------------------------------------------

    @overload
    def run(self, step: Step[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    @overload
    def run(
        self, label: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def run(self, label: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    @syscall
    def run(self, step: Step[Any, Any] | str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run a step once, durably, and return its recorded result: `await ctx.run(fetch, order)`.

        With a label and a function instead of a step, a small function needs no decorator:
        `await ctx.run("total", sum_up, lines)`.

        Raises:
            StepFailed, TypedFailure, or the declared exception: the recorded failure, the same live and replayed.
            NotSerializable: an argument cannot be encoded, or all take more than a log does; nothing was recorded.
            TypeError: the arguments do not fit the step's signature; nothing was recorded.
        """
        branch = self._enter("run")
        if isinstance(step, Step):
            return self._step(branch, step, binding_of(step), (args, kwargs))
        if not args or not callable(args[0]):
            raise TypeError(f"ctx.run takes a step and its arguments, or a label and a function, not {step!r:.60}")
        inline = inline_step(step, args[0])
        if isinstance(args[0], Step):
            return self._step(branch, inline, binding_of(args[0]), (args[1:], kwargs))
        return self._step(branch, inline, binding_of_function(args[0]), (args[1:], kwargs))

    @syscall
    def execute(
        self, tool_id: str, arguments: Mapping[str, Any] | None = None, /, *, id: str | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Run a registered step or tool by its id, with arguments by name that are validated first.

        *id* names this call under the contract of `Step.named`: used again with equal arguments it is served the
        first outcome. Without it each call is a new occurrence. Tools are those of `define_config(steps=..., step_modules=...)`.

        Raises:
            UnknownFlow: nothing is registered under *tool_id*; nothing was recorded.
            InvalidPayload: the arguments do not fit the tool's signature; nothing ran or was recorded.
            StepFailed, TypedFailure, or the declared exception: as `run`.
        """
        branch = self._enter("execute")
        step = self._tools.get(tool_id)
        if step is None:
            raise UnknownFlow(kind="tool", name=tool_id, known=sorted(self._tools))
        binding = binding_of(step)
        kwargs = binding.validated(dict(arguments or {}))
        return self._step(branch, step if id is None else step.named(id), binding, ((), kwargs))

    def _step(
        self, branch: Branch, step: Step[Any, Any], binding: Binding, arguments: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> Coroutine[Any, Any, Any]:
        encoded, compared = binding.encode(*arguments)
        bounded(encoded, "arguments", step.id)
        naming = step.naming
        if naming.kind == "occurrence":
            text = branch.mint(step.id)
        elif naming.kind == "retry":
            text = branch.mint(step.id, Tag("retry", naming.value))
        elif naming.kind == "compensate":
            text, branch.undos = branch.mint(step.id, Tag("compensate", str(branch.undos))), branch.undos + 1
        else:
            text = self._named(branch, step, values.digest(compared), encoded)
            served = branch.served.get(text)
            if served is not None and (served.outcome or not served.settled or served.is_once):
                return self._drive.asking.served_again(served)
        call = self._call(branch, StepSyscall(step, binding, encoded), text, compared)
        if naming.kind in ("name", "key"):
            branch.served[text] = call
        return self._drive.asking.outcome(call)

    def _named(self, branch: Branch, step: Step[Any, Any], digest: str, encoded: Any) -> str:
        keyed = step.naming.kind == "key"
        name, tag = (step.id, Tag("key", step.naming.value)) if keyed else (step.naming.value, None)
        first = branch.named.get((name, tag))
        if first is None:
            if not keyed and branch.counters.get(name):
                self._stop(StepIdReused(step_id=name, first="a call without a name", second=str(encoded)))
            text = branch.mint(name, tag)
            branch.named[(name, tag)] = (text, step.id, digest, encoded)
            return text
        text, step_id, digest_first, encoded_first = first
        if (step_id, digest_first) != (step.id, digest):
            self._stop(StepIdReused(step_id=text, first=f"{step_id}{encoded_first}", second=f"{step.id}{encoded}"))
        return text

    def _stop(self, error: StepIdReused) -> None:
        self._drive.stop(error)
        raise DriveEnding

    # -- branches ------------------------------------------------------------------------------------------------

    @syscall
    def _open(self, opening: Opening) -> Coroutine[Any, Any, Any]:
        return self._drive.asking.outcome(self._opened(self._enter(opening.about["kind"]), opening))

    def _block(self, opening: Opening) -> Any:
        # Where its syscalls are refused, entering the block is: it may have to stand still there.
        return Block(self, self._drive, self._opened(self._branch("scope"), opening), enter=self._enter)

    def _opened(self, branch: Branch, opening: Opening) -> Call:
        bounded(opening.about, "branches", opening.name)
        scope = ScopeSyscall(opening, [partial(each, self) for each in opening.branches])
        return self._call(branch, scope, branch.mint(check_label("scope", opening.name)), opening.about)

    # -- waiting -------------------------------------------------------------------------------------------------

    @overload
    def suspend(self, label: str, *, expects: type[T], **options: Unpack[SuspendOptions]) -> Coroutine[Any, Any, T]: ...
    @overload
    def suspend(
        self, label: str, *, expects: Any = ..., **options: Unpack[SuspendOptions]
    ) -> Coroutine[Any, Any, Any]: ...
    @syscall
    def suspend(
        self, label: str, *, expects: Any = MISSING, **options: Unpack[SuspendOptions]
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a person or program to answer at *label*, for as long as it takes, and return the answer.

        *expects* is the type of the answer, *show* what the asked person is shown, *key* a word by which outside
        systems find the gate.

        Raises:
            GateTimedOut: nobody answered within *timeout*. It is never an approval.
        """
        branch = self._enter("suspend")
        label, (shown, timeout_ms, key) = check_label("gate", label), checked(options)
        gate = GateSyscall(label, show=values.encode(shown), expects=expects, timeout_ms=timeout_ms, key=key)
        return self._drive.asking.outcome(self._call(branch, gate, branch.mint(label), gate.asked()))

    @overload
    def receive(self, topic: str, *, expects: type[T], timeout: timedelta | None = ...) -> Coroutine[Any, Any, T]: ...
    @overload
    def receive(
        self, topic: str, *, expects: Any = ..., timeout: timedelta | None = ...
    ) -> Coroutine[Any, Any, Any]: ...
    @syscall
    def receive(
        self, topic: str, *, expects: Any = MISSING, timeout: timedelta | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Return the oldest message of *topic* that nobody has received, or wait for one: each is received once.

        Messages are sent with `runtime.send`, before or after the wait. One that is no *expects* is dropped, on the log.

        Raises:
            ReceiveTimedOut: none came within *timeout*.
        """
        branch = self._enter("receive")
        topic = check_label("topic", topic)
        receive = ReceiveSyscall(topic, expects=expects, timeout_ms=timeout_ms(timeout))
        return self._drive.asking.outcome(self._call(branch, receive, branch.mint(topic), receive.asked()))

    @syscall
    def sleep(self, duration: timedelta | float, /, *, name: str = "sleep") -> Coroutine[Any, Any, None]:
        """Sleep durably for *duration* (a timedelta, or seconds), across restarts, from when it was first asked."""
        branch = self._enter("sleep")
        return self._timer(branch, TimerSyscall(delay_ms=milliseconds(duration)), name)

    @syscall
    def sleep_until(self, when: datetime, /, *, name: str = "sleep") -> Coroutine[Any, Any, None]:
        """Sleep durably until *when*, an aware datetime; a time that has passed is due at once."""
        branch = self._enter("sleep_until")
        return self._timer(branch, TimerSyscall(due_at=instant(when)), name)

    def _timer(self, branch: Branch, timer: TimerSyscall, name: str) -> Coroutine[Any, Any, None]:
        text = branch.mint(check_label("timer", name))
        return self._drive.asking.outcome(self._call(branch, timer, text, timer.asked()))

    @asynccontextmanager
    async def shield(self) -> AsyncIterator[None]:
        """Keep what is called inside from being cancelled with the run, or cut with its branch: `async with ctx.shield(): ...`.

        For what has to be done whole, such as compensations. The cut, or the cancellation, comes at the next syscall outside;
        a scope waits for its shielded branches. When the grace of a cancellation is over, no shield holds.
        """
        branch = self._branch("shield")
        branch.shields += 1
        try:
            yield
        finally:
            branch.shields -= 1
            if branch.is_cut:
                self._drive.unwinding.cut_beside(branch)

    @syscall
    def continue_as_new(self, input: Any = MISSING, /) -> Coroutine[Any, Any, NoReturn]:
        """End this log and go on with a fresh one, started with *input*: for loops without an end.

        It never returns; write `return await ctx.continue_as_new(...)`. The run keeps its id towards everybody, its inbox, its
        attributes and its deadline. Call it in the body of the flow, when nothing else of the run is open.

        Raises:
            InvalidPayload, NotSerializable: the flow takes no such input; nothing was recorded.
        """
        branch = self._enter("continue_as_new")
        encoded = self._drive.setting.encode_input(input)
        call = self._call(branch, SuccessionSyscall(encoded), branch.mint("continue_as_new"), "continue_as_new")
        return self._drive.asking.outcome(call)

    # -- records -------------------------------------------------------------------------------------------------

    @syscall
    def decide(
        self, name: str, chooser: Callable[..., Any], candidates: Any = None, /, *, policy: Any = None
    ) -> Coroutine[Any, Any, Any]:
        """Make a non-deterministic choice once and record it: what was chosen, from what, by which policy.

        *chooser* gets a copy of *candidates* (nothing when there are none) and returns the choice, or a
        `loom.Choice` with policy and propensity; it may be async, and may call a model. Replays are served the record.

        Raises:
            DecisionFailed: the chooser raised.
        """
        branch = self._enter("decide")
        name = check_label("decision", name)
        given = None if candidates is None else list(candidates) if _is_plain(candidates) else candidates
        encoded = bounded(values.encode(given), "candidates", name)
        decision = DecisionSyscall(chooser, given, encoded, policy)
        return self._drive.asking.outcome(self._call(branch, decision, branch.mint(name), encoded))

    @syscall
    def emit(self, type: str, data: Any = None, /) -> Coroutine[Any, Any, None]:
        """Append a domain event of your own type, once; it stands in the log as `user.<type>`, and calls nothing.

        It is for who reads the log: `on_durable_event`, `runtime.events`, read models. A replay does not append it again.

        Raises:
            NotSerializable: *data* cannot be encoded; nothing was recorded.
        """
        branch = self._enter("emit")
        type = check_label("event", type)
        encoded = bounded(values.encode(data), "data", type)
        call = self._call(branch, EmitSyscall(USER_PREFIX + type, encoded), branch.mint(type), encoded)
        return self._drive.asking.outcome(call)

    @syscall
    def stream(self, label: str, source: AsyncIterable[T], /) -> Coroutine[Any, Any, list[T]]:
        """Pass the pieces of *source* to live listeners as they come; record and return the list of them once.

        Listeners are `define_config(on_stream=...)` of the process that drives. Nothing is on the log before the end: after a crash
        the source begins anew, and they hear its pieces again. It is not retried, and has no key: it should only read.

        Raises:
            DecisionFailed: *source* raised, or gave what cannot be encoded.
        """
        branch = self._enter("stream")
        label = check_label("stream", label)
        call = self._call(branch, StreamSyscall(label, source), branch.mint(label), label)
        return self._drive.asking.outcome(call)

    # -- derived values ------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the time of the outcome this branch has seen last: the same in every replay."""
        branch = self._enter("now")
        return datetime.fromtimestamp(branch.seen.metadata.get(AS_OF, branch.seen.at) / 1000, UTC)

    def random(self, name: str = "") -> float:
        """Return a number in [0, 1) derived from the log; a draw added elsewhere does not move it."""
        return fraction(*self._draw("random", name))

    def uuid(self, name: str = "") -> uuid_module.UUID:
        """Return a UUID derived from the log; a draw added elsewhere does not move it."""
        return derived_uuid(*self._draw("uuid", name))

    def patched(self, name: str) -> bool:
        """Return whether this run takes the way of the patch *name*: `if ctx.patched("check first"): ... else: ...`.

        For code that changes while runs are in flight. A run that comes here for the first time says yes, a run that had
        passed here before the patch was there says no, and each says so for good.
        """
        branch = self._enter("patched")
        return self._drive.patches.answer(check_label("patch", name), branch)

    def _draw(self, kind: str, name: str) -> tuple[str, ...]:
        branch = self._enter(kind)
        if not name:
            branch.draws += 1
        seed = self._drive.state.facts.seed_at(branch.seen.sequence)
        return kind, seed, branch.prefix, branch.last_id, name or str(branch.draws)

    def __getattr__(self, name: str) -> Any:
        if name == "ui":
            raise AttributeError("ctx.ui does not exist: the kernel has no UI verb; a surface(ctx) draws")
        raise AttributeError(f"a context has no {name!r}")


def _is_plain(candidates: Any) -> bool:
    return isinstance(candidates, Sequence) and not isinstance(candidates, (str, bytes, bytearray))
