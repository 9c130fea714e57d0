from __future__ import annotations

import asyncio

from loom.spi.clock import VirtualClock
from loom.spi.timers import Timers


class Ending(BaseException): ...


def timers_on(clock: VirtualClock) -> Timers:
    return Timers(clock, signal=Ending)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_once_armed_what_is_added_later_fires_in_the_order_of_its_hour() -> None:
    clock, fired = VirtualClock(0), list[str]()
    timers = timers_on(clock)
    timers.arm()

    timers.add(20, lambda: fired.append("late"), lambda: True)
    timers.add(10, lambda: fired.append("early"), lambda: True)
    timers.add(10, lambda: fired.append("unwanted"), lambda: False)
    await turns()
    clock.advance(10)
    await turns()

    assert fired == ["early"]
    clock.advance(10)
    await turns()
    assert fired == ["early", "late"]


async def test_nothing_fires_by_itself_before_they_are_armed_or_once_they_are_disarmed() -> None:
    clock, fired = VirtualClock(0), list[str]()
    timers = timers_on(clock)

    timers.add(10, lambda: fired.append("a"), lambda: True)
    clock.advance(10)
    await turns()
    assert fired == []
    timers.arm()
    timers.disarm()
    timers.add(5, lambda: fired.append("b"), lambda: True)
    await turns()

    assert fired == []
    assert timers.fire_due()
    assert fired == ["b", "a"]


async def test_a_signal_of_what_fires_ends_the_firing_without_a_word() -> None:
    clock, fired = VirtualClock(0), list[str]()
    timers = timers_on(clock)

    def stops() -> None:
        raise Ending

    timers.add(1, stops, lambda: True)
    timers.add(2, lambda: fired.append("never"), lambda: True)
    timers.arm()
    clock.advance(5)
    await turns()

    assert fired == []
