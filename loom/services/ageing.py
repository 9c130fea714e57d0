"""Which contents may go, judged from who cites them. Pure; where it cannot be told, a content is kept.

Each citation has a clock, and a content has the latest of them (ADR 0146 of the specification):

- a run that has not ended keeps what it cites;
- the clock of one that has ended starts at its end, or at its citation if that came later;
- one that was opened again after an end, and has ended again, keeps the clock of its citation;
- a run that is gone, or is another life of its id, cites nothing any more;
- and whoever put the content, or cited it, has touched it: that is a clock, too, and the only one where nobody cites it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from loom.core.ids import ContentRef
from loom.spi.content_store import Citation, Citer, Content

SETTLING_MS: Final = 3_600_000
"""What was touched within the last hour stays, whatever a policy says: the log that will cite it may be about to be written."""

Why: TypeAlias = Literal["pinned", "open", "held_by_end_clock", "young", "kept_by_touch"]
"""Why a content stays: somebody pins it; a run that cites it has not ended; it is the end of one that is not long enough ago; nor is
its citation, or, where nobody cites it, its being put; it is only that it was touched since."""

By: TypeAlias = Literal["uncited", "citation", "end", "reopened"]
"""Which clock let a content go: nobody cites it; that of a citation, or of the end of a run; that of a citation of a run which has ended
since, and would have held it, had it not been opened again."""


class RunStanding(NamedTuple):
    """Where a run stands that cites: *ended_at* is when its chain ended (ms since the epoch), None while it has not."""

    ended_at: int | None
    is_reopened: bool = False


class Verdict(NamedTuple):
    """What becomes of a content: it goes *by* a clock, or stays and *why*; *holders* are those whose end alone holds it."""

    why: Why | None
    by: By | None = None
    holders: tuple[Citer, ...] = ()


def verdict(
    content: Content,
    citations: Sequence[Citation],
    standings: Mapping[Citer, RunStanding],
    *,
    before: int,
    settled: int,
) -> Verdict:
    """Return what becomes of *content*, whose *citations* are all there are; citers without a standing are gone.

    *before* is the time (ms since the epoch) until which its clock must have started for it to go, *settled* the time until which
    it must have been touched last.
    """
    held = [(citation, standings[citation.by]) for citation in citations if citation.by in standings]
    if any(standing.ended_at is None for _, standing in held):
        return Verdict("open")
    if any(citation.at >= before for citation, _ in held):
        return Verdict("young")
    late = [(citation.by, standing) for citation, standing in held if (standing.ended_at or 0) >= before]
    holders = tuple(citer for citer, standing in late if not standing.is_reopened)
    if holders:
        return Verdict("held_by_end_clock", holders=holders)
    if content.touched_at >= min(before, settled):
        return Verdict("kept_by_touch" if held or content.touched_at < before else "young")
    return Verdict(None, _by(held, late))


def _by(held: Sequence[tuple[Citation, RunStanding]], late: Collection[object]) -> By:
    if not held:
        return "uncited"
    if late:
        return "reopened"
    latest, standing = max(held, key=lambda each: _clock(*each))
    return "end" if _clock(latest, standing) > latest.at else "citation"


def _clock(citation: Citation, standing: RunStanding) -> int:
    ended_at = 0 if standing.is_reopened else standing.ended_at or 0
    return max(citation.at, ended_at)


def cites_nothing(citation: Citation, standings: Mapping[Citer, RunStanding], *, settled: int) -> bool:
    """Whether a citation is of a run that is gone; one that was made after *settled* may be of a run that is about to begin."""
    return citation.by not in standings and citation.at < settled


@dataclass(slots=True)
class SweepTally:
    """What became of contents: so many were *looked_at*, *removed* with so many *bytes*, by which clock, and why others were kept.

    *forgotten* are citations of runs that are gone, *tidied* what puts that were cut off had left.
    """

    looked_at: int = 0
    removed: int = 0
    bytes: int = 0
    by: Counter[By] = field(default_factory=Counter)
    kept: Counter[Why] = field(default_factory=Counter)
    forgotten: int = 0
    tidied: int = 0

    def note(self, judged: Sequence[tuple[Content, Verdict]], removed: Collection[ContentRef]) -> None:
        """Count what became of contents: what was to go and is not among the *removed* was touched meanwhile."""
        self.looked_at += len(judged)
        for content, found in judged:
            if found.by is None:
                self.kept[found.why or "young"] += 1
            elif content.ref in removed:
                self.removed += 1
                self.bytes += content.size
                self.by[found.by] += 1
            else:
                self.kept["kept_by_touch"] += 1
