"""`loom debug --break`: where a replayed body stands, told or handed to pdb. Effects are off, and nothing is written."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import cached_property
from pathlib import Path
from reprlib import Repr
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from loom.devtools.deploying import Checking, StoredRun
from loom.driving.breaking import Breaks, Point, Stop, When
from loom.driving.replay_drive import PATIENCE_S
from loom.driving.replaying import Replayed
from loom.driving.verdicts import Verdict
from loom.fingerprint.places import running_frames
from loom.kernel.codec import decode_events
from loom.kernel.context import Context
from loom.lenses.execution import CallView, ExecutionView, execution_view
from loom.lenses.folding import fold_at, state_digest
from loom_cli.calls import call_meant
from loom_cli.cli import Cli
from loom_cli.errors import Usage
from loom_cli.exits import ExitCode
from loom_cli.proving import draw_difference
from loom_cli.reading import log_meant
from loom_cli.replays import STYLES, WORDS, Meant, from_here, reader_of, runs_in, verdict_json
from loom_cli.screen import Screen, Styled
from loom_cli.wording import awaited_words, counted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from loom.app.config import LoomApp
    from loom_cli.debugger import FlowDebugger

_HOW: Final = "Write before:CALL, after:CALL, at:N (the number of an event), or end."
_LOCALS_MAX: Final = 40


class Wish(NamedTuple):
    """Where to stop (`--break`, as typed), whether at each call, and whether pdb is to be there."""

    breaks: Sequence[str] = ()
    step: bool = False
    pdb: bool = False


class Told(NamedTuple):
    """A stop as it is told: the event it stands before or after, what the state is called then (None: not known here), where.

    *places* are `file:line in function`, the innermost last, and *locals* what that one has, each value as short text.
    """

    when: str
    id: str
    sequence: int | None
    digest: str | None
    places: Sequence[str]
    locals: Mapping[str, str]
    value: str | None
    error: str | None


# -- which places are meant: pure ---------------------------------------------------------------------------------------


def points(view: ExecutionView, wish: Wish) -> list[Point]:
    """Return where to stop in the replay of the run *view*; where nothing is said, at the end of its log.

    Raises:
        Usage: something typed is no place to stop.
        CallNotFound, AmbiguousCall: it names no call of the run, or several.
    """
    found = [_point(view, text) for text in wish.breaks] + ([Point("before")] if wish.step else [])
    return found or [Point("end")]


def _point(view: ExecutionView, text: str) -> Point:
    when, _, rest = text.partition(":")
    if when == "at" and rest.isdecimal():
        return _at(view, int(rest))
    if when in ("before", "after") and rest:
        call = call_meant(view, rest)
        if when == "after" and call.kind == "scope" and call.asked.get("kind") == "scope":
            raise Usage(f"{call.id} is a block: it has no one place after it", hint=f"Stop before:{call.id}, or at:N.")
        if when == "after" and call.end is None:
            raise Usage(f"nothing came of {call.id} yet", hint=f"Stop before:{call.id}, or at the end of the log.")
        return Point(cast("When", when), call.id)
    if text == "end":
        return Point("end")
    raise Usage(f"--break {text} is no place to stop", hint=_HOW)


def _at(view: ExecutionView, number: int) -> Point:
    """Return the first place at event *number* or after it where the body stands in a call."""
    if number > view.last:
        raise Usage(f"there is no event {number}", hint=f"--break at:{view.last} is the last one")
    places = [(call.start, Point("before", call.id)) for call in view.calls]
    places += [(call.end, Point("after", call.id)) for call in view.calls if call.end is not None and _is_left(call)]
    later = sorted((place for place in places if place[0] >= number), key=lambda place: (place[0], place[1].when))
    return later[0][1] if later else Point("end")


def _is_left(call: CallView) -> bool:
    """Whether a call has one place after it: a decision, or what is emitted, has it at the event that asks it."""
    return call.end != call.start and not (call.kind == "scope" and call.asked.get("kind") == "scope")


# -- telling ------------------------------------------------------------------------------------------------------------


def told(stop: Stop, digests: Callable[[int], str | None], folder: Path) -> Told:
    """Return *stop* as it is told, with paths from *folder* on."""
    at = stop.sequence
    known = None if at is None else at - 1 if stop.when == "before" else at
    return Told(
        when=stop.when,
        id=stop.id,
        sequence=at,
        digest=None if known is None or known < 0 else digests(known),
        places=[_place(frame, line, folder) for frame, line in stop.frames],
        locals=short_locals(stop.frames[-1][0].f_locals) if stop.frames else {},
        value=_short(stop.value) if stop.when == "after" and stop.error is None else None,
        error=_failure(stop.error) if stop.error is not None else None,
    )


def _place(frame: FrameType, line: int, folder: Path) -> str:
    file = frame.f_code.co_filename.removeprefix(f"{folder}{os.sep}")
    return f"{file}:{line} in {frame.f_code.co_name}"


def short_locals(values: Mapping[str, Any]) -> dict[str, str]:
    """Return what a frame has, as short text: without what the language puts there, and the context of the flow."""
    kept = {name: value for name, value in values.items() if not (name.startswith("__") or _is_code(value))}
    return {name: _short(kept[name]) for name in list(kept)[:_LOCALS_MAX]}


def _is_code(value: Any) -> bool:
    return isinstance(value, Context | ModuleType | FunctionType | type)


def _short(value: Any) -> str:
    texts = Repr()
    texts.maxstring = texts.maxother = 200
    texts.maxdict = texts.maxlist = 12
    try:
        return texts.repr(value)
    except Exception as error:  # noqa: BLE001  # a representation is the author's code, and may do anything
        return f"<{type(value).__name__} that does not show itself: {type(error).__name__}>"


def _failure(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class Looking:
    """One replay of *run* that stops as wished, told on the screen of *cli*."""

    def __init__(self, cli: Cli, app: LoomApp, run: StoredRun, wish: Wish) -> None:
        self._cli, self._app, self._run, self._wish = cli, app, run, wish
        self._events = decode_events(cast("Any", run.id), run.records)
        self.told: list[Told] = []
        patience_s = math.inf if wish.pdb else PATIENCE_S
        self.breaks = Breaks(points(self.view, wish), self._stopped, patience_s=patience_s)

    @cached_property
    def view(self) -> ExecutionView:
        """The run as it stands."""
        return execution_view(fold_at(self._events, base=self._run.base), self._events, base=self._run.base)

    @property
    def talks(self) -> bool:
        """Whether somebody could change what the flow knows."""
        return self._wish.pdb

    async def replay(self) -> Replayed:
        """Replay the run, stopping on the way."""
        app, on_change = self._app, self._app.runtime.surroundings.on_change
        checking = Checking(app.registry.flows, app.registry.tools, on_change=on_change, manner=self.breaks)
        stepping = self._debugger.stepping() if self._wish.pdb else _nothing()
        with self._breakpoints(), stepping:
            return await checking.replayed(self._run)

    @contextmanager
    def _breakpoints(self) -> Iterator[None]:
        """Have `breakpoint()`, where the author wrote it in the flow, stop here too; who chose a debugger for it keeps that."""
        if os.environ.get("PYTHONBREAKPOINT"):
            yield
            return
        before, sys.breakpointhook = sys.breakpointhook, self._breakpoint
        try:
            yield
        finally:
            sys.breakpointhook = before

    def _breakpoint(self, *_: Any, **__: Any) -> None:
        frames = running_frames(sys._getframe(1))  # noqa: SLF001  # the documented way to a frame
        self.breaks.here([(frame, frame.f_lineno) for frame in frames])

    def _stopped(self, stop: Stop) -> bool:
        """Tell *stop*, and return whether to go on."""
        self.told.append(told(stop, self._digest, self._cli.folder))
        if not self._cli.json_errors:
            draw_stop(self._cli.screen, self.told[-1], self.view)
        if self._wish.pdb and stop.frames:
            self._cli.screen.flush()
            if not stop.runs:
                self._debugger.look(stop.frames)
            elif stop.when == "after":
                self._debugger.at([frame for frame, _ in stop.frames], gives=stop.error or stop.value)
            else:
                self._debugger.at([frame for frame, _ in stop.frames])
        return not self.breaks.left

    def _digest(self, sequence: int) -> str | None:
        base = self._run.base
        if base is not None and sequence < base.sequence:
            return None
        return state_digest(fold_at(self._events, sequence, base=base))

    @cached_property
    def _debugger(self) -> FlowDebugger:
        from loom_cli.debugger import FlowDebugger

        screen = self._cli.screen
        is_terminal = screen.interactive
        return FlowDebugger(
            stdin=None if is_terminal else sys.stdin,
            stdout=None if is_terminal else screen.out,
            on_quit=self.breaks.leave,
            on_nextcall=self.breaks.step,
        )


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def look(cli: Cli, app: LoomApp, text: str, wish: Wish, *, as_json: bool) -> ExitCode:
    """Replay the run that *text* means, stop as wished, and tell how the replay ended.

    Raises:
        ExecutionNotFound, Usage, CallNotFound, AmbiguousCall: nothing was replayed.
    """
    if wish.pdb and as_json:
        raise Usage("--pdb talks to a person, --json to a program", hint="leave one of them")
    run = cli.run(_run_meant(app, text))
    if run.fault:
        raise Usage(f"{run.id} cannot be read: {run.fault}", hint=f"loom logs {run.id}")
    looking = Looking(cli, app, run, wish)
    replayed = cli.run(looking.replay())
    verdict = from_here(replayed.verdict, cli.folder)
    left = looking.breaks.left
    if as_json:
        stops = [_json(stop) for stop in looking.told]
        cli.screen.json({"id": run.id, "stops": stops, "verdict": verdict_json(verdict)})
    else:
        _draw_end(cli.screen, looking, verdict)
    return ExitCode.DONE if left or verdict.is_fine else ExitCode.FAILED


async def _run_meant(app: LoomApp, text: str) -> StoredRun:
    """Return the run that *text* means: of a chain the last log, unless it names another."""
    storage = reader_of(app)
    try:
        log = await log_meant(storage, text)
        async with aclosing(cast("AsyncGenerator[StoredRun]", runs_in(storage, Meant([log.run_id])))) as runs:
            return await anext(runs)
    finally:
        await storage.close()


def _json(stop: Told) -> dict[str, Any]:
    return {**stop._asdict(), "id": stop.id or None, "places": list(stop.places), "locals": dict(stop.locals)}


def draw_stop(screen: Screen, stop: Told, view: ExecutionView) -> None:
    """Print where the body stands."""
    at = "" if stop.sequence is None else f"  event {stop.sequence}"
    screen.line(Styled(_head(stop, view), "bold"), Styled(at, "dim"))
    for place in reversed(stop.places):
        screen.line("  ", place)
    if stop.value is not None:
        screen.line(Styled("  gives  ", "dim"), stop.value)
    if stop.error is not None:
        screen.line(Styled("  raises  ", "dim"), Styled(stop.error, "red"))
    for name, value in stop.locals.items():
        screen.line(Styled(f"  {name} = ", "dim"), value)
    if stop.digest is not None:
        after = stop.sequence if stop.when != "before" or stop.sequence is None else stop.sequence - 1
        screen.line(Styled(f"  state {stop.digest} after event {after}", "dim"))


def _head(stop: Told, view: ExecutionView) -> str:
    if stop.when != "end":
        return f"{stop.when} {stop.id}".rstrip()
    if view.status == "failed" and stop.error is not None:
        return "the end of the log: the flow failed"
    if stop.error is not None:
        return "the flow does not fit its log here" if not stop.id else f"the flow fails at {stop.id}"
    if stop.id:
        waited = next((each.topic for each in view.receives if each.receive == stop.id), None)
        return f"the end of the log: it stands in {stop.id}" + (f", for {awaited_words(waited)}" if waited else "")
    ends = {"completed": "the flow returned", "cancelled": "the run was cancelled"}
    return f"the end of the log: {ends.get(view.status, view.status.replace('_', ' '))}"


def _draw_end(screen: Screen, looking: Looking, verdict: Verdict) -> None:
    view = looking.view
    if looking.breaks.left:
        screen.note("left; nothing was written, and no effect ran")
        return
    screen.flush()
    style = STYLES.get(verdict.kind, "red")
    told = f"{counted(len(looking.told), 'stop', 'stops')}; {_how(view)}; nothing was written, and no effect ran"
    screen.note(Styled(view.id, "bold"), "  ", Styled(WORDS[verdict.kind], style), Styled(f"  {told}", "dim"))
    if not verdict.is_fine:
        draw_difference(screen, verdict)
        if looking.talks:
            screen.note(
                Styled(
                    "  or it went another way since something was changed at the prompt; its log is as it was", "dim"
                )
            )


def _how(view: ExecutionView) -> str:
    """Return how the run that was replayed stands, in words."""
    words = {
        "completed": "the run ended well",
        "failed": "the run failed",
        "cancelled": "the run was cancelled",
        "suspended": "the run waits",
        "paused": "the run is paused",
        "in_doubt": "an effect of the run is in doubt",
        "continued": f"the run goes on as {view.next}",
        "diverged": "the run does not fit its code",
    }
    told = [words.get(view.status, f"the run is {view.status.replace('_', ' ')}")]
    if view.link > 1:
        told.append(f"this is log {view.link} of {view.first}")
    if view.compacted is not None:
        told.append(f"events up to {view.compacted} are in an archive, and their states are not known here")
    return "; ".join(told)
