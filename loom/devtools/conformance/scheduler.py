"""What every `Scheduler` must do, whatever order it gives: inherit the class and give the fixture *scheduler*.

The scheduler is empty, and has room for at least one job.
"""

from __future__ import annotations

from loom.spi.scheduler import Job, Scheduler


def _drained(scheduler: Scheduler) -> list[str]:
    """Return the ids of all that waits, in the order in which they have their place, each until the next."""
    ids = []
    while (job := scheduler.take()) is not None:
        ids.append(job.id)
        scheduler.done(job.id)
    return ids


class SchedulerConformance:
    """Nobody is lost, nobody has two places, and who waits is known."""

    async def test_without_a_job_there_is_none(self, scheduler: Scheduler) -> None:
        assert scheduler.take() is None
        assert scheduler.waiting() == 0

    async def test_every_job_has_its_place_once(self, scheduler: Scheduler) -> None:
        for number in range(50):
            scheduler.add(Job(f"job-{number}", f"key-{number % 7}", number % 3))
        assert scheduler.waiting() == 50

        ids = _drained(scheduler)

        assert sorted(ids) == sorted(f"job-{number}" for number in range(50))
        assert scheduler.waiting() == 0

    async def test_a_job_comes_back_as_it_was_given(self, scheduler: Scheduler) -> None:
        scheduler.add(Job("a", "key", 7))

        assert scheduler.take() == Job("a", "key", 7)

    async def test_who_waits_already_is_left_as_it_is(self, scheduler: Scheduler) -> None:
        scheduler.add(Job("a", "key"))
        scheduler.add(Job("a", "key"))

        assert scheduler.waiting() == 1
        assert _drained(scheduler) == ["a"]

    async def test_who_runs_is_not_taken_again_before_it_is_done(self, scheduler: Scheduler) -> None:
        scheduler.add(Job("a"))
        assert scheduler.take() == Job("a")
        scheduler.add(Job("a"))

        assert scheduler.take() is None
        scheduler.done("a")
        scheduler.add(Job("a"))
        assert scheduler.take() == Job("a")

    async def test_who_is_taken_out_is_not_taken(self, scheduler: Scheduler) -> None:
        for name in "abc":
            scheduler.add(Job(name))

        assert scheduler.cancel("b")
        assert not scheduler.cancel("b")
        assert not scheduler.cancel("nobody")
        assert scheduler.waiting() == 2
        assert sorted(_drained(scheduler)) == ["a", "c"]

    async def test_what_was_never_taken_is_done_without_an_error(self, scheduler: Scheduler) -> None:
        scheduler.done("nobody")

        assert scheduler.take() is None
