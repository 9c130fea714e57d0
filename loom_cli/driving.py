"""Driving a run from the command: under signals, with its progress shown, and its outcome told.

A command says only which verb of the runtime it calls. The verb runs in one event loop, the app is closed before anything is
told, and what comes out is an exit status: also for a divergence and an interruption, which are ways for a run to stand
and no errors of the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.app.config import LoomApp
from loom.app.registry import steps_from
from loom.core.errors import LoomError, StepNotDurable, SyscallNotAwaited
from loom.core.outcome import Outcome, outcome_of
from loom.core.state import UNTRIED, ExecutionState
from loom.core.step import Step
from loom.driving.errors import ExecutionAlreadyExists
from loom.driving.runtime import WorkflowRuntime
from loom.driving.stored_log import StoredLog
from loom.kernel.errors import DriveInterrupted, ReplayDivergence
from loom.services.piling import PILE
from loom.spi.errors import StoreUnavailable
from loom.spi.memory import MemoryStorage
from loom_cli.app_location import store_place
from loom_cli.cli import Cli
from loom_cli.exits import ExitCode, exit_code_of_status
from loom_cli.hints import Hints
from loom_cli.interrupting import Interruption, end_children, threads_hold_the_process
from loom_cli.outcomes import Teller, outcome_json
from loom_cli.progress import Progress, progress_of
from loom_cli.screen import Styled
from loom_cli.slips import NOT_AWAITED, likelier, slips
from loom_cli.streams import OutputClosed, OutputRefused
from loom_cli.times import duration
from loom_cli.watching import Silent, Watcher, watcher_for
from loom_cli.wording import Event, crowded_words, step_id

_BESIDE_TOLD: Final = 5
_OURS_NOT_AWAITED: Final = "coroutine 'Asking."
"""How Python words it that a syscall was not awaited. Loom has words of its own for that, with the name of the syscall."""

Verb = Callable[[WorkflowRuntime], Awaitable[Outcome[Any]]]


class End(NamedTuple):
    """How a drive ended: *status* where it is not that of an outcome (`diverged`, `interrupted`)."""

    state: ExecutionState
    outcome: Outcome[Any] | None = None
    status: str | None = None
    difference: Mapping[str, Any] | None = None


class Driving:
    """Drives one run of *app* for a command. *options* are those that the commands it prints need again."""

    def __init__(
        self, cli: Cli, app: LoomApp, *, quiet: bool, as_json: bool, options: Mapping[str, str | None]
    ) -> None:
        self._cli, self._app, self._quiet, self._as_json = cli, app, quiet, as_json
        self._options = options
        self._id = self._wanted = ""
        self._kept = _kept_elsewhere(cli, app, options.get("store"))
        self._end: End | None = None
        self._watcher: Watcher = Silent(cli.screen, progress_of(()))
        self._interruption = Interruption(softly=app.runtime.interrupt, heard=self._heard, leaving=self._leaving)

    def start(self, verb: Verb) -> ExitCode:
        """Drive the run that *verb* starts.

        Raises:
            ExecutionAlreadyExists: its hint says what to do about the run that has the id.
        """
        if self._kept is not None and not self._quiet:
            told = f"this app keeps its logs in {self._kept}, where ps, show, logs and gates do not look by themselves"
            self._watcher.say(f"{told}; give them --store, or set [tool.loom] store in pyproject.toml", "yellow")
        return self._drive(verb, progress_of((), attempts_max=attempts_max(self._app)))

    def enqueue(self, verb: Verb) -> ExitCode:
        """Have *verb* leave a run to a worker, and print its id to stdout.

        Raises:
            ExecutionAlreadyExists: the id is taken.
        """
        state, outcome = self._cli.run(self._enqueued(verb))
        self._id = outcome.execution_id
        if not self._as_json:
            self._cli.screen.text(outcome.execution_id)
        return self._tell(End(state, outcome))

    async def _enqueued(self, verb: Verb) -> tuple[ExecutionState, Outcome[Any]]:
        async with self._app:
            outcome = await verb(self._app.runtime)
            state = await self._app.runtime.load_state(outcome.execution_id)
            if not self._quiet and await self._app.runtime.claims.due(state.facts.flow, PILE + 1) > PILE:
                self._cli.screen.note(Styled(crowded_words(state.facts.flow, PILE), "yellow"))
            return state, outcome

    def go_on(self, execution_id: str, past: StoredLog, verb: Verb, *, wanted: str = "") -> ExitCode:
        """Drive *execution_id* on, whose log so far is *past*. Ends well, too, when it stands as *wanted* then."""
        self._id, self._wanted = execution_id, wanted
        return self._drive(verb, progress_of(past.tail, base=past.base, attempts_max=attempts_max(self._app)))

    def started(self, execution_id: str) -> None:
        """Show the id: the run is durable from now on."""
        self._id = execution_id
        if not self._quiet:
            self._watcher.say(f"{execution_id} started", "bold")

    def tell_state(self, execution_id: str, past: StoredLog, *, wanted: str = "") -> ExitCode:
        """Tell where *execution_id* stands by its log, without driving it. Ends well, too, when it stands as *wanted*."""
        self._id, self._wanted = execution_id, wanted
        state = past.state()
        return self._tell(End(state, outcome_of(state)))

    def hints(self, execution_id: str = "") -> Hints:
        """Return how to make commands for *execution_id*, the run that is driven unless given."""
        reads = str(self._kept) if self._kept is not None else None
        return Hints(execution_id or self._id, self._options.get("app"), self._options.get("store"), reads)

    # -- driving -------------------------------------------------------------------------------------------------

    def _drive(self, verb: Verb, progress: Progress) -> ExitCode:
        self._watcher = watcher_for(self._cli.screen, progress, self._cli.now_ms, quiet=self._quiet)
        self._app.runtime.listen(self._listen)
        try:
            with self._warnings_said(), self._interruption.handling():
                end = self._cli.run(self._interruption.watch(self._run(verb)))
        finally:
            self._watcher.end()
        return self._tell(end)

    async def _run(self, verb: Verb) -> End:
        async with self._app:
            self._end = end = await self._settled(await self._end_of(verb))
        if end.status == "interrupted":
            end_children()
            if threads_hold_the_process():
                self._interruption.leave()
        return end

    async def _settled(self, end: End) -> End:
        """Wait for what is driven beside the run, such as its children or its parent, and return how the run stands then."""
        runtime = self._app.runtime
        if end.status == "interrupted" or not runtime.beside:
            return end
        others = [run for run in runtime.beside if run != self._id]
        if others and not self._quiet:
            more = f" and {len(others) - _BESIDE_TOLD} more" if len(others) > _BESIDE_TOLD else ""
            self._watcher.say(f"driving {', '.join(others[:_BESIDE_TOLD])}{more} as well")
        await runtime.settled()
        state = await self._state()
        if end.outcome is None or state.length == end.outcome.length:
            return end
        return End(state, await runtime.wait(self._id) if state.is_terminal else outcome_of(state))

    async def _end_of(self, verb: Verb) -> End:
        try:
            outcome = await verb(self._app.runtime)
            if not self._id:
                return await self._begun_before(outcome)
            return End(await self._state(), outcome)
        except ReplayDivergence as divergence:
            state = await self._state()
            flow = self._app.registry.flows.get(state.facts.flow)
            likely = likelier(divergence.likely, flow, self._cli.folder)
            return End(state, status="diverged", difference={**divergence.as_json(), "likely": likely})
        except ExecutionAlreadyExists as taken:
            has_it, hints = await self._app.runtime.load_state(taken.execution_id), self.hints(taken.execution_id)
            taken.hint = f"Choose another --id; {hints.going_on(has_it)}."
            raise
        except StoreUnavailable as away:
            if self._id:
                away.hint += f" Nothing committed is lost: {self.hints().command('resume')}"
            raise
        except (DriveInterrupted, asyncio.CancelledError):
            if not self._interruption.count or not self._id:
                raise
            return End(await self._state(), status="interrupted")

    async def _begun_before(self, outcome: Outcome[Any]) -> End:
        """Nothing was started: say so, and return how the run stands that was started for the same thing."""
        self._id = outcome.execution_id
        self._watcher.say(f"{self._id} was started before; it stands so:")
        state = await self._state()
        return End(state, outcome_of(state) if outcome.status == "accepted" else outcome)

    async def _state(self) -> ExecutionState:
        return await self._app.runtime.load_state(self._id)

    def _listen(self, event: Event) -> None:
        if not self._id or event.execution_id == self._id:  # others are driven beside it
            self._watcher.event(event)

    @contextlib.contextmanager
    def _warnings_said(self) -> Iterator[None]:
        """Say Python's warnings, which are for the author, in a line of our own."""
        before = warnings.showwarning

        def said(message: Warning | str, *about: object, **_more: object) -> None:
            if str(message).startswith(_OURS_NOT_AWAITED):
                return
            self._watcher.say(f"warning: {message}", "yellow")
            for place in self._places_of(message, *map(str, about[1:3])):
                self._watcher.say(f"  {place}", "yellow")

        warnings.showwarning = said
        try:
            yield
        finally:
            warnings.showwarning = before

    def _places_of(self, message: Warning | str, file: str, line: str) -> Iterable[str]:
        """Return where in the author's code the slip is that a warning tells."""
        folder = self._cli.folder
        if isinstance(message, SyscallNotAwaited):  # it is noticed when the body has ended, which tells no place
            return dict.fromkeys(
                each for flow in self._app.registry.flows.values() for each in slips(flow, folder, NOT_AWAITED)
            )
        return [f"{file.removeprefix(f'{folder}{os.sep}')}:{line}"] if isinstance(message, StepNotDurable) else ()

    # -- interruption --------------------------------------------------------------------------------------------

    def _heard(self, count: int) -> None:
        if count > 1:
            self._watcher.say("stopping at once")
            return
        flights = in_flight(self._watcher.progress)
        if not flights:
            self._watcher.say("stopping")
            return
        names = ", ".join(start.payload.id for start in flights[:5])
        patience = duration(round(1000 * self._patience_s(flights)))
        self._watcher.say(f"stopping: {names} may still end, for {patience} at most; again to stop at once")

    def _patience_s(self, flights: Sequence[Event]) -> float:
        """Return how long *flights* are waited for: those that must not run twice, for as long as they may take."""
        steps = {step.id: step for step in steps_of(self._app)}
        once = [steps.get(step_id(start)) for start in flights if start.payload.once]
        timeouts = [step.timeout.total_seconds() for step in once if step is not None and step.timeout is not None]
        return max([self._app.runtime.grace_s, *timeouts])

    def _leaving(self) -> ExitCode:
        """Tell what there is to tell before the process is ended the hard way, and return its status."""
        self._watcher.end()
        if self._id:
            with contextlib.suppress(OutputClosed, OutputRefused):
                return self._tell(self._end or End(self._watcher.progress.state, status="interrupted"))
        return ExitCode.INTERRUPTED

    # -- telling -------------------------------------------------------------------------------------------------

    def _tell(self, end: End) -> ExitCode:
        screen = self._cli.screen
        if self._as_json:
            screen.json(outcome_json(end.state, end.outcome, status=end.status, difference=end.difference), indent=None)
        else:
            self._tell_person(Teller(screen, self.hints(), self._cli.now_ms), end)
        screen.flush()
        if end.status == "interrupted":
            return ExitCode.INTERRUPTED
        status = end.status or (end.outcome.status if end.outcome is not None else end.state.status)
        return ExitCode.DONE if status == self._wanted else exit_code_of_status(status)

    def _tell_person(self, teller: Teller, end: End) -> None:
        if end.outcome is not None:
            teller.outcome(end.state, end.outcome)
        elif end.status == "diverged":
            teller.diverged(end.difference or {})
        else:
            flights = in_flight(self._watcher.progress)
            teller.interrupted([start.payload.id for start in flights if start.payload.once])
        if isinstance(self._app.storage, MemoryStorage) and not end.state.is_terminal:
            teller.forgotten()


def _kept_elsewhere(cli: Cli, app: LoomApp, store: str | None) -> Path | str | None:
    """Return where *app* keeps its logs, if commands that read would look elsewhere."""
    kept = store_place(app.storage.url)
    try:
        reads = store_place(cli.reader(store).url) if kept is not None else None
    except LoomError:  # what names the store for them is broken, and none of this run's business
        reads = None
    return None if kept == reads else kept


def in_flight(progress: Progress) -> list[Event]:
    """Return the starts of the steps of which an attempt is under way."""
    state = progress.state
    steps = (start for start in state.open.values() if start.type == "STEP_STARTED")
    known = ((start, state.attempts.get(start.sequence, UNTRIED)) for start in steps)
    flights = [start for start, attempts in known if attempts.in_flight and attempts.doubt is None]
    return sorted(flights, key=lambda start: start.sequence)


def steps_of(app: LoomApp) -> list[Step[Any, Any]]:
    """Return the steps of *app* that can be found: those registered, and those beside their flow."""
    modules = {sys.modules.get(flow.fn.__module__) for flow in app.registry.flows.values()}
    return [*app.registry.tools.values(), *steps_from(*(module for module in modules if module is not None))]


def attempts_max(app: LoomApp) -> dict[str, int]:
    """Return how many attempts the steps that can be found allow."""
    return {step.id: step.retry.attempts for step in steps_of(app)}
