"""Stopping runs from the command: one, with its progress shown, or all that fit some conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loom.core.errors import ExecutionTerminated
from loom_cli.bulk import Bulk, Call
from loom_cli.driving import Driving
from loom_cli.exits import ExitCode
from loom_cli.over_runs import Given
from loom_cli.resuming import load
from loom_cli.selecting import VERBS

WANTED: Final[Mapping[str, str]] = {"cancel": "cancelled", "pause": "paused"}
"""How a run is to stand after a verb; the command has done what it was asked then."""


def one_or_many(given: Given, verb: str, call: Call) -> ExitCode:
    """Carry out *verb* by *call* for the run that was named, or for all that were asked for.

    Raises:
        ExecutionTerminated: it has ended; the hint says what can be done with it instead.
        ExecutionNotPaused: there is nothing to unpause.
    """
    cli, app, asked = given.cli, given.app(), given.asked
    if given.named is None:
        return Bulk(cli, app, VERBS[verb]).run(asked, call)
    run_id, past = cli.run(load(app, given.named))
    driving = Driving(cli, app, quiet=asked.quiet, as_json=asked.as_json, options=given.options)
    state = past.state()
    wanted = WANTED.get(verb, "")
    if state.status == wanted == "cancelled":
        return driving.tell_state(run_id, past, wanted=wanted)
    if state.is_terminal and state.status != "continued":  # else the last log of its chain is meant
        hint = driving.hints(run_id).going_on(state)
        raise ExecutionTerminated(execution_id=run_id, status=state.status, hint=hint)
    return driving.go_on(run_id, past, lambda runtime: call(runtime, run_id), wanted=wanted)
