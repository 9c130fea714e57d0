"""What every `EventStore` must do. The fixture *store* gives an empty one to each test and closes it."""

from __future__ import annotations

from dataclasses import replace

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import (
    CLAIM,
    INDEX,
    NOBODY,
    REFUND,
    after,
    appended,
    first,
    insert,
    ok,
    payloads,
    row_of,
)
from loom.spi.event_store import (
    Appended,
    Conflict,
    EventRecord,
    Head,
    Storage,
)


class EventStoreConformance:
    """Appending and reading logs."""

    async def test_what_is_appended_can_be_read(self, store: Storage) -> None:
        written = [EventRecord(0, "A", 5, b'{"a":1}', b'{"v":2}'), EventRecord(1, "B", 6, b"null", b"")]

        result = await appended(store, replace(first(REFUND), events=written))

        assert result.length == 2
        assert list(await store.read(REFUND)) == written
        assert await store.head(REFUND) == Head(REFUND, result.incarnation, 2)

    async def test_a_log_goes_on_where_it_ended(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))

        result = await appended(store, after(begun, REFUND, b"2", b"3"))

        assert result == Appended(begun.incarnation, 3)
        assert await payloads(store, REFUND) == [b"1", b"2", b"3"]

    async def test_an_empty_batch_does_nothing(self, store: Storage) -> None:
        assert list(await store.append([])) == []

    async def test_an_unknown_id_has_no_events_and_no_head(self, store: Storage) -> None:
        assert list(await store.read(NOBODY)) == []
        assert await store.head(NOBODY) is None
        assert await store.row(NOBODY) is None

    async def test_a_second_beginner_gets_a_conflict_and_writes_nothing(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"mine"))

        [result] = await store.append([first(REFUND, b"theirs")])

        assert result == Conflict(1, begun.incarnation)
        assert await payloads(store, REFUND) == [b"mine"]

    async def test_a_wrong_length_is_a_conflict_and_writes_nothing(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1", b"2"))
        index = replace(INDEX, status="completed")

        for length in (1, 3):
            [result] = await store.append([after(Appended(begun.incarnation, length), REFUND, b"stray", index=index)])
            assert result == Conflict(2, begun.incarnation)

        assert await payloads(store, REFUND) == [b"1", b"2"]
        assert (await row_of(store, REFUND)).index.status == "running"

    async def test_a_wrong_incarnation_is_a_conflict(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        stranger = Appended(Incarnation(begun.incarnation + 1), 1)

        [result] = await store.append([after(stranger, REFUND, b"2")])

        assert result == Conflict(1, begun.incarnation)

    async def test_going_on_with_an_unknown_log_is_a_conflict(self, store: Storage) -> None:
        [result] = await store.append([after(Appended(Incarnation(1), 3), NOBODY, b"4")])

        assert result == Conflict(0, None)

    async def test_each_execution_has_its_own_incarnation(self, store: Storage) -> None:
        one, two = await store.append([first(REFUND), first(CLAIM)])

        assert isinstance(one, Appended)
        assert isinstance(two, Appended)
        assert one.incarnation != two.incarnation

    async def test_a_refused_item_leaves_the_others_alone(self, store: Storage) -> None:
        refund = await appended(store, first(REFUND, b"r1"))
        claim = await appended(store, first(CLAIM, b"c1"))
        wrong = replace(after(refund, REFUND, b"no"), expected=7)

        results = await store.append([wrong, after(claim, CLAIM, b"c2"), first(NOBODY, b"n1")])

        assert results[0] == Conflict(1, refund.incarnation)
        assert [type(result) for result in results[1:]] == [Appended, Appended]
        assert await payloads(store, REFUND) == [b"r1"]
        assert await payloads(store, CLAIM) == [b"c1", b"c2"]
        assert await payloads(store, NOBODY) == [b"n1"]

    async def test_later_items_of_a_refused_execution_are_refused_too(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        wrong = replace(after(begun, REFUND, b"no"), expected=7)

        results = await store.append([wrong, after(begun, REFUND, b"would fit")])

        assert results == [Conflict(1, begun.incarnation)] * 2
        assert await payloads(store, REFUND) == [b"1"]

    async def test_items_of_one_execution_follow_each_other_in_a_batch(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        second = after(begun, REFUND, b"2")
        third = after(Appended(begun.incarnation, 2), REFUND, b"3")

        results = await store.append([second, third])

        assert [result.length for result in results if isinstance(result, Appended)] == [2, 3]
        assert await payloads(store, REFUND) == [b"1", b"2", b"3"]

    async def test_a_batch_of_many_logs_is_applied_to_each(self, store: Storage) -> None:
        ids = [ExecutionId(f"run-{number:02}") for number in range(60)]
        begun = await store.append([first(name, name.encode()) for name in ids])

        again = await store.append(
            [after(ok(head), name, b"x" * place) for place, (name, head) in enumerate(zip(ids, begun, strict=True))]
        )

        assert {ok(result).length for result in again} == {2}
        assert [await payloads(store, name) for name in ids] == [
            [name.encode(), b"x" * place] for place, name in enumerate(ids)
        ]

    async def test_the_index_alone_can_be_written(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))

        result = await appended(store, after(begun, REFUND, index=replace(INDEX, status="parked")))

        assert result.length == 1
        assert (await row_of(store, REFUND)).index.status == "parked"


class AppendIdConformance:
    """Asking again when the outcome of a write is unknown."""

    async def test_a_repeated_beginning_is_appended_once(self, store: Storage) -> None:
        item = first(REFUND, b"1", b"2")
        begun = await appended(store, item)

        assert await appended(store, item) == begun
        assert await payloads(store, REFUND) == [b"1", b"2"]

    async def test_a_repeated_continuation_is_appended_once(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        item = after(begun, REFUND, b"2")
        result = await appended(store, item)

        assert await appended(store, item) == result
        assert await payloads(store, REFUND) == [b"1", b"2"]

    async def test_a_repeated_batch_is_appended_once_whatever_it_holds(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"r1"))
        batch = [
            after(begun, REFUND, b"r2"),
            first(CLAIM, b"c1"),
            after(Appended(begun.incarnation, 2), REFUND, b"r3"),
        ]
        results = await store.append(batch)

        assert await store.append(batch) == results
        assert await payloads(store, REFUND) == [b"r1", b"r2", b"r3"]
        assert await payloads(store, CLAIM) == [b"c1"]

    async def test_a_repetition_may_bring_news_and_be_repeated_itself(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        old = after(begun, REFUND, b"2")
        second = await appended(store, old)
        batch = [old, after(second, REFUND, b"3")]

        results = await store.append(batch)

        assert await store.append(batch) == results == [second, Appended(begun.incarnation, 3)]
        assert await payloads(store, REFUND) == [b"1", b"2", b"3"]

    async def test_an_append_id_that_is_no_longer_the_last_is_a_conflict(self, store: Storage) -> None:
        item = first(REFUND, b"1")
        begun = await appended(store, item)
        await appended(store, after(begun, REFUND, b"2"))

        [result] = await store.append([item])

        assert result == Conflict(2, begun.incarnation)

    async def test_the_same_append_id_at_another_place_is_a_conflict(self, store: Storage) -> None:
        item = first(REFUND, b"1")
        begun = await appended(store, item)

        [result] = await store.append([after(Appended(begun.incarnation, 5), REFUND, b"6", append_id=item.append_id)])

        assert result == Conflict(1, begun.incarnation)

    async def test_a_request_between_the_tries_changes_nothing(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        parking = after(begun, REFUND, b"2", lane_above=0)
        result = await appended(store, parking)
        await insert(store, begun, key="")

        assert await appended(store, parking) == result


class ReadConformance:
    """Pages, ranges and the order of ids."""

    async def test_a_range_is_read_up_to_but_not_including_its_end(self, store: Storage) -> None:
        await appended(store, first(REFUND, *(b"%d" % number for number in range(10))))

        assert [record.sequence for record in await store.read(REFUND, start=3, stop=6)] == [3, 4, 5]
        assert [record.sequence for record in await store.read(REFUND, start=8)] == [8, 9]
        assert list(await store.read(REFUND, start=10)) == []

    async def test_a_page_ends_once_its_payloads_exceed_the_limit(self, store: Storage) -> None:
        await appended(store, first(REFUND, *[b"x" * 40] * 10))

        page = await store.read(REFUND, limit_bytes=100)

        assert [record.sequence for record in page] == [0, 1, 2]

    async def test_a_page_holds_an_event_however_large_it_is(self, store: Storage) -> None:
        large = bytes(range(256)) * (5 * 4096)
        await appended(store, first(REFUND, b"small", large, b"small again"))

        page = await store.read(REFUND, start=1, limit_bytes=1)

        assert [record.payload for record in page] == [large]
        assert await payloads(store, REFUND) == [b"small", large, b"small again"]

    async def test_a_limit_of_nothing_still_reads_event_by_event(self, store: Storage) -> None:
        await appended(store, first(REFUND, b"1", b"2"))

        assert [record.sequence for record in await store.read(REFUND, limit_bytes=0)] == [0]

    async def test_a_payload_comes_back_byte_for_byte(self, store: Storage) -> None:
        odd = [b"", b"\x00", b"a\x00b", b"\xff\xfe\x80", b'"\\u0000"', "ü\u2028😀".encode(), b"'; DROP TABLE events"]
        await appended(store, first(REFUND, *odd))

        assert await payloads(store, REFUND) == odd

    async def test_payloads_of_nothing_come_back(self, store: Storage) -> None:
        await appended(store, first(REFUND, b"", b""))

        assert await payloads(store, REFUND) == [b"", b""]

    async def test_metadata_comes_back_beside_its_own_payload(self, store: Storage) -> None:
        written = [EventRecord(place, "T", place, b"p" * place, b"m" * (9 - place)) for place in range(10)]

        await appended(store, replace(first(REFUND), events=written))

        assert list(await store.read(REFUND)) == written

    async def test_an_id_may_hold_any_visible_character(self, store: Storage) -> None:
        ids = [ExecutionId(text) for text in ("it's", '"q"', "a;b--", "naïve", "注文", "😀", "e\u0301", "a%b_c")]

        await store.append([first(name, name.encode()) for name in ids])

        assert [await payloads(store, name) for name in ids] == [[name.encode()] for name in ids]

    async def test_ids_are_in_code_point_order(self, store: Storage) -> None:
        ids = ["Z", "a", "B", "ä", "z", "é", "я", "注", "\uffee", "😀", "A", "_", "-1", "10", "9"]
        await store.append([first(ExecutionId(text)) for text in ids])

        assert list(await store.ids()) == sorted(ids)

    async def test_ids_are_paged_by_the_last_one_seen(self, store: Storage) -> None:
        ids = ["a", "B", "ä", "😀", "z"]
        await store.append([first(ExecutionId(text)) for text in ids])
        seen: list[str] = []

        while page := await store.ids(after=seen[-1] if seen else "", limit=2):
            seen += page

        assert seen == sorted(ids)

    async def test_a_prefix_means_its_very_characters(self, store: Storage) -> None:
        ids = ["a%1", "a_1", "ab1", "A%1", "a%", "a", "a\U0010ffffz", "a*1", "b"]
        await store.append([first(ExecutionId(text)) for text in ids])

        for prefix in ("a%", "a_", "A", "a", "a\U0010ffff", "*"):
            assert list(await store.ids(prefix=prefix)) == sorted(text for text in ids if text.startswith(prefix))

    async def test_a_prefix_and_a_cursor_go_together(self, store: Storage) -> None:
        await store.append([first(ExecutionId(text)) for text in ("a1", "b1", "b2", "b3", "c1")])

        assert list(await store.ids(after="b1", prefix="b")) == ["b2", "b3"]
        assert list(await store.ids(after="a", prefix="b", limit=2)) == ["b1", "b2"]
