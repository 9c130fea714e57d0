"""What every `ContentStore` must do: inherit the class and give *store*, empty and open to each test, and its *clock*."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from loom.core.errors import InvalidId
from loom.core.ids import ContentRef, ExecutionId, Incarnation
from loom.spi.clock import VirtualClock
from loom.spi.content_store import (
    LEFT_BEHIND_MS,
    PIECE_BYTES_MAX,
    Citation,
    Citer,
    Content,
    ContentMissing,
    ContentStore,
    address_of,
)

ADA: Final = b"a page about Ada"
BOB: Final = b"a page about Bob"
FIRST: Final = Citer(ExecutionId("refund-41"), Incarnation(1))
SECOND: Final = Citer(ExecutionId("refund/42:\u00fc"), Incarnation(2))
BEGINNING: Final = Citer(ExecutionId("refund-43"), None)
LARGE_BYTES: Final = 3 * PIECE_BYTES_MAX + 17
HOUR: Final = 3_600_000
NO_ADDRESSES: Final = (
    *("", "..", "../../etc/passwd", "/etc/passwd", "ab", "g" * 64, "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n"),
    "\0" * 64,
)


def large(seed: int = 7) -> bytes:
    """Return bytes that take several pieces, with no zero bytes to be lost among."""
    return random.Random(seed).randbytes(LARGE_BYTES)


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield *data* in pieces of *size* bytes."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def whole(store: ContentStore, ref: ContentRef, **part: Any) -> bytes:
    """Return what a stream gives."""
    return b"".join([piece async for piece in store.stream(ref, **part)])


async def got(store: ContentStore, ref: ContentRef) -> bytes | None:
    """Return a content, None where it is not there."""
    return (await store.get_many([ref])).get(ref)


async def listed(store: ContentStore) -> dict[ContentRef, Content]:
    """Return all that the store lists."""
    return {each.ref: each for each in await store.contents()}


async def cited(store: ContentStore, *refs: ContentRef) -> set[tuple[ContentRef, Citer]]:
    """Return who cites *refs*."""
    return {(each.ref, each.by) for each in await store.citations(refs)}


class ContentReadingConformance:
    """Bytes in and out."""

    async def test_it_is_a_content_store_with_a_name(self, store: ContentStore) -> None:
        assert isinstance(store, ContentStore)
        assert store.url

    async def test_what_is_put_is_found_under_the_sha_256_of_its_bytes(self, store: ContentStore) -> None:
        ref = await store.put(ADA)

        assert ref == hashlib.sha256(ADA).hexdigest() == address_of(ADA)
        assert await got(store, ref) == ADA

    async def test_no_bytes_are_a_content_too(self, store: ContentStore) -> None:
        ref = await store.put(b"")

        assert await got(store, ref) == b""
        assert await whole(store, ref) == b""
        assert await store.sizes([ref]) == {ref: 0}

    async def test_a_large_content_comes_back_whole(self, store: ContentStore) -> None:
        ref = await store.put(large())

        assert await got(store, ref) == large()
        assert await store.sizes([ref]) == {ref: LARGE_BYTES}

    async def test_many_come_in_one_call_and_what_is_not_there_is_left_out(self, store: ContentStore) -> None:
        refs = [await store.put(b"%d" % number) for number in range(100)]
        nowhere = address_of(b"never put")

        found = await store.get_many([nowhere, *refs, refs[0]])

        assert found == {ref: b"%d" % number for number, ref in enumerate(refs)}
        assert await store.sizes([nowhere]) == {}
        assert await store.get_many([]) == {}

    async def test_a_content_is_streamed_in_small_pieces(self, store: ContentStore) -> None:
        ref = await store.put(large())

        pieces = [piece async for piece in store.stream(ref)]

        assert b"".join(pieces) == large()
        assert all(0 < len(piece) <= PIECE_BYTES_MAX for piece in pieces)

    async def test_a_part_of_a_content_is_streamed(self, store: ContentStore) -> None:
        data, middle = large(), PIECE_BYTES_MAX
        ref = await store.put(data)
        parts = [(0, 1), (middle - 1, middle + 1), (middle, None), (5, 5), (LARGE_BYTES - 1, LARGE_BYTES + 99)]

        for start, stop in [*parts, (LARGE_BYTES, None), (LARGE_BYTES + 7, None), (9, 3)]:
            assert await whole(store, ref, start=start, stop=stop) == data[start:stop]

    async def test_a_stream_that_is_left_half_way_can_be_begun_again(self, store: ContentStore) -> None:
        ref = await store.put(large())
        async with aclosing(store.stream(ref)) as pieces:  # type: ignore[type-var]  # an iterator that can be closed
            async for _ in pieces:
                break

        assert await whole(store, ref) == large()

    async def test_a_stream_of_what_is_not_there_says_so(self, store: ContentStore) -> None:
        missing = address_of(b"never put")
        try:
            await whole(store, missing)
        except ContentMissing as error:
            told = (error.ref, error.store)
        else:
            raise AssertionError("nothing was raised")
        assert told == (missing, store.url)

    async def test_what_is_no_address_is_refused_everywhere(self, store: ContentStore) -> None:
        for text in NO_ADDRESSES:
            ref = ContentRef(text)
            ways = [
                store.get_many([ref]),
                store.sizes([ref]),
                whole(store, ref),
                store.cite([(ref, FIRST)]),
                store.citations([ref]),
                store.remove([Content(ref, 1, 1)]),
                store.forget([Citation(ref, FIRST, 1)]),
            ]
            for way in ways:
                try:
                    await way
                except InvalidId:
                    continue
                raise AssertionError(f"{text!r} was not refused")

    async def test_reading_makes_nothing(self, store: ContentStore) -> None:
        assert await got(store, address_of(ADA)) is None
        assert await store.contents() == []
        assert await store.citations([address_of(ADA)]) == []
        assert await store.tidy() == 0

    async def test_it_can_be_closed_twice_and_used_again(self, store: ContentStore) -> None:
        ref = await store.put(ADA)
        await store.close()
        await store.close()

        assert await got(store, ref) == ADA


class ContentPuttingConformance:
    """Once, whole or not at all."""

    async def test_the_same_bytes_are_kept_once(self, store: ContentStore) -> None:
        first = await store.put(ADA)
        second = await store.put(ADA)
        third = await store.put_stream(pieces_of(ADA, 3))

        assert first == second == third.ref
        assert list(await listed(store)) == [first]

    async def test_a_stream_is_kept_under_the_address_of_all_of_it(self, store: ContentStore) -> None:
        kept = await store.put_stream(pieces_of(large(), 70_001))

        assert (kept.ref, kept.size) == (address_of(large()), LARGE_BYTES)
        assert await got(store, kept.ref) == large()
        assert (await listed(store))[kept.ref] == kept

    async def test_a_stream_without_bytes_is_a_content_without_bytes(self, store: ContentStore) -> None:
        kept = await store.put_stream(pieces_of(b"", 1))

        assert (kept.ref, kept.size) == (address_of(b""), 0)

    async def test_a_stream_that_fails_leaves_nothing(self, store: ContentStore) -> None:
        async def breaks() -> AsyncIterator[bytes]:
            yield large()
            raise ZeroDivisionError

        try:
            await store.put_stream(breaks())
        except ZeroDivisionError:
            assert await store.contents() == []
        else:
            raise AssertionError("nothing was raised")

    async def test_a_stream_that_is_cancelled_leaves_nothing_and_is_closed(self, store: ContentStore) -> None:
        begun, closed = asyncio.Event(), asyncio.Event()

        async def stalls() -> AsyncIterator[bytes]:
            try:
                yield large()
                begun.set()
                await asyncio.Event().wait()
            finally:
                closed.set()

        putting = asyncio.create_task(store.put_stream(stalls()))
        await begun.wait()
        putting.cancel()
        await asyncio.wait([putting])

        assert putting.cancelled()
        assert closed.is_set()
        assert await store.contents() == []

    async def test_nothing_can_be_read_before_all_of_it_is_there(self, store: ContentStore) -> None:
        seen: list[Sequence[Content]] = []

        async def looking() -> AsyncIterator[bytes]:
            for piece in (large(), ADA):
                yield piece
                seen.append(await store.contents())

        kept = await store.put_stream(looking())

        assert seen == [[], []]
        assert await got(store, kept.ref) == large() + ADA

    async def test_many_put_the_same_and_other_things_at_once(self, store: ContentStore) -> None:
        refs = await asyncio.gather(*(store.put(b"%d" % (number % 5)) for number in range(40)))
        streamed = await asyncio.gather(*(store.put_stream(pieces_of(large(n % 2), 300_000)) for n in range(6)))

        assert set(await listed(store)) == {*refs, *(each.ref for each in streamed)}
        assert len(await listed(store)) == 7


class ContentCitingConformance:
    """Who cites what."""

    async def test_a_content_is_cited_by_executions(self, store: ContentStore, clock: VirtualClock) -> None:
        ada, bob = await store.put(ADA), await store.put(BOB)

        await store.cite([(ada, FIRST), (bob, FIRST), (ada, SECOND), (bob, BEGINNING)])

        assert await cited(store, ada, bob) == {(ada, FIRST), (bob, FIRST), (ada, SECOND), (bob, BEGINNING)}
        assert await cited(store, bob) == {(bob, FIRST), (bob, BEGINNING)}
        assert all(abs(each.at - clock.now_ms()) < 9 for each in await store.citations([ada, bob]))

    async def test_citing_again_moves_the_time_and_adds_nothing(self, store: ContentStore, clock: VirtualClock) -> None:
        ada = await store.put(ADA)
        await store.cite([(ada, FIRST)])
        clock.advance(HOUR)

        await store.cite([(ada, FIRST)])

        [citation] = await store.citations([ada])
        assert (citation.by, citation.at) == (FIRST, clock.now_ms())

    async def test_each_life_of_an_execution_cites_by_itself(self, store: ContentStore) -> None:
        ada, next_life = await store.put(ADA), FIRST._replace(incarnation=Incarnation(2))

        await store.cite([(ada, FIRST), (ada, next_life), (ada, FIRST._replace(incarnation=None))])

        assert len(await cited(store, ada)) == 3

    async def test_what_is_not_there_is_not_cited(self, store: ContentStore) -> None:
        ada, nowhere = await store.put(ADA), address_of(BOB)

        await store.cite([(nowhere, FIRST), (ada, FIRST)])
        await store.cite([])

        assert await cited(store, ada, nowhere) == {(ada, FIRST)}
        assert await got(store, nowhere) is None

    async def test_a_citation_is_forgotten_unless_it_was_made_again(
        self, store: ContentStore, clock: VirtualClock
    ) -> None:
        ada = await store.put(ADA)
        await store.cite([(ada, FIRST), (ada, SECOND)])
        seen = await store.citations([ada])
        clock.advance(HOUR)
        await store.cite([(ada, SECOND)])
        touched = await listed(store)

        await store.forget([*seen, Citation(address_of(BOB), FIRST, 1)])

        assert await cited(store, ada) == {(ada, SECOND)}
        assert await listed(store) == touched


class ContentSweepingConformance:
    """Listing, and removing what nobody has touched meanwhile."""

    async def test_it_tells_the_time(self, store: ContentStore, clock: VirtualClock) -> None:
        assert await store.now_ms() == clock.now_ms()

    async def test_contents_come_page_by_page_in_the_order_of_their_addresses(self, store: ContentStore) -> None:
        refs = sorted([await store.put(b"%d" % number) for number in range(23)])
        pages: list[list[str]] = []

        while page := await store.contents(after=pages[-1][-1] if pages else "", limit=10):
            pages.append([each.ref for each in page])

        assert pages == [refs[:10], refs[10:20], refs[20:]]

    async def test_putting_and_citing_touch_and_reading_does_not(
        self, store: ContentStore, clock: VirtualClock
    ) -> None:
        ada = await store.put(ADA)
        touches = [(await listed(store))[ada].touched_at]
        for touch in (store.put(ADA), store.put_stream(pieces_of(ADA, 5)), store.cite([(ada, FIRST)])):
            clock.advance(HOUR)
            await got(store, ada)
            await whole(store, ada)
            assert (await listed(store))[ada].touched_at == touches[-1]
            await touch
            touches.append((await listed(store))[ada].touched_at)

        assert [touch - touches[0] for touch in touches] == [0, HOUR, 2 * HOUR, 3 * HOUR]
        assert touches[-1] == clock.now_ms()

    async def test_what_was_listed_and_left_alone_is_removed_with_its_citations(
        self, store: ContentStore, clock: VirtualClock
    ) -> None:
        ada, bob, big = await store.put(ADA), await store.put(BOB), await store.put(large())
        await store.cite([(ada, FIRST), (bob, FIRST), (big, FIRST)])
        clock.advance(HOUR)
        before = await listed(store)

        removed = await store.remove([before[ada], before[big], Content(address_of(b"gone"), 4, 4)])

        assert set(removed) == {ada, big}
        assert await listed(store) == {bob: before[bob]}
        assert await got(store, ada) is None
        assert await cited(store, ada, bob, big) == {(bob, FIRST)}

    async def test_what_was_touched_after_it_was_listed_stays(self, store: ContentStore) -> None:
        ada, bob = await store.put(ADA), await store.put(BOB)  # and no time passes
        before = await listed(store)
        await store.put(ADA)
        await store.cite([(bob, FIRST)])

        assert list(await store.remove(before.values())) == []

        assert await got(store, ada) == ADA
        assert await cited(store, bob) == {(bob, FIRST)}

    async def test_what_was_removed_can_be_put_again(self, store: ContentStore) -> None:
        ada = await store.put(ADA)
        await store.cite([(ada, FIRST)])
        await store.remove((await listed(store)).values())

        assert await store.put(ADA) == ada

        assert await got(store, ada) == ADA
        assert await cited(store, ada) == set()

    async def test_of_a_put_and_a_removal_at_once_the_content_is_there_in_the_end(
        self, store: ContentStore, clock: VirtualClock
    ) -> None:
        for _ in range(20):
            await store.put(ADA)
            before = await listed(store)
            clock.advance(HOUR)

            await asyncio.gather(store.remove(before.values()), store.put(ADA), store.remove(before.values()))

            assert await got(store, address_of(ADA)) == ADA

    async def test_what_is_being_put_is_not_tidied_away(self, store: ContentStore, clock: VirtualClock) -> None:
        async def slow() -> AsyncIterator[bytes]:
            yield large()
            clock.advance(LEFT_BEHIND_MS // 2)
            assert await store.tidy() == 0
            yield ADA

        kept = await store.put_stream(slow())

        assert await got(store, kept.ref) == large() + ADA


class ContentStoreConformance(
    ContentReadingConformance, ContentPuttingConformance, ContentCitingConformance, ContentSweepingConformance
):
    """All that a content store does."""
