"""Schedulers decide who is next: by priority, or in turn; within limits; and nobody is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.compute.scheduling import FairScheduler, PriorityScheduler
from loom.core.errors import InvalidDeclaration
from loom.spi.scheduler import Job, Scheduler

Maker = Callable[[int], Scheduler]
EACH = pytest.mark.parametrize("maker", [PriorityScheduler, FairScheduler])


def jobs(key: str, count: int, priority: int = 0) -> list[Job]:
    return [Job(f"{key}-{number}", key, priority) for number in range(count)]


def served(scheduler: Scheduler, count: int) -> list[str]:
    """Return the keys of the next *count* jobs, each of which ends at once."""
    keys = []
    for _ in range(count):
        job = scheduler.take()
        assert job is not None
        scheduler.done(job.id)
        keys.append(job.key)
    return keys


@EACH
@pytest.mark.proves("CMP-10")
def test_no_more_run_at_once_than_the_limit(maker: Maker) -> None:
    scheduler = maker(2)
    for job in jobs("a", 3):
        scheduler.add(job)

    taken = [scheduler.take() for _ in range(3)]
    scheduler.done("a-0")

    assert [job and job.id for job in taken] == ["a-0", "a-1", None]
    assert scheduler.waiting() == 1
    assert scheduler.take() == Job("a-2", "a")


@EACH
@pytest.mark.proves("CMP-10")
def test_a_job_that_is_cancelled_before_its_turn_never_gets_one(maker: Maker) -> None:
    scheduler = maker(1)
    for job in jobs("a", 3):
        scheduler.add(job)

    assert [scheduler.cancel("a-1"), scheduler.cancel("a-1"), scheduler.cancel("nobody")] == [True, False, False]

    first = scheduler.take()
    assert first is not None
    assert not scheduler.cancel(first.id)  # it runs
    scheduler.done(first.id)
    assert scheduler.take() == Job("a-2", "a")


@EACH
def test_what_waits_or_runs_already_is_not_added_twice(maker: Maker) -> None:
    scheduler = maker(5)
    scheduler.add(Job("a"))
    scheduler.add(Job("a"))
    taken = scheduler.take()
    scheduler.add(Job("a"))

    assert taken == Job("a")
    assert (scheduler.waiting(), scheduler.take()) == (0, None)
    scheduler.done("a")
    scheduler.add(Job("a"))
    assert scheduler.take() == Job("a")


@EACH
def test_a_place_that_was_never_given_cannot_be_freed(maker: Maker) -> None:
    scheduler = maker(1)
    scheduler.done("nobody")
    for job in jobs("a", 2):
        scheduler.add(job)

    assert scheduler.take() is not None
    assert scheduler.take() is None


@pytest.mark.proves("CMP-10")
def test_the_smallest_priority_is_first_and_among_equals_who_came_first() -> None:
    scheduler = PriorityScheduler(10)
    for job in [Job("late", priority=5), Job("b", priority=1), Job("a", priority=1), Job("urgent", priority=-1)]:
        scheduler.add(job)

    taken = [scheduler.take() for _ in range(4)]

    assert [job.id for job in taken if job] == ["urgent", "b", "a", "late"]


@pytest.mark.proves("CMP-11")
def test_a_noisy_tenant_does_not_starve_the_others() -> None:
    scheduler = FairScheduler(1)
    for job in [*jobs("noisy", 10_000), *jobs("quiet", 2)]:
        scheduler.add(job)

    assert served(scheduler, 5) == ["noisy", "quiet", "noisy", "quiet", "noisy"]


@pytest.mark.proves("CMP-11")
def test_who_comes_late_has_its_turn_at_once_and_has_saved_nothing_up() -> None:
    scheduler = FairScheduler(1)
    for job in jobs("noisy", 1_000):
        scheduler.add(job)
    served(scheduler, 500)

    for job in jobs("late", 100):
        scheduler.add(job)

    assert Counter(served(scheduler, 100)) == {"noisy": 50, "late": 50}


def test_who_goes_and_comes_back_at_once_is_not_first_again() -> None:
    scheduler = FairScheduler(1)
    for job in [*jobs("patient", 10), Job("again", "again")]:
        scheduler.add(job)
    order = []

    for _ in range(6):
        order += served(scheduler, 1)
        scheduler.add(Job("again", "again"))

    assert Counter(order) == {"patient": 3, "again": 3}


@pytest.mark.proves("CMP-11")
def test_long_jobs_of_one_tenant_leave_places_to_others() -> None:
    scheduler = FairScheduler(4, limit_each=3)
    for job in jobs("slow", 10):
        scheduler.add(job)
    slow = [scheduler.take() for _ in range(4)]

    scheduler.add(Job("quick", "quick"))

    assert [job and job.key for job in slow] == ["slow", "slow", "slow", None]
    assert scheduler.take() == Job("quick", "quick")
    scheduler.done("slow-1")
    assert scheduler.take() == Job("slow-3", "slow")


@given(weights=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=2), rounds=st.integers(1, 20))
@pytest.mark.proves("CMP-11")
def test_places_are_given_in_proportion_to_the_weights(weights: dict[str, int], rounds: int) -> None:
    scheduler, total = FairScheduler(1, weights=weights), sum(weights.values())
    for key in weights:
        for job in jobs(key, rounds * 9 + 9):
            scheduler.add(job)

    had = Counter(served(scheduler, rounds * total))

    assert all(abs(had[key] - rounds * weight) <= 1 for key, weight in weights.items())


@given(
    doings=st.lists(st.tuples(st.sampled_from(["add", "take", "done", "cancel"]), st.integers(0, 9), st.integers(0, 3)))
)
@EACH
def test_every_job_waits_or_runs_or_is_gone_and_nothing_is_kept_of_it(
    maker: Maker, doings: list[tuple[str, int, int]]
) -> None:
    scheduler, waiting, running = maker(3), set[str](), set[str]()

    for doing, number, key in doings:
        id_ = str(number)
        if doing == "add":
            scheduler.add(Job(id_, str(key), key))
            waiting |= {id_} - running
        elif doing == "cancel":
            assert scheduler.cancel(id_) == (id_ in waiting)
            waiting.discard(id_)
        elif doing == "done":
            scheduler.done(id_)
            running.discard(id_)
        else:
            job = scheduler.take()
            assert (job is None) == (not waiting or len(running) == 3)
            if job is not None:
                waiting.remove(job.id)
                running.add(job.id)
        assert scheduler.waiting() == len(waiting)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PriorityScheduler(0),
        lambda: FairScheduler(0),
        lambda: FairScheduler(2, limit_each=0),
        lambda: FairScheduler(2, weights={"a": 0}),
    ],
)
def test_what_gives_nobody_a_place_is_refused(make: Callable[[], Scheduler]) -> None:
    with pytest.raises(InvalidDeclaration, match="from 1 on"):
        make()
