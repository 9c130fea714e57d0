"""What every `Clock` and every `Entropy` must do: inherit the class and give the fixture *clock* or *entropy*."""

from __future__ import annotations

import asyncio

from loom.spi.clock import Clock, Entropy

_EARLIEST_MS = 1_000_000_000_000  # 2001: what is less was told in seconds


class ClockConformance:
    """Time in milliseconds since the epoch, and waiting for it."""

    async def test_it_tells_milliseconds_since_the_epoch(self, clock: Clock) -> None:
        now = clock.now_ms()

        assert type(now) is int
        assert now > _EARLIEST_MS

    async def test_who_waits_for_a_time_that_has_come_goes_on_at_once(self, clock: Clock) -> None:
        for at in (0, clock.now_ms() - 1, clock.now_ms()):
            await asyncio.wait_for(clock.sleep_until(at), 1)

    async def test_who_waits_for_a_time_to_come_waits(self, clock: Clock) -> None:
        waiting = asyncio.ensure_future(clock.sleep_until(clock.now_ms() + 3_600_000))
        done, _ = await asyncio.wait([waiting], timeout=0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        assert not done
        assert waiting.cancelled()

    async def test_one_that_is_cancelled_leaves_the_others_waiting(self, clock: Clock) -> None:
        at = clock.now_ms() + 3_600_000
        one, other = (asyncio.ensure_future(clock.sleep_until(at)) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        done, _ = await asyncio.wait([one, other], timeout=0.02)
        other.cancel()
        await asyncio.gather(one, other, return_exceptions=True)

        assert done == {one}


class EntropyConformance:
    """Randomness for seeds and ids."""

    async def test_it_gives_as_many_bytes_as_were_asked_for(self, entropy: Entropy) -> None:
        assert [len(entropy.token(count)) for count in (1, 9, 16, 64)] == [1, 9, 16, 64]
        assert type(entropy.token(1)) is bytes

    async def test_no_two_are_alike(self, entropy: Entropy) -> None:
        assert len({entropy.token(16) for _ in range(1_000)}) == 1_000
