"""What a command does to the inbox of a run; where that makes a parked run go on, it is driven as by `loom resume`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from loom.app.config import LoomApp
from loom.core.ids import ExecutionId
from loom.core.outcome import Outcome
from loom.core.state import ExecutionState
from loom.core.views import awaited_messages
from loom.driving.runtime import WorkflowRuntime
from loom_cli.cli import Cli
from loom_cli.driving import Driving
from loom_cli.exits import ExitCode, exit_code_of_status
from loom_cli.hints import Hints
from loom_cli.outcomes import Teller, outcome_json
from loom_cli.resuming import load
from loom_cli.screen import Styled
from loom_cli.wording import Event, child_of

Verb: TypeAlias = Callable[[WorkflowRuntime, ExecutionId, bool], Awaitable[Outcome[Any]]]
"""What is asked of the runtime for a run; the last argument says whether the run may be driven."""


def is_parked_for(state: ExecutionState, topic: str) -> bool:
    """Whether a run stands still and goes on with a message of *topic*, were it not held back."""
    return state.status in ("suspended", "in_doubt") and any(wait.topic == topic for wait in awaited_messages(state))


def kept_words(state: ExecutionState, topic: str, hints: Hints) -> tuple[str, str]:
    """Return what becomes of a message that nobody drives a run for, and the command that changes that."""
    if state.status == "running":
        return "has it: a driver has the run now, and finds it", ""
    if topic in state.facts.held:
        return f"keeps it until {topic} is released:", hints.command("inbox release", after=[topic])
    if is_parked_for(state, topic):
        return "keeps it until the run is driven:", hints.command("resume")
    others = sorted({wait.topic for wait in awaited_messages(state) if child_of(wait.topic) is None})
    instead = f"; it waits for {', '.join(others)}" if others else ""
    return f"keeps it: nothing waits for {topic} now{instead}", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How a command that was given *options* (`app`, `store`) does something for the inbox of a run."""

    cli: Cli
    app: LoomApp
    options: Mapping[str, str | None]
    quiet: bool
    as_json: bool

    def do(self, text: str, topic: str, verb: Verb, *, detach: bool, releases: bool = False) -> ExitCode:
        """Carry out *verb* for the run whose id begins with *text*; with *detach* the run is left to a worker.

        A verb that *releases* the topic moves a run that is parked for it where the topic is held, any other where not.
        """
        run_id, past = self.cli.run(load(self.app, text))
        state = past.state()
        if not detach and is_parked_for(state, topic) and (topic in state.facts.held) is releases:
            driving = Driving(self.cli, self.app, quiet=self.quiet, as_json=self.as_json, options=self.options)
            dropped = self._listen_for_dropped(run_id)
            status = driving.go_on(run_id, past, lambda runtime: verb(runtime, run_id, True))
            return ExitCode.USAGE if dropped and status == ExitCode.WAITING and not releases else status
        state, outcome = self.cli.run(self._carried_out(run_id, verb, drive=not detach))
        self._tell(state, outcome, topic)
        return exit_code_of_status(outcome.status)

    def _listen_for_dropped(self, run_id: ExecutionId) -> list[Event]:
        """Return what fills with the messages of the run that are dropped from here on: they are not what it waits for."""
        dropped: list[Event] = []

        def hear(event: Event) -> None:
            if event.execution_id == run_id and event.type == "REQUEST_DROPPED" and event.payload.kind == "message":
                dropped.append(event)

        self.app.runtime.listen(hear)
        return dropped

    async def _carried_out(
        self, run_id: ExecutionId, verb: Verb, *, drive: bool
    ) -> tuple[ExecutionState, Outcome[Any]]:
        async with self.app:
            outcome = await verb(self.app.runtime, run_id, drive)
            return await self.app.runtime.load_state(run_id), outcome

    def _tell(self, state: ExecutionState, outcome: Outcome[Any], topic: str) -> None:
        screen, hints = self.cli.screen, Hints(state.execution_id, self.options.get("app"), self.options.get("store"))
        if self.as_json:
            screen.json(outcome_json(state, outcome), indent=None)
        elif outcome.status != "accepted":
            Teller(screen, hints, self.cli.now_ms).outcome(state, outcome)
        else:
            words, command = kept_words(state, topic, hints)
            screen.note(
                Styled(screen.sign("done"), "green"), f" {state.execution_id} {words} ", Styled(command, "bold")
            )
