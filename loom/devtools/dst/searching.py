"""Looking for a seed that breaks something, and for the smallest schedule that breaks it.

A search is as repeatable as a simulation: the same seeds find the same. What is found is shrunk under its own seed, by
leaving faults out and making those that are left simpler, for as long as something of the same kind stays broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from loom.core.state import TERMINAL
from loom.devtools.dst.again import differs_again
from loom.devtools.dst.invariants import Breach, breaches
from loom.devtools.dst.observed import Observed
from loom.devtools.dst.people import RUN
from loom.devtools.dst.schedule import Fault, Schedule, simpler
from loom.devtools.dst.stage import Play, Stage
from loom.devtools.dst.world import End, broken, refuse_misspelt
from loom.kernel.codec import decode_events

SHRINKS_MAX: Final = 400
"""So many simulations are tried at most to make a schedule smaller."""


class Normal(NamedTuple):
    """A simulation in which nothing goes wrong: how many operations it has at each place, and how the run stands at its end."""

    counts: Mapping[str, int]
    end: End


class Trial(NamedTuple):
    """One simulation, and what it broke."""

    seed: int
    schedule: Schedule
    seen: Observed
    breaches: list[Breach]


class Finding(NamedTuple):
    """A *seed* that breaks something: with its *schedule*, and with the smallest that was found, which breaks *breaches*."""

    seed: int
    schedule: Schedule
    shrunk: Schedule
    breaches: list[Breach]
    shrinks: int


class Report(NamedTuple):
    """A search: how many seeds were tried in how many seconds, how many of them broke something, and the first that did."""

    seeds: int
    seconds: float
    broken: int
    finding: Finding | None


def normal(play: Play, seed: int = 0) -> tuple[Normal, Trial]:
    """Simulate *play* with nothing going wrong.

    Raises:
        NoValue: something has no value in the simulation, and none can be made up.
    """
    trial = tried(play, seed, Schedule())
    return Normal(trial.seen.counts, end_of(trial.seen)), trial


def tried(play: Play, seed: int, schedule: Schedule, usual: Normal | None = None) -> Trial:
    """Simulate *play* with *seed* under *schedule*, and judge it; *usual* is how it goes when nothing goes wrong.

    Raises:
        NoValue: something has no value in the simulation, and none can be made up.
        InvalidDeclaration: the world has a value for what is likely a misspelt name.
    """
    stage = Stage(play, seed, schedule)
    seen = stage.played()
    refuse_misspelt(stage.world, steps=seen.steps, gates=seen.gates)
    seen.again = {run: told for run, row in seen.rows.items() if (told := differs_again(play, row, seen.stored[run]))}
    found = breaches(seen)
    end = end_of(seen)
    found += [Breach("invariant", told) for told in broken(stage.world, end)]
    found += [Breach("message", told) for told in unread(seen, stage.world.leaves)]
    if usual is not None and not found:
        found += unlike(usual.end, end, may_fail=stage.world.may_fail)
    return Trial(seed, schedule, seen, found)


def unlike(usual: End, end: End, *, may_fail: bool) -> Iterator[Breach]:
    """Yield what a run did not come to, and does come to when nothing goes wrong."""
    if usual.status not in TERMINAL:
        return
    status = end.status or "never started"
    if status not in TERMINAL:
        yield Breach("progress", f"the run does not end, as it does when nothing goes wrong: it is {status}")
    elif status == "failed" and usual.status != "failed" and not may_fail:
        failure = end.failure or {}
        told = f"{failure.get('type', '')}: {failure.get('message', '')}"[:200]
        yield Breach("outcome", f"the run fails, as it does not when nothing goes wrong: {told}")


def unread(seen: Observed, may_be: Callable[[str], bool]) -> Iterator[str]:
    """Yield which messages were taken in, and never received by a run that has ended as it should."""
    for run, requests in seen.pending.items():
        if seen.rows[run].index.link > 1:
            continue  # its lane is that of the first
        status = max((row.index.link, row.index.status) for row in seen.rows.values() if row.index.chain == run)[1]
        for request in requests if status == "completed" else ():
            topic = orjson.loads(request.body).get("topic", "") if request.kind == "message" else ""
            if topic and not may_be(topic) and not topic.startswith("loom."):
                yield f"a message of {topic} to {run} was taken in, and never received"


def end_of(seen: Observed) -> End:
    """Return how the run ended, for those who judge it."""
    log = decode_events(RUN, seen.stored.get(RUN, ()))
    links = sorted((row.index.link, run) for run, row in seen.rows.items() if row.index.chain == RUN)
    last = decode_events(links[-1][1], seen.stored[links[-1][1]]) if links else log
    ends = {event.type: event.payload for event in last}
    completed, failed = ends.get("EXECUTION_COMPLETED"), ends.get("EXECUTION_FAILED")
    return End(
        seen.state_of(links[-1][1]) if links else "",
        completed.result if completed is not None else None,
        failed.failure if failed is not None else None,
        tuple(event.type for event in log),
    )


def search(
    play: Play, seeds: Iterable[int], *, stops: bool = True, told: Callable[[int], None] = lambda tried: None
) -> Report:
    """Try *seeds* until one breaks something; all of them where it *stops* not. *told* is called after each with how many."""
    began, count, hits = time.perf_counter(), 0, 0
    usual, trial = normal(play)
    finding = Finding(0, Schedule(), Schedule(), trial.breaches, 0) if trial.breaches else None
    for seed in seeds if finding is None else ():
        schedule = Schedule.of(seed, usual.counts)
        trial, count = tried(play, seed, schedule, usual), count + 1
        told(count)
        if trial.breaches:
            hits += 1
            finding = finding or shrunk(play, trial, usual)
            if stops:
                break
    return Report(count, time.perf_counter() - began, hits, finding)


def shrunk(play: Play, trial: Trial, usual: Normal) -> Finding:
    """Return the finding with the smallest schedule that still breaks what *trial* broke."""
    small, found, tries = trial.schedule, trial.breaches, 0
    kind = found[0].invariant
    candidates = _smaller(small)
    while tries < SHRINKS_MAX and (candidate := next(candidates, None)) is not None:
        tries += 1
        broken_still = tried(play, trial.seed, candidate, usual).breaches
        if any(breach.invariant == kind for breach in broken_still):
            small, found = candidate, broken_still
            candidates = _smaller(small)
    return Finding(trial.seed, trial.schedule, small, found, tries)


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Yield schedules that are smaller: without some faults first, then with a simpler one."""
    number = len(schedule.faults)
    if number > 2:
        yield schedule.without(range(number // 2))
        yield schedule.without(range(number // 2, number))
    for at in range(number):
        yield schedule.without([at])
    for at, fault in enumerate(schedule.faults):
        for simple in simpler(fault):
            if not any(_same_place(simple, other) for other in schedule.without([at]).faults):
                yield Schedule((*schedule.faults[:at], simple, *schedule.faults[at + 1 :]))


def _same_place(one: Fault, other: Fault) -> bool:
    return (one.place, one.nth) == (other.place, other.nth)
