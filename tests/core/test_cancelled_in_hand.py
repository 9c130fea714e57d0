"""Where Cancelled is in hand, and where it is not: what `cancelled_in_hand` takes from Python (docs/adr/0017)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest

from loom.core.failures import Cancelled, cancelled_in_hand

Look = Callable[[bool], Awaitable[None]]
Place = Callable[[Look], Awaitable[None]]


async def signalled() -> None:
    """Wait, as a syscall does, for what turns out to be Cancelled."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, Cancelled(cause="request"))
    await future


async def in_except(look: Look) -> None:
    try:
        await signalled()
    except Cancelled:
        await look(True)
        await look(True)
    await look(False)


async def in_except_of_everything(look: Look) -> None:
    try:
        await signalled()
    except BaseException:  # noqa: BLE001  # what authors write
        await look(True)
    await look(False)


async def in_finally(look: Look) -> None:
    try:
        try:
            await signalled()
        finally:
            await look(True)
    except Cancelled:
        pass
    await look(False)


async def in_finally_that_returns(look: Look) -> None:
    async def returns() -> int:
        try:
            await signalled()
        finally:
            await look(True)
            return 1  # noqa: B012  # what authors write

    await returns()
    await look(False)


async def in_a_loop(look: Look) -> None:
    for _ in range(3):
        try:
            await signalled()
        except Cancelled:
            continue
        finally:
            await look(False)  # the except block has been left
    await look(False)


class Guard:
    def __init__(self, look: Look, swallows: bool) -> None:
        self._look, self._swallows = look, swallows

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> bool:
        await self._look(True)
        return self._swallows


async def in_aexit(look: Look) -> None:
    async with Guard(look, swallows=True):
        await signalled()
    await look(False)
    with contextlib.suppress(Cancelled):
        async with Guard(look, swallows=False):
            await signalled()
    await look(False)


@contextlib.asynccontextmanager
async def cleans_up(look: Look) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await look(True)


@contextlib.asynccontextmanager
async def swallows(look: Look) -> AsyncIterator[None]:
    try:
        yield
    except Cancelled:
        await look(True)
    await look(True)  # the block that this manages has not been left


async def in_context_managers(look: Look) -> None:
    with contextlib.suppress(Cancelled):
        async with cleans_up(look):
            await signalled()
    await look(False)
    async with swallows(look):
        await signalled()
    await look(False)


async def in_an_exit_stack(look: Look) -> None:
    with contextlib.suppress(Cancelled):
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(look, True)
            await stack.enter_async_context(cleans_up(look))
            await stack.enter_async_context(Guard(look, swallows=False))
            stack.push_async_callback(look, True)
            await signalled()
    await look(False)


async def in_coroutines_of_a_clean_up(look: Look) -> None:
    async def deep(levels: int) -> None:
        await (deep(levels - 1) if levels else look(True))

    try:
        await signalled()
    except Cancelled:
        await deep(5)
    await look(False)


async def after_a_callee_that_swallowed_it(look: Look) -> None:
    async def swallowing() -> None:
        with contextlib.suppress(Cancelled):
            await signalled()

    await swallowing()
    await look(False)


async def in_the_handler_of_another_error(look: Look) -> None:
    try:
        await signalled()
    except Cancelled:
        try:
            raise ValueError
        except ValueError:
            await look(True)
        try:
            raise KeyError from None
        except KeyError:
            await look(True)
        await look(True)
    await look(False)


async def in_the_handler_of_what_it_became(look: Look) -> None:
    for cut in (True, False):
        try:
            try:
                await signalled()
            except Cancelled:
                if cut:
                    raise ValueError from None
                raise ValueError  # noqa: B904  # what authors write
        except ValueError:
            await look(True)
        await look(False)


async def in_the_handler_of_a_group(look: Look) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(signalled())
            group.create_task(signalled())
    except BaseExceptionGroup:
        await look(True)
    await look(False)
    try:
        await signalled()
    except* Cancelled:
        await look(True)
    await look(False)


async def in_the_handler_of_a_gather(look: Look) -> None:
    try:
        await asyncio.gather(signalled(), signalled())
    except Cancelled:
        await look(True)
    await look(False)


async def in_generators(look: Look) -> None:
    async def waits() -> AsyncIterator[int]:
        try:
            yield 1
            await signalled()
        finally:
            await look(True)

    async def is_closed() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await look(True)

    with contextlib.suppress(Cancelled):
        async for _ in waits():
            pass
    with contextlib.suppress(Cancelled):
        async with contextlib.aclosing(is_closed()) as closing:
            async for _ in closing:
                await signalled()
    await look(False)


async def in_a_task_of_a_clean_up(look: Look) -> None:
    async def beside() -> None:
        await look(False)

    try:
        await signalled()
    except Cancelled:
        await asyncio.create_task(beside())


async def without_it(look: Look) -> None:
    await look(False)
    try:
        raise ValueError
    except ValueError:
        await look(False)


async def kept_in_a_variable(look: Look) -> None:
    kept: BaseException | None = None
    try:
        await signalled()
    except Cancelled as signal:
        kept = signal
    await look(False)
    try:
        raise RuntimeError
    except RuntimeError:
        await look(False)
    try:
        raise RuntimeError from kept
    except RuntimeError:
        await look(True)  # by the word of the author


async def in_a_chain_with_a_ring(look: Look) -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    try:
        raise first
    except ValueError:
        await look(False)


PLACES: Final[list[Any]] = [
    in_except,
    in_except_of_everything,
    in_finally,
    in_finally_that_returns,
    in_a_loop,
    in_aexit,
    in_context_managers,
    in_an_exit_stack,
    in_coroutines_of_a_clean_up,
    after_a_callee_that_swallowed_it,
    in_the_handler_of_another_error,
    in_the_handler_of_what_it_became,
    in_the_handler_of_a_group,
    in_the_handler_of_a_gather,
    in_generators,
    in_a_task_of_a_clean_up,
    without_it,
    kept_in_a_variable,
    in_a_chain_with_a_ring,
]


@pytest.mark.parametrize("place", PLACES, ids=[place.__name__ for place in PLACES])
async def test_cancelled_is_in_hand_where_it_is_handled_and_nowhere_else(place: Place) -> None:
    seen: list[tuple[bool, bool]] = []

    def look(expected: bool) -> Awaitable[None]:
        seen.append((cancelled_in_hand(), expected))  # where a syscall is called

        async def asked() -> None:
            await asyncio.sleep(0)
            seen.append((cancelled_in_hand(), expected))

        return asked()

    await place(look)

    assert seen
    assert all(found == expected for found, expected in seen), seen


async def test_a_loop_that_was_started_in_a_clean_up_does_not_have_it_in_hand() -> None:
    found: list[bool] = []

    def elsewhere() -> None:
        async def look() -> None:
            found.append(cancelled_in_hand())

        asyncio.run(look())

    try:
        await signalled()
    except Cancelled:
        await asyncio.to_thread(elsewhere)

    assert found == [False]
