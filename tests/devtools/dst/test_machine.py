"""A simulated machine: its own time, each process in its own order, deaths without a last word, and nothing of the real world."""

from __future__ import annotations

import asyncio
import time

import pytest

from loom.devtools.dst.machine import Machine, MachineClock, NotSimulated, ProcessLoop, process_loop

FOREVER_S = 1e9


def run(machine: Machine) -> str:
    return machine.run(lambda: False, until_s=FOREVER_S, events_max=10_000)


def test_a_year_of_sleep_takes_no_time() -> None:
    machine = Machine(1)
    loop = process_loop(machine, "one")

    async def sleeps() -> float:
        clock = MachineClock(machine)
        before = clock.now_ms()
        await asyncio.sleep(365 * 24 * 3600)
        await clock.sleep_until(clock.now_ms() + 7)
        return clock.now_ms() - before

    began = time.monotonic()
    task = loop.create_task(sleeps())

    assert run(machine) == "quiet"
    assert task.result() == 365 * 24 * 3600 * 1000 + 7
    assert time.monotonic() - began < 5


def test_a_process_does_what_is_ready_in_the_order_in_which_it_became_so() -> None:
    machine, told = Machine(1), list[int]()
    loop = process_loop(machine, "one")
    for number in range(20):
        loop.call_soon(told.append, number)

    run(machine)

    assert told == list(range(20))


def test_who_comes_first_of_two_processes_is_decided_by_the_seed() -> None:
    def told_with(seed: int) -> list[str]:
        machine, told = Machine(seed), list[str]()

        async def speak(name: str) -> None:
            for _ in range(5):
                await asyncio.sleep(1)
                told.append(name)

        tasks = [process_loop(machine, name).create_task(speak(name)) for name in "ab"]
        run(machine)
        assert all(task.done() for task in tasks)
        return told

    assert told_with(3) == told_with(3)
    assert len({tuple(told_with(seed)) for seed in range(20)}) > 5


def test_a_process_that_dies_says_nothing_more_and_cleans_nothing_up() -> None:
    machine, told = Machine(1), list[str]()
    loop = process_loop(machine, "one")

    async def dies() -> None:
        try:
            told.append("began")
            await loop.die()
        finally:
            told.append("cleaned up" if not loop.is_dead else "was taken apart")

    async def beside() -> None:
        await asyncio.sleep(1)
        told.append("beside")

    tasks = [loop.create_task(dies()), loop.create_task(beside())]
    run(machine)
    before = list(told)
    loop.close()

    assert before == ["began"]
    assert told == ["began", "was taken apart"]
    assert not any(task.done() for task in tasks)


def test_a_frozen_process_is_late_and_others_are_not() -> None:
    machine, told = Machine(1), list[tuple[str, float]]()
    frozen, other = process_loop(machine, "frozen"), process_loop(machine, "other")

    async def freezes(loop: ProcessLoop) -> None:
        await loop.freeze(60)
        told.append(("thawed", machine.now_s))

    async def ticks(name: str) -> None:
        await asyncio.sleep(5)
        told.append((name, machine.now_s))

    tasks = [
        frozen.create_task(ticks("late")),
        frozen.create_task(freezes(frozen)),
        other.create_task(ticks("in time")),
    ]
    run(machine)

    assert sorted(told) == [("in time", 5.0), ("late", 60.0), ("thawed", 60.0)]
    assert all(task.done() for task in tasks)


def test_a_loop_that_is_never_done_is_told_from_one_that_is() -> None:
    machine = Machine(1)

    async def spins() -> None:
        while True:
            await asyncio.sleep(0)

    loop = process_loop(machine, "one")
    task = loop.create_task(spins())

    assert run(machine) == "endless"
    loop.close()
    assert not task.done()


def test_what_is_real_is_refused_in_words() -> None:
    machine = Machine(1)
    loop = process_loop(machine, "one")

    async def connects() -> None:
        await asyncio.open_connection("localhost", 1)

    task = loop.create_task(connects())
    run(machine)

    assert isinstance(task.exception(), NotSimulated)
    assert "no network" in str(task.exception())


def test_a_plain_function_for_a_thread_runs_at_once() -> None:
    machine = Machine(1)
    loop = process_loop(machine, "one")

    task = loop.create_task(asyncio.to_thread(pow, 2, 5))
    run(machine)

    assert task.result() == 32


async def test_a_simulation_can_be_run_from_within_a_loop() -> None:
    machine = Machine(1)
    task = process_loop(machine, "one").create_task(asyncio.sleep(9, "done"))

    run(machine)

    assert task.result() == "done"
    assert asyncio.get_running_loop() is not task.get_loop()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_draws_the_same(seed: int) -> None:
    assert Machine(seed).random.random() == Machine(seed).random.random()
