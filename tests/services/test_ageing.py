"""Which contents may go: clock by clock, and as a law over whatever cites them."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core.ids import ExecutionId, Incarnation
from loom.services.ageing import SETTLING_MS, RunStanding, SweepTally, Verdict, cites_nothing, verdict
from loom.spi.content_store import Citation, Citer, Content, address_of

DAY: Final = 24 * 3_600_000
NOW: Final = 1_000 * DAY
TTL: Final = 30 * DAY
BEFORE: Final = NOW - TTL
REF: Final = address_of(b"a page")
RUN: Final = Citer(ExecutionId("r1"), Incarnation(1))
OTHER: Final = Citer(ExecutionId("r2"), Incarnation(2))
OPEN: Final = RunStanding(None)


def days_ago(days: float) -> int:
    return NOW - int(days * DAY)


def judged(*cited: tuple[Citer, float], touched: float | None = None, **standings: RunStanding) -> Verdict:
    """Return the verdict on a content cited and touched so many days ago; *standings* are by run, those left out are gone."""
    latest = max([ago for _, ago in cited], default=0.0) if touched is None else touched
    ago = min([days for _, days in cited], default=latest) if touched is None else touched
    content = Content(REF, 7, days_ago(ago))
    by_citer = {citer: standings[citer.execution_id] for citer, _ in cited if citer.execution_id in standings}
    citations = [Citation(REF, citer, days_ago(days)) for citer, days in cited]
    return verdict(content, citations, by_citer, before=BEFORE, settled=NOW - SETTLING_MS)


def ended(days: float, *, again: bool = False) -> RunStanding:
    return RunStanding(days_ago(days), is_reopened=again)


@pytest.mark.proves("LIF-16")
@pytest.mark.parametrize(
    ("found", "why", "by"),
    [
        # a run that has not ended keeps what it cites, however long ago
        (judged((RUN, 900), r1=OPEN), "open", None),
        (judged((RUN, 900), (OTHER, 800), r1=ended(700), r2=OPEN), "open", None),
        # the later of the citation and the end
        (judged((RUN, 31), r1=ended(31)), None, "citation"),
        (judged((RUN, 900), r1=ended(31)), None, "end"),
        (judged((RUN, 900), r1=ended(29)), "held_by_end_clock", None),
        (judged((RUN, 29), r1=ended(29)), "young", None),
        (judged((RUN, 29), r1=ended(40)), "young", None),  # cited after its end: an outcome was attached, say
        (judged((RUN, 900), (OTHER, 900), r1=ended(800), r2=ended(29)), "held_by_end_clock", None),
        # opened again: the clock of the citation
        (judged((RUN, 900), r1=ended(29, again=True)), None, "reopened"),
        (judged((RUN, 29), r1=ended(1, again=True)), "young", None),
        (judged((RUN, 900), r1=RunStanding(None, is_reopened=True)), "open", None),
        (judged((RUN, 900), (OTHER, 900), r1=ended(29, again=True), r2=ended(29)), "held_by_end_clock", None),
        (judged((RUN, 900), r1=ended(31, again=True)), None, "citation"),
        # nobody, or nobody any more
        (judged(touched=31), None, "uncited"),
        (judged(touched=29), "young", None),
        (judged((RUN, 900), touched=900), None, "uncited"),
        (judged((RUN, 900), touched=29), "young", None),
        # touched since
        (judged((RUN, 900), touched=29, r1=ended(800)), "kept_by_touch", None),
    ],
)
def test_the_clock_of_a_content(found: Verdict, why: Any, by: Any) -> None:
    assert (found.why, found.by) == (why, by)


def test_what_was_touched_within_the_hour_stays_whatever_the_policy() -> None:
    minute = 60_000
    content = Content(REF, 7, NOW - 2 * minute)

    found = verdict(content, [], {}, before=NOW - minute, settled=NOW - SETTLING_MS)

    assert found == Verdict("kept_by_touch")
    assert verdict(content, [], {}, before=NOW - minute, settled=NOW).by == "uncited"


def test_a_citation_of_a_run_that_is_gone_is_dropped_unless_the_run_may_be_about_to_begin() -> None:
    old, fresh = Citation(REF, RUN, days_ago(1)), Citation(REF, RUN, NOW - 1_000)

    assert cites_nothing(old, {}, settled=NOW - SETTLING_MS)
    assert not cites_nothing(fresh, {}, settled=NOW - SETTLING_MS)
    assert not cites_nothing(old, {RUN: OPEN}, settled=NOW - SETTLING_MS)


CITERS = st.sampled_from([RUN, OTHER, Citer(ExecutionId("r3"), None)])
TIMES = st.integers(0, 100).map(lambda days: NOW - days * DAY)
STANDINGS = st.builds(RunStanding, st.none() | TIMES, st.booleans())


@given(st.dictionaries(CITERS, TIMES), st.dictionaries(CITERS, STANDINGS), TIMES, st.integers(0, 200))
def test_nothing_goes_that_anything_holds_and_what_goes_stays_gone_for_good(
    cited: dict[Citer, int], standings: dict[Citer, RunStanding], touched: int, later: int
) -> None:
    touched = max([touched, *cited.values()])
    content, citations = Content(REF, 7, touched), [Citation(REF, citer, at) for citer, at in cited.items()]

    found = verdict(content, citations, standings, before=BEFORE, settled=NOW - SETTLING_MS)

    live = [(at, standings[citer]) for citer, at in cited.items() if citer in standings]
    clocks = [max(at, 0 if run.is_reopened else run.ended_at or 0) for at, run in live] + [touched]
    is_held = any(run.ended_at is None for _, run in live) or any(clock >= BEFORE for clock in clocks)
    assert (found.by is None) is is_held
    assert (found.why is None) is not is_held
    after = verdict(content, citations, standings, before=BEFORE + later * DAY, settled=NOW + later * DAY)
    assert found.by is None or after.by is not None


def test_a_tally_counts_what_was_touched_before_it_could_be_removed() -> None:
    tally = SweepTally()
    one, two = Content(REF, 7, 1), Content(address_of(b"other"), 5, 1)

    tally.note([(one, Verdict(None, "end")), (two, Verdict(None, "uncited"))], {two.ref})

    assert (tally.looked_at, tally.removed, tally.bytes) == (2, 1, 5)
    assert dict(tally.kept) == {"kept_by_touch": 1}
    assert dict(tally.by) == {"uncited": 1}
