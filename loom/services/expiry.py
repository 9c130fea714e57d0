"""Which runs that have ended may go, judged from rows of the store alone. Pure; where it cannot be told, a run is kept.

What goes or stays is a *family*: a run with its later links, its children and theirs (`loom.spi.event_trim`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

import orjson

from loom.core.ids import ExecutionId
from loom.services.ticks import tick_of
from loom.spi.event_store import ExecutionRow, Head
from loom.spi.event_trim import Deleted, Kept, Link, WhyKept
from loom.spi.schedule_store import ScheduleCursor

Why: TypeAlias = WhyKept | Literal["child", "tick", "pinned"]
"""Why a family stays, beside what the store says: a child or a fork has not ended, or not for so long; the schedule that started it has not
recorded that, and would start it again; somebody pins one of it."""

BATCH_EVENTS: Final = 1_000
"""So many events go in one transaction; more only where a single family has more."""

BATCH_FAMILIES: Final = 200


@dataclass(slots=True)
class Candidate:
    """A run that has ended, by the row of its first link, and the last links of the chains *below* it."""

    root: ExecutionRow
    below: list[ExecutionRow] = field(default_factory=list)

    @property
    def chains(self) -> list[ExecutionId]:
        """The chains of the family, each by the id of its first link."""
        return [ExecutionId(row.index.chain) for row in (self.root, *self.below)]


class Family(NamedTuple):
    """A family that may go: how many *runs* it is, and where all its logs stand."""

    runs: int
    heads: Sequence[Head]


@dataclass(slots=True)
class Tally:
    """What became of the families that have ended: so many *families* went, with *runs*, *logs* and *events*; why others were kept."""

    families: int = 0
    runs: int = 0
    logs: int = 0
    events: int = 0
    kept: Counter[Why] = field(default_factory=Counter)

    def note(self, family: Family, result: Deleted | Kept) -> None:
        """Count what became of *family*."""
        if isinstance(result, Kept):
            self.kept[result.why] += 1
            return
        self.families += 1
        self.runs += family.runs
        self.logs += result.logs
        self.events += result.events


def why_kept(candidate: Candidate, *, before: int, cursors: Mapping[str, ScheduleCursor | None]) -> Why | None:
    """Return why a family is kept, None where all of it ended and was not touched since *before* (ms since the epoch).

    *cursors* are those of the schedules that started one of the runs (see `schedules_of`).
    """
    if any(not row.index.ended or row.index.updated_at >= before for row in candidate.below):
        return "child"
    started = _tick(candidate.root)
    cursor = cursors.get(started[0]) if started is not None else None
    return "tick" if started is not None and cursor is not None and started[1] > cursor.at else None


def schedules_of(candidates: Iterable[Candidate]) -> set[str]:
    """Return the ids of the schedules that started *candidates*."""
    return {started[0] for each in candidates if (started := _tick(each.root)) is not None}


def families(candidates: Sequence[Candidate], links: Iterable[Link]) -> list[Family]:
    """Return the families of *candidates*, given all *links* of their chains."""
    heads: dict[ExecutionId, list[Head]] = {}
    for link in links:
        heads.setdefault(link.chain, []).append(link.head)
    return [Family(len(each.chains), [h for chain in each.chains for h in heads.get(chain, ())]) for each in candidates]


def batches(found: Iterable[Family], *, runs_max: int | None = None) -> Iterator[list[Family]]:
    """Yield *found* in groups that go in one transaction each; with *runs_max*, until that many runs are in them."""
    batch: list[Family] = []
    events = runs = 0
    for family in found:
        if runs_max is not None and runs >= runs_max:
            break
        size = sum(head.length for head in family.heads)
        if batch and (events + size > BATCH_EVENTS or len(batch) == BATCH_FAMILIES):
            yield batch
            batch, events = [], 0
        batch.append(family)
        events, runs = events + size, runs + family.runs
    if batch:
        yield batch


def _tick(row: ExecutionRow) -> tuple[str, int] | None:
    if '"tick"' not in row.index.attributes:
        return None
    return tick_of(row.execution_id, orjson.loads(row.index.attributes))
