"""`loom torture` on the screen: what is simulated, what was found, and how it is had again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from loom.app.config import LoomApp
from loom.core.flow import Flow
from loom.core.missing import MISSING
from loom.devtools.dst.made_up import made_up
from loom.devtools.dst.schedule import Fault, words
from loom.devtools.dst.searching import Finding, Normal, Report, Trial
from loom.devtools.dst.stage import Play
from loom.devtools.dst.telling import again
from loom.devtools.dst.world import Message, World, made_by
from loom_cli.errors import Usage
from loom_cli.screen import Screen, Styled

INPUT_HINT: Final = "Give one: --input JSON."


class Given(NamedTuple):
    """What the command line says about the world: *make* makes it, *answers* and *messages* are added to it."""

    make: Callable[[], object] | None
    answers: Any = MISSING
    messages: Any = MISSING
    real: bool = False


def play_of(app: LoomApp, flow: Flow[Any, Any], input_: Any, given: Given) -> Play:
    """Return what is simulated: *flow*, with the app's other flows, steps and middleware round it.

    Raises:
        NoValue: the flow needs an input, none was given, and none can be made up.
        Usage: answers or messages have not the shape they need.
    """
    if input_ is MISSING and flow.takes_input and flow.input_required:
        input_ = made_up(flow.hints()[0], what=f"the input of {flow.id}", hint=INPUT_HINT)
    return Play(
        flow=flow,
        flows=app.runtime.flows,
        tools=app.runtime.tools,
        input=input_,
        middleware=tuple(app.runtime.surroundings.effects.middleware),
        world=worlds(given),
    )


def worlds(given: Given) -> Callable[[], World]:
    """Return what makes the world that the command line describes.

    Raises:
        Usage: answers or messages have not the shape they need.
    """
    answers, messages = _answers(given.answers), _messages(given.messages)

    def world() -> World:
        made = World() if given.make is None else made_by(given.make)
        if answers:
            made = replace(made, answers={**(made.answers or {}), **answers})
        return replace(made, messages=[*made.messages, *messages], real=given.real or made.real)

    return world


def _answers(given: Any) -> Mapping[str, Any]:
    if given is MISSING:
        return {}
    if not isinstance(given, dict):
        raise Usage("--answers is no object", hint="""Write it as in --answers '{"approval": true}'.""")
    return given


def _messages(given: Any) -> list[Message]:
    if given is MISSING:
        return []
    if not isinstance(given, dict):
        raise Usage("--messages is no object", hint="""Write it as in --messages '{"paid": [{"amount": 40}]}'.""")
    lists = {topic: each if isinstance(each, list) else [each] for topic, each in given.items()}
    return [Message(topic, message) for topic, several in lists.items() for message in several]


@contextmanager
def silence() -> Iterator[None]:
    """Let nothing be logged: a simulation tells many times over what went wrong in it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def tell_usual(screen: Screen, flow: str, usual: Normal) -> None:
    """Say how the run ends when nothing goes wrong, if that is not as it should: then little can be found."""
    if usual.end.status != "completed":
        why = (usual.end.failure or {}).get("message", "")
        told = f"when nothing goes wrong, {flow} is {usual.end.status or 'not started'}"
        screen.note(Styled("warning:", "yellow"), f" {told}: {why}" if why else f" {told}")


def tell_report(screen: Screen, flow: str, report: Report, options: Sequence[str]) -> None:
    """Print what a search found."""
    tried = f"{report.seeds} {'seed' if report.seeds == 1 else 'seeds'} in {report.seconds:.1f} s"
    if report.finding is None:
        screen.line(Styled(screen.sign("done"), "green"), f" {flow}: {tried}, and nothing broke")
        return
    _tell_finding(screen, flow, report.finding, tried)
    screen.line("  again  ", Styled(again(flow, report.finding, options), "bold"))


def _tell_finding(screen: Screen, flow: str, finding: Finding, tried: str) -> None:
    screen.line(Styled(screen.sign("failed"), "red"), f" {flow} breaks at seed {finding.seed}, after {tried}")
    _tell_breaches(screen, [str(breach) for breach in finding.breaches])
    if not finding.shrunk.faults:
        screen.line("  though nothing goes wrong")
    _tell_faults(screen, finding.shrunk.faults)


def tell_trial(screen: Screen, flow: str, trial: Trial) -> None:
    """Print what happened in one simulation, and what it broke."""
    for moment in trial.seen.trail:
        screen.line(f"{moment.at_s:10.3f}  {moment.process:<10} ", moment.what)
    if not trial.breaches:
        screen.line(Styled(screen.sign("done"), "green"), f" {flow}: seed {trial.seed} breaks nothing")
        return
    screen.line(Styled(screen.sign("failed"), "red"), f" {flow} breaks at seed {trial.seed}")
    _tell_breaches(screen, [str(breach) for breach in trial.breaches])
    _tell_faults(screen, trial.schedule.faults)


def _tell_breaches(screen: Screen, breaches: Sequence[str]) -> None:
    for breach in breaches:
        screen.line("  ", Styled(breach, "red"))


def _tell_faults(screen: Screen, faults: Sequence[Fault]) -> None:
    for fault in faults:
        screen.line("  ", Styled(f"{fault!s:<24}", "bold"), " ", words(fault))


def given_options(**given: Any) -> list[str]:
    """Return the options of the command line that are to be given again: each by its name, without those left off."""
    written: list[str] = []
    for name, value in given.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is True:
            written.append(option)
        elif value not in (None, False, MISSING, []):
            for each in value if isinstance(value, list) else [value]:
                written += [option, each if isinstance(each, str) else json.dumps(each)]
    return written
