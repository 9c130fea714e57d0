"""`loom torture`: simulates a flow while processes die and messages are lost, and looks for what that breaks."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from loom_cli.cli import Cli
from loom_cli.completion import complete_flows
from loom_cli.exits import ExitCode
from loom_cli.group import command_app
from loom_cli.options import AppOption, JsonOption, SetOption

app = command_app()

WorldOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--world", metavar="MODULE:FACTORY", help="What makes the world that the flow is simulated in."),
]
AnswersOption: TypeAlias = Annotated[
    str | None, typer.Option("--answers", metavar="JSON", help="An object: the answer to each gate, by its label.")
]
MessagesOption: TypeAlias = Annotated[
    str | None, typer.Option("--messages", metavar="JSON", help="An object: messages to send, by their topic.")
]
RealOption: TypeAlias = Annotated[
    bool, typer.Option("--real", help="Run steps that have no stand-in as they are written, over and over.")
]


@app.command()
def torture(
    ctx: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow's id.", autocompletion=complete_flows)],
    *,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="How many seeds to try.")] = 1000,
    first: Annotated[int, typer.Option("--from", metavar="SEED", min=0, help="The first of them.")] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="SEED", min=0, help="Only this one; show all that happens.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", metavar="FAULTS", help="What goes wrong, instead of what the seed has.")
    ] = None,
    world: WorldOption = None,
    input_: Annotated[
        str | None, typer.Option("--input", "-i", metavar="JSON", help="Its input: JSON, @FILE, or - for stdin.")
    ] = None,
    set_: SetOption = None,
    answers: AnswersOption = None,
    messages: MessagesOption = None,
    real: RealOption = False,
    app_: AppOption = None,
    as_json: JsonOption = False,
) -> ExitCode:
    """Simulate a flow where all goes wrong, and tell what breaks.

    Nothing is real: processes that die and stand still, a store that fails, and time are simulated; for a step its result
    is made up from its type, unless --world has a stand-in for it. The store of the app is not opened. Ends with 1 when
    something breaks, and prints the command that has it again. docs/guide/torture.md has more.

    Example: loom torture hello --seeds 200

    Example: loom torture hello --seed 7 --schedule "step.1:crash-after"
    """
    from loom_cli.app_location import named_object
    from loom_cli.inputs import Taking, input_given
    from loom_cli.payloads import payload_given
    from loom_cli.torturing import Given, given_options, play_of

    cli = Cli.of(ctx)
    loaded = cli.app(app_)
    found = loaded.runtime.flow(flow)
    value = input_given(Taking.of(found), input_, set_ or [], folder=cli.folder)
    given = Given(
        make=None if world is None else named_object(world, "--world", folder=cli.folder),
        answers=payload_given(answers, [], flag="--answers", folder=cli.folder),
        messages=payload_given(messages, [], flag="--messages", folder=cli.folder),
        real=real,
    )
    play = play_of(loaded, found, value, given)
    if seed is not None or schedule is not None:
        return _one(cli, play, seed or 0, schedule, as_json=as_json)
    options = given_options(
        world=world, input_=input_, set_=set_, answers=answers, messages=messages, real=real, app_=app_
    )
    return _many(cli, play, range(first, first + seeds), options, as_json=as_json)


def _one(cli: Cli, play: Any, seed: int, schedule: str | None, *, as_json: bool) -> ExitCode:
    from loom.devtools.dst import Schedule, normal, tried
    from loom.devtools.dst.telling import trial_json
    from loom_cli.standing_still import watched
    from loom_cli.torturing import silence, tell_trial

    given = None if schedule is None else Schedule.parse(schedule)
    with silence(), watched("a simulation"):
        usual, _ = normal(play)
        trial = tried(play, seed, Schedule.of(seed, usual.counts) if given is None else given, usual)
    if as_json:
        cli.screen.json(trial_json(play.flow.id, trial))
    else:
        tell_trial(cli.screen, play.flow.id, trial)
    return ExitCode.FAILED if trial.breaches else ExitCode.DONE


def _many(cli: Cli, play: Any, seeds: range, options: list[str], *, as_json: bool) -> ExitCode:
    from loom.devtools.dst import normal, search
    from loom.devtools.dst.telling import report_json
    from loom_cli.bars import Bar
    from loom_cli.standing_still import watched
    from loom_cli.torturing import silence, tell_report, tell_usual

    bar = Bar(cli.screen, doing="simulating", done="simulated")
    with silence(), watched("a simulation") as lives:

        def told(_tried: int) -> None:
            lives()
            bar.step()

        usual, _ = normal(play)
        bar.begin(len(seeds), quiet=as_json)
        try:
            report = search(play, seeds, told=told)
        finally:
            bar.end()
    tell_usual(cli.screen, play.flow.id, usual)
    if as_json:
        cli.screen.json(report_json(play.flow.id, report, options))
    else:
        tell_report(cli.screen, play.flow.id, report, options)
    return ExitCode.FAILED if report.finding is not None else ExitCode.DONE
