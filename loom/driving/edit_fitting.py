"""Whether what a person puts into a fork fits the call that it is for, as an answer or an input has to: asked of the code at hand.

The code is asked by replaying the source: what its body asks there knows its types. Where that cannot be had, since the flow is not
at hand or does not come as far, nothing is refused, and the fork says so when it is resumed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loom import values
from loom.core.envelope import EDITED
from loom.core.json import Json
from loom.core.missing import MISSING
from loom.core.origins import cause_of
from loom.core.state import ExecutionState
from loom.driving.edits import Edit
from loom.driving.stored_log import records_of
from loom.kernel.calls import Syscall
from loom.kernel.gates import GateSyscall
from loom.kernel.receiving import ReceiveSyscall
from loom.kernel.records import DecisionSyscall
from loom.kernel.steps import StepSyscall
from loom.values.binding import Binding
from loom.values.places import is_open

if TYPE_CHECKING:
    from loom.driving.driver import Driver
    from loom.spi.event_store import ExecutionRow


async def fitted(driver: Driver, row: ExecutionRow, flow: str, edit: Edit) -> Edit:
    """Return *edit* with its value as a log of the run of *row* holds it.

    Raises:
        InvalidPayload: the call, as the code at hand asks it, takes no such value.
    """
    from loom.driving.replaying import Replayer  # which stands on the driver

    flows = driver.family.verbs.flows
    if flow not in flows:
        return edit
    stored = await records_of(driver.around.storage, row.execution_id)
    replayed = await Replayer(flows, driver.tools, is_lenient=True).replay(
        row.execution_id, stored.records, base=stored.base
    )
    asked = [each.call.syscall for each in replayed.asked if each.call.id == edit.id]
    return edit._replace(value=_fitting(asked[-1], edit)) if asked else edit


def _fitting(syscall: Syscall, edit: Edit) -> Json:
    match syscall:
        case StepSyscall() if edit.what == "input":
            return _arguments(syscall.binding, edit.value)
        case StepSyscall() if syscall.step.claim_check is not None:
            return edit.value  # the log holds where it is, and not what
        case StepSyscall():
            return _value(edit.value, syscall.binding.returns, syscall.binding.result)
        case GateSyscall() | ReceiveSyscall():
            return _value(edit.value, syscall.expects, syscall.codec)
        case DecisionSyscall():
            return _value(edit.value, MISSING, values.codec_for())
        case _:
            return edit.value


def _value(value: Json, annotation: Any, codec: Any) -> Json:
    """Return *value* encoded: it is what a person would write, or else what the log holds of such a value."""
    if is_open(annotation):  # as it is: it may be copied from a log, and name a class
        try:
            codec.decode(value)
        except values.RecordUnreadable as error:
            problem = values.Problem(error.path, error.reason, "")
            raise values.InvalidPayload(problems=(problem,)) from error
        return value
    try:
        encoded: Json = codec.encode(values.parse(value, annotation))
    except values.InvalidPayload as refused:
        try:
            encoded = codec.encode(values.check(codec.decode(value), annotation))
        except (values.RecordUnreadable, values.InvalidPayload):
            raise refused from None
    return encoded


def _arguments(binding: Binding, given: Json) -> Json:
    """Return the arguments that are given by name, encoded; those left out stay as they are."""
    if not isinstance(given, Mapping) or binding.signature is None:
        return given
    problems = [values.Problem(name, "is no parameter of it", "") for name in given if name not in binding.hints]
    encoded: dict[str, Any] = {}
    for name in [name for name in given if name in binding.hints]:
        try:
            encoded[name] = _value(given[name], binding.hints[name], binding.codecs[name])
        except values.InvalidPayload as error:
            problems += [replace(problem, path=_under(name, problem.path)) for problem in error.problems]
    if problems:
        raise values.InvalidPayload(problems=tuple(problems))
    return encoded


def _under(name: str, path: str) -> str:
    """Return the path of a problem of the argument *name*: `value` stands for all of it."""
    return name if path == "value" else f"{name}.{path}"


def unfit(state: ExecutionState, error: values.RecordUnreadable) -> values.RecordUnreadable:
    """Return *error* told as what it is where the value that cannot be read was given to a fork, else as it is."""
    start, forked = cause_of(error), state.facts.forked
    edited = next((e for e in state.settled if e.start.sequence == start and EDITED in e.outcome.metadata), None)
    if edited is None or forked is None:
        return error
    source, call = forked.payload.source["execution_id"], edited.start.payload.id
    hint = f"Fork it again with one that fits: loom fork {source} --output {shlex.quote(call)} --value JSON"
    why = f"the value that was given to {call} of the fork {state.execution_id} does not fit: {error.reason}"
    return values.RecordUnreadable(path=error.path, kind=error.kind, reason=why, hint=hint)
