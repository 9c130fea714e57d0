"""The guard: it stands round each turn of a body, and stops the drive where the body does what only a step may do.

For the length of a turn (the body runs from one of its awaits to the next, alone on its thread) Python tells a profile
function of every call, before it is made, and an audit hook of what libraries in C open. So nothing is patched, and
nothing is left behind but the hook, which cannot be removed and asks one question. A breach raises inside the body,
after the drive was told to stop: the body may swallow it, but nothing it does after that counts.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import FrameType, ModuleType
from typing import Any, Final

from loom.core.logs import FlowLog
from loom.devtools.checking.findings import RULES
from loom.devtools.strict.elsewhere import NoAnswer, NotReplayedElsewhere, verdict_elsewhere
from loom.devtools.strict.forbidden import IN_C, IN_PYTHON, ON_CLOCK_WITH, TAKES_SYSCALLS, audited
from loom.devtools.strict.globals_kept import Kept
from loom.devtools.strict.places import authors_frames, waits_for_no_syscall, whose
from loom.devtools.strict.unsafe import UnsafeInFlow, is_allowed
from loom.driving.rehearsal import divergence
from loom.kernel.calls import DriveEnding
from loom.spi.guarding import Rehearsal, Stop

_HERE: Final = threading.local()
"""The turn that the running thread is in, while it is."""

OTHER_HASHES: Final = (1, 2)
"""Seeds under which small sets of short texts come in other orders from each other, so that one is not that of this process."""

_NOW: Final = frozenset({"now", "utcnow", "today"})


class Strict:
    """Guards the bodies of flows: `app.guarded(Strict())`.

    With *replays* each body is run again when it parks or ends; with *elsewhere* also in other processes, one for each of these
    seeds of hashes, so that it shows where a flow hangs on the order of a set. That takes half a second each.
    """

    def __init__(self, *, replays: bool = True, elsewhere: Sequence[int] = ()) -> None:
        self._replays, self._elsewhere = replays, tuple(elsewhere)
        _listen_to_audits()

    def watched(self, body: Coroutine[Any, Any, Any], stop: Stop) -> Coroutine[Any, Any, Any]:
        """Return *body*, watched at each of its turns."""
        return _Watched(body, stop)

    async def before_leaving(self, rehearsal: Rehearsal) -> None:
        """Run the body again, and compare.

        Raises:
            ReplayDivergence: it was not the same.
        """
        if self._replays:
            await rehearsal.replay()
        asked = [verdict_elsewhere(rehearsal, seed) for seed in self._elsewhere]
        for verdict in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(verdict, NoAnswer):
                told = f"{rehearsal.execution_id} could not be replayed in another process: {verdict}"
                warnings.warn(NotReplayedElsewhere(told), stacklevel=2)
            elif isinstance(verdict, BaseException):
                raise verdict
            elif verdict is not None:
                raise divergence(verdict, _ELSEWHERE)


_ELSEWHERE: Final = (
    "In another process, where texts hash otherwise, the flow came to something else: the order of a set?"
)


class _Watched(Coroutine[Any, Any, Any]):
    """A coroutine whose turns are watched; asyncio, and who looks for its place, take it for the one inside."""

    def __init__(self, body: Coroutine[Any, Any, Any], stop: Stop) -> None:
        self._body, self._stop = body, stop

    def send(self, value: Any, /) -> Any:
        return _Turn(self._stop).take(self._body, self._body.send, value)

    def throw(self, *error: Any) -> Any:
        return _Turn(self._stop).take(self._body, self._body.throw, *error)

    def close(self) -> None:
        self._body.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._body.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


class _Turn:
    """One turn of a body."""

    def __init__(self, stop: Stop) -> None:
        self._stop, self._kept = stop, Kept()
        self._is_judging = False

    def take(self, body: Coroutine[Any, Any, Any], go_on: Callable[..., Any], *args: Any) -> Any:
        """Let *body* go on until it waits, or ends."""
        before, outer = sys.getprofile(), getattr(_HERE, "turn", None)
        _HERE.turn = self
        sys.setprofile(self._profile)
        try:
            yielded = go_on(*args)
        finally:
            sys.setprofile(before)
            _HERE.turn = outer
            self._check_globals(None)
        place = None if _is_of_syscalls(yielded) else waits_for_no_syscall(body)
        if place is not None and not is_allowed("foreign-await", *place):
            self._tell("foreign-await", "await", *place)
        return yielded

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            rule = IN_C.get(arg)
            if rule is None and (rule := _by_its_owner(arg, frame)) is None:
                return
            if rule == "identity" and (whose(frame.f_code.co_filename) != "author" or frame.f_code.co_name[:2] == "__"):
                return
            self.judge(rule, f"{_name(arg)}()", frame)
        elif event == "call":
            known = IN_PYTHON.get(id(frame.f_code))
            if known is not None and not _takes_only_syscalls(frame):
                caller = _logging_caller(frame) if known[0] == "log" else frame.f_back
                self.judge(known[0], f"{frame.f_code.co_qualname}()", caller)
            elif frame.f_code is _SEED and frame.f_locals.get("a") is None:
                self.judge("random", "random.Random() without a seed", frame.f_back)
            else:
                self._called(frame)

    def _called(self, frame: FrameType) -> None:
        match whose(frame.f_code.co_filename):
            case "author" if authors_frames(frame):  # else Loom calls it: a listener, say
                self._kept.enter(frame)
            case "loom" if frame.f_back is not None and whose(frame.f_back.f_code.co_filename) == "author":
                self._check_globals(frame.f_back)
            case _:
                pass

    def judge(self, rule: str, what: str, frame: FrameType | None) -> None:
        """Stop the drive if the author's code did *what* itself, against *rule*, unless it says there that it may.

        Raises:
            DriveEnding: the drive was told to stop.
        """
        if self._is_judging:
            return
        self._is_judging = True
        try:
            frames = authors_frames(frame)
            places = [(each.f_code.co_filename, each.f_lineno) for each in frames]
            if places and not any(is_allowed(rule, *place) for place in places):
                self._tell(rule, what, *places[0])
                raise DriveEnding
        finally:
            self._is_judging = False

    def _check_globals(self, frame: FrameType | None) -> None:
        changed = self._kept.changed()
        if changed is None or is_allowed("global-mutation", changed.path, changed.line):
            return
        self._tell("global-mutation", changed.name, changed.path, changed.line)
        if frame is not None:  # else the turn is over, and what it yields is waited for in vain
            raise DriveEnding

    def _tell(self, rule: str, what: str, path: str, line: int) -> None:
        known = RULES[rule]
        self._stop(
            UnsafeInFlow(rule=known.id, finds=known.finds, instead=known.instead, what=what, path=path, line=line)
        )


def _by_its_owner(function: Any, frame: FrameType) -> str | None:
    """Return the rule that a method in C breaks on what it is called on."""
    if function in ON_CLOCK_WITH:
        return "clock" if _arguments(frame) == ON_CLOCK_WITH[function] else None
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if name == "pop" and isinstance(owner, set):
        return "set-order" if len(owner) > 1 else None
    if name in _NOW and isinstance(owner, type) and issubclass(owner, datetime.date):
        return "clock"
    return None


def _arguments(frame: FrameType) -> int | None:
    """Return how many arguments the call has that *frame* is about to make, None where its code does not say."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at + 1] if 0 <= at < len(code) else None


def _takes_only_syscalls(frame: FrameType) -> bool:
    """Whether what is called is given syscalls of Loom's, or their tasks, and nothing else."""
    name = TAKES_SYSCALLS.get(id(frame.f_code))
    given = frame.f_locals.get(name) if name else None
    each = given if isinstance(given, tuple) else (given,)
    return bool(given) and all(map(_is_syscall, each))


def _is_syscall(awaited: Any) -> bool:
    if asyncio.isfuture(awaited):
        return True
    code = getattr(awaited, "cr_code", None)
    return code is not None and whose(code.co_filename) == "loom"


def _is_of_syscalls(future: Any) -> bool:
    """Whether *future* is the task of a syscall, or gathers only such."""
    if isinstance(future, asyncio.Task):
        return _is_syscall(future.get_coro())
    gathered = getattr(future, "_children", ())
    return bool(gathered) and all(map(_is_of_syscalls, gathered))


def _logging_caller(frame: FrameType | None) -> FrameType | None:
    """Return who logs a line, None where that is `ctx.log`, which is silent while the flow replays."""
    while frame is not None and frame.f_globals.get("__name__") == "logging":
        if isinstance(frame.f_locals.get("self"), FlowLog):
            return None
        frame = frame.f_back
    return frame


def _name(function: Any) -> str:
    """Return how the author calls a function in C."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        home = _HOMES.get(owner.__name__, owner.__name__)
    else:
        home = (owner if isinstance(owner, type) else type(owner)).__name__
    return f"{home}.{function.__name__}" if home else function.__name__


_HOMES: Final = {"builtins": "", "_io": "", "io": "", "posix": "os", "nt": "os", "_socket": "socket"}
_SEED: Final = random.Random.seed.__code__


def _heard(event: str, args: tuple[Any, ...]) -> None:
    turn = getattr(_HERE, "turn", None)
    if turn is not None and (rule := audited(event, args)) is not None:
        turn.judge(rule, f"{event} {args[0]!r}" if args else event, sys._getframe(1))  # noqa: SLF001  # the documented way


class _Ear:
    """The audit hook of the process; Python cannot take one away again."""

    is_open = False


def _listen_to_audits() -> None:
    if not _Ear.is_open:
        _Ear.is_open = True
        sys.addaudithook(_heard)
