"""What every `AdmissionStore` must do. Time is that of *clock*, which the test moves; the store is made with it, and is a `Storage` too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, after, appended, first, row_of
from loom.spi.admission_store import VOID_AFTER_MS, Admission, AdmissionStore, Pace, Quiet, Slots, Terms
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Appended, LeaseChange, Storage

TWO: Final = Terms(slots=Slots("customer-1", 2))
PACED: Final = Terms(pace=Pace("mails", 2, 1_000))
CALM: Final = Terms(quiet=Quiet("draft-1", 5_000))
BEGUN: Final = Admission("begun")
PARKED: Final = replace(INDEX, status="suspended")


class LinedStorage(Storage, AdmissionStore, Protocol):
    """A store of logs and lines."""


async def started(store: LinedStorage, name: str, terms: Terms = TWO, *, begins: bool = True) -> Admission:
    """Have a run join its lines and write its log, as whoever starts one does."""
    run = ExecutionId(name)
    admission = await store.join_lines(run, terms, length=0, begins=begins)
    assert admission is not None
    await appended(store, first(run, index=INDEX if admission == BEGUN else PARKED))
    return admission


async def changed(store: LinedStorage, name: str, **index: Any) -> Appended:
    """Append an event to the log of a run, after which its index row is different so."""
    row = await row_of(store, ExecutionId(name))
    head = Appended(row.incarnation, row.length)
    return await appended(store, after(head, row.execution_id, b"on", index=replace(row.index, **index)))


async def ended(store: LinedStorage, name: str, **index: Any) -> Appended:
    """End a run, and say nothing to the lines."""
    return await changed(store, name, status="completed", ended=True, wake_at=None, **index)


async def left(store: LinedStorage, name: str) -> Sequence[str]:
    """End a run and have it leave its lines."""
    await ended(store, name)
    return list(await store.leave_lines(ExecutionId(name)))


async def called(store: LinedStorage) -> list[str]:
    """Return whose drivers were called, or can go on by the clock."""
    return [claim.row.execution_id for claim in await store.claim("anybody", lease_ms=1, limit=100)]


class SlotConformance:
    """At most so many have begun and have not ended."""

    async def test_it_is_an_admission_store(self, store: LinedStorage) -> None:
        assert isinstance(store, AdmissionStore)

    async def test_as_many_begin_as_there_are_slots_and_the_others_wait_in_order(self, store: LinedStorage) -> None:
        stand = [await started(store, name) for name in ("a", "b", "c", "d")]

        assert stand == [BEGUN, BEGUN, Admission("line", ahead=0), Admission("line", ahead=1)]

    async def test_each_line_has_slots_of_its_own(self, store: LinedStorage) -> None:
        other = Terms(slots=Slots("customer-2", 1))
        await started(store, "a")
        await started(store, "b")

        assert await started(store, "c", other) == BEGUN
        assert (await started(store, "d", other)).stage == "line"

    async def test_who_leaves_gives_its_slot_to_the_first_in_line_and_calls_it(self, store: LinedStorage) -> None:
        for name in ("a", "b", "c", "d"):
            await started(store, name)

        given = await left(store, "a")

        assert given == ["c"]
        assert await called(store) == ["c"]
        assert await store.admit(ExecutionId("c"), TWO) == BEGUN
        assert (await store.admit(ExecutionId("d"), TWO)).stage == "line"

    async def test_a_slot_that_was_given_is_kept_until_its_run_is_driven(self, store: LinedStorage) -> None:
        for name in ("a", "b", "c"):
            await started(store, name)
        await left(store, "a")

        late = await started(store, "late")

        assert late == Admission("line", ahead=0)

    async def test_one_that_waits_and_leaves_gives_nothing(self, store: LinedStorage) -> None:
        for name in ("a", "b", "c"):
            await started(store, name)

        assert await left(store, "c") == []
        assert await store.leave_lines(ExecutionId("c")) == []
        assert await store.admissions([ExecutionId("c")]) == {}

    async def test_one_that_was_parked_keeps_its_slot(self, store: LinedStorage) -> None:
        await started(store, "a", Terms(slots=Slots("one", 1)))
        await changed(store, "a", status="suspended")

        assert (await started(store, "b", Terms(slots=Slots("one", 1)))).stage == "line"

    async def test_one_that_ended_and_did_not_leave_counts_no_more(self, store: LinedStorage) -> None:
        for name in ("a", "b"):
            await started(store, name)
        await ended(store, "a")

        assert await started(store, "c") == BEGUN

    async def test_a_paused_run_is_passed_over(self, store: LinedStorage) -> None:
        for name in ("a", "b", "c", "d"):
            await started(store, name)
        await changed(store, "c", status="paused")

        assert await left(store, "a") == ["d"]

    async def test_a_chain_keeps_its_slot_until_its_last_link_has_ended(self, store: LinedStorage) -> None:
        one = Terms(slots=Slots("one", 1))
        await started(store, "a", one)
        await changed(store, "a", status="continued", ended=True)
        await appended(store, first(ExecutionId("a~2"), index=replace(INDEX, chain="a", link=2)))

        waits = await started(store, "b", one)
        await ended(store, "a~2")

        assert waits.stage == "line"
        assert await store.admit(ExecutionId("b"), one) == BEGUN

    async def test_more_or_fewer_slots_count_from_when_somebody_asks(self, store: LinedStorage) -> None:
        for name in ("a", "b", "c"):
            await started(store, name)

        waits = await store.admit(ExecutionId("c"), Terms(slots=Slots("customer-1", 1)))

        assert waits.stage == "line"
        assert await store.admit(ExecutionId("c"), Terms(slots=Slots("customer-1", 3))) == BEGUN

    async def test_one_that_began_before_there_were_lines_counts_and_goes_on(self, store: LinedStorage) -> None:
        one = Terms(slots=Slots("one", 1))
        await started(store, "a", one)
        await appended(store, first(ExecutionId("old")))

        assert await store.admit(ExecutionId("old"), one, has_begun=True) == BEGUN
        assert await left(store, "a") == []
        assert (await started(store, "b", one)).stage == "line"

    async def test_one_that_is_tried_again_stands_in_line_again(self, store: LinedStorage) -> None:
        for name in ("a", "b"):
            await started(store, name)
        failed = await ended(store, "a")
        await started(store, "c")

        again = await store.join_lines(ExecutionId("a"), TWO, length=failed.length)

        assert again == Admission("line", ahead=0)
        await changed(store, "a", status="suspended", ended=False)
        assert await left(store, "b") == ["a"]

    async def test_of_many_that_start_at_once_as_many_begin_as_may(self, store: LinedStorage) -> None:
        stand = await asyncio.gather(*(started(store, f"run-{number}") for number in range(20)))

        assert stand.count(BEGUN) == 2
        assert sorted(each.ahead for each in stand if each != BEGUN) == list(range(18))


class TrustConformance:
    """A run that has joined and is not written yet."""

    async def test_it_counts_as_if_it_were(self, store: LinedStorage) -> None:
        for name in ("a", "b"):
            await store.join_lines(ExecutionId(name), TWO, length=0)

        assert (await started(store, "c")).stage == "line"

    async def test_it_counts_for_nothing_once_its_time_is_over(self, store: LinedStorage, clock: VirtualClock) -> None:
        for name in ("a", "b"):
            await store.join_lines(ExecutionId(name), TWO, length=0)
        clock.advance(VOID_AFTER_MS)

        assert await started(store, "c") == BEGUN

    async def test_it_joins_once_and_keeps_its_place(self, store: LinedStorage) -> None:
        one = Terms(slots=Slots("one", 1))
        first_time = await store.join_lines(ExecutionId("a"), one, length=0)

        assert first_time == await store.join_lines(ExecutionId("a"), one, length=0) == BEGUN

    async def test_one_whose_log_has_another_length_does_not_join(self, store: LinedStorage) -> None:
        await started(store, "a")

        assert await store.join_lines(ExecutionId("a"), TWO, length=0) is None
        assert await store.join_lines(ExecutionId("b"), TWO, length=3) is None
        assert await store.admissions([ExecutionId("b")]) == {}

    async def test_one_given_a_slot_before_it_is_written_finds_it_when_it_looks_again(
        self, store: LinedStorage
    ) -> None:
        one = Terms(slots=Slots("one", 1))
        await started(store, "a", one)
        waits = await store.join_lines(ExecutionId("b"), one, length=0)
        assert await left(store, "a") == ["b"]
        await appended(store, first(ExecutionId("b"), index=PARKED))

        assert waits is not None
        assert waits.stage == "line"
        assert await store.admit(ExecutionId("b"), one) == BEGUN


class PaceConformance:
    """At most so many begin within any span of a length."""

    async def test_as_many_begin_as_may_and_the_others_are_given_a_time(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        now = clock.now_ms()

        stand = [await started(store, f"run-{number}", PACED) for number in range(5)]

        later = [
            Admission("turn", now + 1_000, 0),
            Admission("turn", now + 1_000, 1),
            Admission("turn", now + 2_000, 2),
        ]
        assert stand == [BEGUN, BEGUN, *later]

    async def test_a_turn_comes_a_span_after_the_one_so_many_before_it(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        begun_at = clock.now_ms()
        await started(store, "a", PACED)
        clock.advance(700)
        await started(store, "b", PACED)

        waits = await started(store, "c", PACED)

        assert waits == Admission("turn", begun_at + 1_000)
        clock.advance(299)
        assert (await store.admit(ExecutionId("c"), PACED)).stage == "turn"
        clock.advance(1)
        assert await store.admit(ExecutionId("c"), PACED) == BEGUN
        assert await started(store, "d", PACED) == Admission("turn", begun_at + 1_700)

    async def test_late_ones_begin_no_faster(self, store: LinedStorage, clock: VirtualClock) -> None:
        runs = [f"run-{number}" for number in range(6)]
        for run in runs:
            await started(store, run, PACED, begins=False)
        clock.advance(60_000)

        stand = [(await store.admit(ExecutionId(run), PACED)).stage for run in runs]

        assert stand == ["begun", "begun", "turn", "turn", "turn", "turn"]

    async def test_nobody_overtakes_one_whose_turn_has_come(self, store: LinedStorage, clock: VirtualClock) -> None:
        for number in range(4):
            await started(store, f"run-{number}", PACED)
        clock.advance(1_000)

        late = await started(store, "late", PACED)

        assert late.stage == "turn"
        assert await store.admit(ExecutionId("run-3"), PACED) == BEGUN
        assert await store.admit(ExecutionId("run-2"), PACED) == BEGUN

    async def test_one_that_ended_has_begun_all_the_same(self, store: LinedStorage) -> None:
        for name in ("a", "b"):
            await started(store, name, PACED)
            await left(store, name)

        assert (await started(store, "c", PACED)).stage == "turn"

    async def test_a_slot_comes_before_a_turn_and_is_kept_for_it(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        both = Terms(slots=Slots("one", 1), pace=Pace("mails", 1, 1_000))
        await started(store, "a", both)
        in_line = await started(store, "b", both)
        await left(store, "a")

        at_its_turn = await store.admit(ExecutionId("b"), both)

        assert in_line == Admission("line")
        assert at_its_turn == Admission("turn", clock.now_ms() + 1_000)
        assert (await started(store, "c", both)).stage == "line"


class QuietConformance:
    """A run begins once nobody has taken its place for a while."""

    async def test_it_begins_when_its_time_is_over(self, store: LinedStorage, clock: VirtualClock) -> None:
        waits = await started(store, "a", CALM)
        clock.advance(4_999)
        before = await store.admit(ExecutionId("a"), CALM)
        clock.advance(1)

        assert waits == before == Admission("quiet", clock.now_ms())
        assert await store.admit(ExecutionId("a"), CALM) == BEGUN

    async def test_a_newer_one_takes_its_place(self, store: LinedStorage, clock: VirtualClock) -> None:
        await started(store, "a", CALM)
        clock.advance(1_000)

        newer = await started(store, "b", CALM)

        assert newer == Admission("quiet", clock.now_ms() + 5_000, older=(ExecutionId("a"),))
        clock.advance(60_000)
        assert (await store.admit(ExecutionId("a"), CALM)).newer == "b"
        assert await store.admit(ExecutionId("b"), CALM) == BEGUN

    async def test_its_place_is_taken_though_the_newer_one_has_ended_since(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        await started(store, "a", CALM)
        await started(store, "b", CALM)
        clock.advance(5_000)
        await store.admit(ExecutionId("b"), CALM)
        await left(store, "b")

        assert (await store.admit(ExecutionId("a"), CALM)).newer == "b"

    async def test_one_that_comes_after_its_time_takes_no_place(self, store: LinedStorage, clock: VirtualClock) -> None:
        await started(store, "a", CALM)
        clock.advance(5_000)

        late = await started(store, "b", CALM)

        assert late.older == ()
        assert await store.admit(ExecutionId("a"), CALM) == BEGUN

    async def test_other_lines_are_let_be(self, store: LinedStorage) -> None:
        await started(store, "a", CALM)

        assert (await started(store, "b", Terms(quiet=Quiet("draft-2", 5_000)))).older == ()

    async def test_one_that_was_never_written_takes_no_place_and_those_after_it_do(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        await started(store, "a", CALM)
        await store.join_lines(ExecutionId("void"), CALM, length=0)
        clock.advance(5_000)
        in_doubt = await store.admit(ExecutionId("a"), CALM)
        clock.advance(VOID_AFTER_MS)

        assert (in_doubt.stage, in_doubt.newer) == ("quiet", None)
        assert await store.admit(ExecutionId("a"), CALM) == BEGUN

    async def test_a_place_goes_to_who_came_after_one_that_was_never_written(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        await started(store, "a", CALM)
        await store.join_lines(ExecutionId("void"), CALM, length=0)
        await started(store, "b", CALM)
        clock.advance(VOID_AFTER_MS)
        await store.sweep_lines()

        assert (await store.admit(ExecutionId("a"), CALM)).newer == "b"


class SweepConformance:
    """What was cut off in between is made up for."""

    async def test_the_slot_of_one_that_ended_and_did_not_leave_is_given(self, store: LinedStorage) -> None:
        for name in ("a", "b", "c", "d"):
            await started(store, name)
        await ended(store, "a")

        assert list(await store.sweep_lines()) == ["c"]
        assert await called(store) == ["c"]
        assert list(await store.sweep_lines()) == []

    async def test_who_oversleeps_is_called(self, store: LinedStorage, clock: VirtualClock) -> None:
        await started(store, "a", CALM)
        clock.advance(5_000)

        assert list(await store.sweep_lines()) == ["a"]
        assert await called(store) == ["a"]

    async def test_who_is_driven_sleeps_till_its_time_or_is_called_is_not_called(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        for number in range(3):
            await started(store, f"run-{number}", PACED)
        await started(store, "a", Terms(quiet=Quiet("other", 1_000)))
        row = await row_of(store, ExecutionId("a"))
        held = after(Appended(row.incarnation, row.length), row.execution_id, lease=LeaseChange("me", 60_000))
        await appended(store, held)
        early = list(await store.sweep_lines())
        clock.advance(1_000)

        assert early == []
        assert list(await store.sweep_lines()) == ["run-2"]
        assert list(await store.sweep_lines()) == []

    async def test_nobody_stands_in_line_who_has_ended_or_was_never_written(
        self, store: LinedStorage, clock: VirtualClock
    ) -> None:
        await started(store, "a")
        await ended(store, "a")
        await store.join_lines(ExecutionId("void"), TWO, length=0)
        clock.advance(VOID_AFTER_MS)

        await store.sweep_lines()

        assert await store.admissions([ExecutionId("a"), ExecutionId("void")]) == {}


class AdmissionStoreConformance(SlotConformance, TrustConformance, PaceConformance, QuietConformance, SweepConformance):
    """All of it."""
