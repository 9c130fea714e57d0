"""What must hold in every simulation, whatever went wrong in it. Each is a pure function of what was observed.

order               events are numbered in order, their times do not go back, and what is kept is what was appended
no gap              each append begins where the log ended, and nothing is written over
effect once         no effect begins once its outcome is recorded; one that is not idempotent begins once, or as a person says
fold equality       the state does not depend on where a fold was cut, and a replay comes to the same end
terminal stability  nothing follows an end but notes; each message is received once; nobody sleeps whose time has come
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import orjson

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import TERMINAL, ExecutionState, empty_state
from loom.core.views import awaited_messages
from loom.devtools.dst.observed import Effect, Observed
from loom.kernel.codec import decode_events
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import EVENTS, evolve, fold

Log = list[EventEnvelope[Any]]


class Breach(NamedTuple):
    """Something that must hold and did not: *invariant* is its name, *what* what was seen."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


class Story(NamedTuple):
    """What was observed, decoded: *logs* as events, *states* as folded."""

    seen: Observed
    logs: Mapping[ExecutionId, Log]
    states: Mapping[ExecutionId, ExecutionState]


def story_of(seen: Observed) -> Story:
    """Return *seen*, decoded.

    Raises:
        LogCorrupt: a log cannot be folded.
    """
    logs = {run: decode_events(run, records) for run, records in seen.stored.items()}
    return Story(seen, logs, {run: fold(log, empty_state(run)) for run, log in logs.items()})


def breaches(seen: Observed) -> list[Breach]:
    """Return all that does not hold."""
    try:
        story = story_of(seen)
    except LogCorrupt as error:
        return [Breach("order", str(error))]
    return [Breach(name, what) for name, holds in INVARIANTS.items() for what in holds(story)]


def order(story: Story) -> Iterator[str]:
    """Events are numbered from 0, their times do not go back, and the store keeps what was appended."""
    for run, records in story.seen.stored.items():
        if [event.sequence for event in records] != list(range(len(records))):
            yield f"{run} is not numbered in order"
        if any(later.at < event.at for event, later in pairwise(records)):
            yield f"the times of {run} go back"
        if list(records) != story.seen.logs.get(run, []):
            yield f"{run} is not what was appended to it"


def no_gap(story: Story) -> Iterator[str]:
    """Each append begins where the log ended."""
    yield from story.seen.torn
    for run in story.seen.logs.keys() - story.seen.stored.keys():
        yield f"{run} was appended to, and is gone"


def effect_once(story: Story) -> Iterator[str]:
    """An effect whose outcome is recorded does not begin again; one that is not idempotent begins once, or as it is marked."""
    begun: Counter[tuple[str, str, int]] = Counter()
    for effect in story.seen.effects:
        log = story.logs.get(ExecutionId(effect.execution_id), [])
        begun[effect.execution_id, effect.step_id, effect.generation] += effect.once
        if _is_settled(effect, log[: effect.durable]):
            yield f"{effect.step_id} of {effect.execution_id} began again in {effect.process}, after its outcome was recorded"
    for (run, step, generation), times in begun.items():
        allowed = _attempts(step, generation, story.logs.get(ExecutionId(run), []))
        if times > allowed:
            yield f"{step} of {run} is not idempotent and began {times} times, where the log allows {allowed}"


def _starts(step: str, generation: int, log: Log) -> set[int]:
    return {
        event.sequence
        for event in log
        if event.type == "STEP_STARTED" and event.payload.id == step and (event.payload.gen or 0) == generation
    }


def _is_settled(effect: Effect, log: Log) -> bool:
    starts = _starts(effect.step_id, effect.generation, log)
    return any(event.type in {"STEP_COMPLETED", "STEP_FAILED"} and event.payload.start in starts for event in log)


def _attempts(step: str, generation: int, log: Log) -> int:
    starts = _starts(step, generation, log)
    return len(starts) + sum(event.type == "STEP_ATTEMPTED" and event.payload.start in starts for event in log)


def fold_equality(story: Story) -> Iterator[str]:
    """The state does not depend on how the log was cut, and a replay comes to the same end."""
    for run, log in story.logs.items():
        whole = story.states[run]
        for cut in {len(log) // 3, len(log) // 2, max(0, len(log) - 1)}:
            if fold(log[cut:], fold(log[:cut], empty_state(run))) != whole:
                yield f"{run} folds to another state when it is cut at event {cut}"
        yield from ([f"{run} {story.seen.again[run]}"] if run in story.seen.again else [])


def terminal_stability(story: Story) -> Iterator[str]:
    """Nothing follows an end but notes, and each request takes effect once."""
    for run, log in story.logs.items():
        state = empty_state(run)
        for event in log:
            row = EVENTS.get(event.type)
            if state.is_terminal and (row is None or not row.after_end):
                yield f"{event.type} follows the end of {run}, at event {event.sequence}"
            was, state = state, evolve(state, event)
            if was.is_terminal and not state.is_terminal and event.type != "EXECUTION_RETRIED":
                yield f"{run} was {was.status} and is {state.status} after {event.type}"
    taken = Counter((each.lane, each.number) for each in story.seen.consumed)
    for (lane, number), times in taken.items():
        if times > 1:
            yield f"request {number} of {lane} took effect {times} times"
    keys = Counter((each.lane, each.key) for each in story.seen.messages if each.key and each.number)
    for (lane, key), times in keys.items():
        if times > 1:
            yield f"{lane} took in {times} messages with the key {key}"


def wake_up(story: Story) -> Iterator[str]:
    """When all is quiet nobody sleeps whose time has come, and nothing waits that somebody should have seen to."""
    seen = story.seen
    if seen.ended != "over":
        yield from _what_does_not_end(story)
    for name in seen.undone:
        yield f"{name} was never acknowledged"
    yield from seen.errors


def _what_does_not_end(story: Story) -> Iterator[str]:
    seen = story.seen
    if seen.ended in {"late", "endless"}:
        yield "it goes on without end"
    for run, state in story.states.items():
        if state.status in TERMINAL or state.facts.is_paused:
            continue
        wake_at = seen.rows[run].index.wake_at
        if state.status == "diverged":
            yield f"{run} diverged: the flow does not ask at a replay what it asked before"
        elif state.status == "running":
            yield f"{run} was left running, and nobody drives it"
        elif wake_at is not None and wake_at <= seen.now_ms:
            yield f"{run} sleeps, and was to be woken {seen.now_ms - wake_at} ms ago"
        elif unread := _unattended(story, run, state):
            yield f"{run} waits for what is there: {unread}"


def _unattended(story: Story, run: ExecutionId, state: ExecutionState) -> str:
    """Return a request that is in the lane, and that the run in this state is to see to."""
    awaited = {wait.topic for wait in awaited_messages(state)}
    for request in story.seen.pending.get(run, ()):
        topic = orjson.loads(request.body).get("topic", "") if request.kind == "message" else None
        if topic is None or topic in awaited:
            return f"a {request.kind}" if topic is None else f"a message of {topic}"
    return ""


INVARIANTS: Final[Mapping[str, Callable[[Story], Iterator[str]]]] = {
    "order": order,
    "no gap": no_gap,
    "effect once": effect_once,
    "fold equality": fold_equality,
    "terminal stability": terminal_stability,
    "wake-up": wake_up,
}
