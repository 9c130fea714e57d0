"""The proof that a run replays: a digest of everything it asked, was given and became, and all that is wrong with its log.

What can be known from the log and the code alone is recomputed here: the bytes of each record from what they say, each fact
that a syscall began with from the syscall, each value from what the body is given, each state from those before. What nobody
can recompute (what a step returned, what a person answered) is known to be what it was only by a digest that was kept: hand
an earlier proof in as what is *expected* (docs/adr/0025).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from loom import values
from loom.core.envelope import EventEnvelope
from loom.core.json import JsonObject
from loom.core.state import ExecutionState
from loom.driving.asked_facts import fact_asked
from loom.driving.replay_drive import Asked
from loom.driving.replaying import Replayed
from loom.driving.verdicts import Verdict
from loom.kernel.codec import EXTRA, encode_event, payload_json
from loom.kernel.errors import LogCorrupt
from loom.lenses.folding import StateDigests, log_chain, states
from loom.lenses.log_laws import unlawful
from loom.spi.event_store import EventRecord

Event = EventEnvelope[Any]

STATES_SQUARED_MAX: Final = 1_000_000
"""A state is as long as its log; from about a thousand events on only every second, third ... state is named."""
LONG_BYTES: Final = 500_000_000
"""So many bytes are hashed in a second or so: all that the states of a log hold, one after the other."""
_VALUES: Final = ("result", "answer", "message", "choice", "chunks", "data", "failure")
_FIELDS: Final = ("type", "record", "asked", "value", "state")


class ProofLine(NamedTuple):
    """What one event is proved by.

    *id* is the identity of the syscall that it is about. Digests: of the stored *record*; of what the body *asked*, as it asks
    it now; of the *value* that came of it; of the *state* after it. None: there is none, or it was not reached.
    """

    sequence: int
    type: str
    id: str | None
    record: str
    asked: str | None
    value: str | None
    state: str | None


class Problem(NamedTuple):
    """Something that is not as it has to be, at event *sequence* (None: somewhere), in words."""

    sequence: int | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a replay of one run proves. It holds when there are no *problems*.

    *digest* is that of all lines, *chain* the one that `loom show` prints, *end* that of how the body ends (None: it has not).
    Where events were moved to an archive there are only the lines of those that are left, and no chain: *compacted* is the last
    of those that are gone. What is wrong with the log cannot be told from the rest of it alone.
    """

    verdict: Verdict
    lines: tuple[ProofLine, ...]
    problems: tuple[Problem, ...]
    end: str | None
    digest: str
    chain: str | None
    compacted: int | None = None


def proof_of(records: Sequence[EventRecord], replayed: Replayed, *, told: Callable[[], None] = lambda: None) -> Proof:
    """Return what *replayed*, the replay of the log *records*, proves; *told* is called after each event."""
    verdict, events, asked = replayed.verdict, replayed.events, replayed.asked
    if replayed.base is not None:
        return _of_the_rest(records, replayed, replayed.base)
    by_start = {each.record.start.sequence: each for each in asked}
    folded, damage = _folded(events)
    lines = tuple(_telling(_lines(records, events, by_start, folded), told))
    end = None if replayed.end is None else values.digest([replayed.end[0], _plain(replayed.end[1])])
    problems = [
        *damage,
        *_of_verdict(verdict),
        *_of_records(records, events),
    ]
    problems += [Problem(at, "it does not fit what came before it") for at in unlawful(events, folded)]
    noted = folded[-1].facts.noted if folded else {}
    for each in asked if verdict.kind == "same" else ():
        problems += _of_call(each, events, noted)
    problems = sorted(dict.fromkeys(problems), key=lambda p: -1 if p.sequence is None else p.sequence)
    whole = values.digest([verdict.id, [list(line) for line in lines], end])
    chain = log_chain(events) if events else ""
    return Proof(verdict=verdict, lines=lines, problems=tuple(problems), end=end, digest=whole, chain=chain)


def _of_the_rest(records: Sequence[EventRecord], replayed: Replayed, base: ExecutionState) -> Proof:
    """Return what can be said of a run whose first events are not in its log any more."""
    by_start = {each.record.start.sequence: each for each in replayed.asked}
    folded, _ = _folded(replayed.events, base)
    rest = [record for record in records if record.sequence > base.sequence]
    lines = tuple(_lines(rest, replayed.events, by_start, folded))
    end = None if replayed.end is None else values.digest([replayed.end[0], _plain(replayed.end[1])])
    return Proof(
        verdict=replayed.verdict,
        lines=lines,
        problems=tuple(_of_verdict(replayed.verdict)),
        end=end,
        digest=values.digest([replayed.verdict.id, [list(line) for line in lines], end]),
        chain=None,
        compacted=base.sequence,
    )


def is_long(records: Sequence[EventRecord]) -> bool:
    """Whether proving the log *records* takes so long that somebody should be told how far it has come."""
    size = sum(len(record.payload) for record in records)
    return size * len(records) // _stride(len(records)) > LONG_BYTES


def differing(proof: Proof, expected: Mapping[str, Any] | str) -> list[Problem]:
    """Return where *proof* is not what was *expected*: an earlier proof as JSON, or the digest (or chain) of one.

    A digest alone cannot say where; the whole of an earlier proof can.
    """
    if isinstance(expected, str):
        told = f"the log, or what the flow asks, is not what it was: {expected} was expected, {proof.digest} was found"
        return [] if expected in (proof.digest, proof.chain) else [Problem(None, told)]
    earlier: list[Mapping[str, Any]] = list(expected.get("events", ()))
    problems = [
        Problem(line.sequence, f"its {name} is not what was proved earlier")
        for line, was in zip(proof.lines, earlier, strict=False)
        for name in _FIELDS
        if getattr(line, name) != was.get(name)
    ]
    if len(earlier) != len(proof.lines):
        at = min(len(earlier), len(proof.lines))
        problems.append(Problem(at, f"the log has {len(proof.lines)} events; {len(earlier)} were proved earlier"))
    if expected.get("id") != proof.verdict.id:
        problems.append(Problem(None, f"the earlier proof is of {expected.get('id')}"))
    elif not problems and expected.get("digest") != proof.digest:
        problems.append(Problem(None, "the run comes to another end than was proved earlier"))
    return problems


# -- the lines ---------------------------------------------------------------------------------------------------------


def _folded(events: Sequence[Event], base: ExecutionState | None = None) -> tuple[list[ExecutionState], list[Problem]]:
    """Return the states of the log, as far as it can be folded."""
    folded: list[ExecutionState] = []
    try:
        folded.extend(states(events, base=base))  # those before an error stay
    except LogCorrupt as error:
        return folded, [Problem(error.sequence, error.why)]
    return folded, []


def _lines(
    records: Sequence[EventRecord],
    events: Sequence[Event],
    asked: Mapping[int, Asked],
    folded: Sequence[ExecutionState],
) -> Iterator[ProofLine]:
    stride, names = _stride(len(records)), StateDigests()
    ids: dict[int, str] = {}
    for place, record in enumerate(records):
        event = events[place] if place < len(events) else None
        payload = getattr(event, "payload", None)
        start = getattr(payload, "start", record.sequence)
        if (identity := getattr(payload, "id", None)) is not None:
            ids[record.sequence] = str(identity)
        is_named = place < len(folded) and (place % stride == 0 or place == len(folded) - 1)
        yield ProofLine(
            sequence=record.sequence,
            type=str(record.type),
            id=ids.get(start),
            record=values.digest([str(part) for part in record]),
            asked=asked[record.sequence].call.digest if record.sequence in asked else None,
            value=_value(payload),
            state=names.of(folded[place]) if is_named else None,
        )


def _stride(length: int) -> int:
    """Return of every how many-th event of a log the state is named."""
    return max(1, length**2 // STATES_SQUARED_MAX)


def _telling(lines: Iterator[ProofLine], told: Callable[[], None]) -> Iterator[ProofLine]:
    for line in lines:
        yield line
        told()


def _value(payload: Any) -> str | None:
    given = {name: value for name in _VALUES if (value := getattr(payload, name, None)) is not None}
    return values.digest(given) if given else None


def _plain(fact: Any) -> Any:
    return payload_json(fact) if isinstance(fact, tuple) else fact


# -- what is wrong -------------------------------------------------------------------------------------------------------


def _of_verdict(verdict: Verdict) -> Iterator[Problem]:
    if verdict.kind == "same":
        return
    if verdict.kind != "migrates":
        where = f" ({verdict.where})" if verdict.where else ""
        yield Problem(verdict.sequence, f"{verdict.why}{where}")
        return
    yield Problem(0, "the code of the flow is not that which wrote the log")
    for difference in verdict.differences:
        yield Problem(difference["sequence"], f"{difference['id']} is asked with other arguments")
    if verdict.end is not None:
        yield Problem(verdict.end["recorded"]["sequence"], "the flow comes to another end")


def _of_records(records: Sequence[EventRecord], events: Sequence[Event]) -> Iterator[Problem]:
    """Yield the records whose bytes are not those that Loom writes for what they say, and times that run backward."""
    at = 0
    for record, event in zip(records, events, strict=False):
        if encode_event(event) != record:
            yield Problem(record.sequence, "its bytes are not those that Loom writes for what it says")
        if EXTRA in event.metadata:
            yield Problem(record.sequence, f"it holds what no fact of its type has: {', '.join(event.metadata[EXTRA])}")
        if record.at < at:
            yield Problem(record.sequence, "it is older than the event before it")
        at = record.at


def _of_call(each: Asked, events: Sequence[Event], noted: Mapping[int, str]) -> Iterator[Problem]:
    """Yield what is wrong with the facts of one syscall that the body has asked; *noted* are other arguments it may have."""
    call, record = each
    start, outcome = record
    if start.sequence not in noted:
        if call.digest != start.payload.digest:
            yield Problem(start.sequence, f"its digest is not that of what {call.id} is asked with")
        elif (fact := fact_asked(call, generation=start.payload.gen or 0)) is not None:
            # as it was recorded: to a scope that a retry has opened again, the fold has given its time anew
            yield from _of_start(events[start.sequence], fact, before_at=events[start.sequence - 1].at)
        elif start.type == "DECISION_RECORDED" and call.syscall.asked() != {"candidates": start.payload.candidates}:
            yield Problem(start.sequence, f"its candidates are not what {call.id} is asked with")
    if outcome is not None and not _is_revived(call, outcome):
        yield Problem(outcome.sequence, f"what {call.id} is given is not written as Loom writes it")


def _of_start(start: Event, fact: Any, *, before_at: int) -> Iterator[Problem]:
    recorded = payload_json(start.payload)
    now: JsonObject = dict(payload_json(fact))
    due_at, delay = recorded.get("due_at"), now.get("due_at")
    if due_at is not None and delay is not None and before_at <= due_at - delay <= start.at:
        now["due_at"] = due_at
    for name in sorted(recorded.keys() | now.keys()):
        if values.canonical(recorded.get(name)) != values.canonical(now.get(name)):
            yield Problem(start.sequence, f"its {name} is not what {start.payload.id} is asked with")


def _is_revived(call: Any, outcome: Event) -> bool:
    """Whether the value of *outcome*, once the body has it, would be written as it is."""
    codec = getattr(call.syscall, "codec", None)
    if (binding := getattr(call.syscall, "binding", None)) is not None:
        codec = binding.result
    for name in ("result", "answer", "message"):
        value = getattr(outcome.payload, name, None)
        if value is not None and codec is not None:
            return bool(values.canonical(codec.encode(codec.decode(value))) == values.canonical(value))
    return True
