"""A mailbox gives the oldest message to the first who waits for its topic, and looks at few to find them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from loom.core.mailbox import Mailbox

TOPICS = "abc"


class Plain:
    """What a mailbox does, done by looking at everything."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, int]] = []
        self.readers: list[tuple[str, int]] = []

    def take(self, waits: Callable[[int], bool], may: Callable[[int], bool], held: str) -> tuple[int, int] | None:
        self.readers = [each for each in self.readers if waits(each[1])]
        for topic, number in self.messages:
            able = sorted(reader for of, reader in self.readers if of == topic and may(reader))
            if able and topic not in held:
                self.messages.remove((topic, number))
                return able[0], number
        return None


Acts = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(TOPICS)),
        st.tuples(st.just("wait"), st.sampled_from(TOPICS), st.integers(0, 99)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("take"), st.sets(st.integers(0, 9)), st.sets(st.sampled_from(TOPICS))),
    ),
    max_size=40,
)


def is_not_in(left: frozenset[int], reader: int) -> bool:
    return reader not in left


def ends_in(digits: frozenset[int], reader: int) -> bool:
    return reader % 10 in digits


@given(acts=Acts)
def test_it_takes_what_looking_at_everything_would_take(acts: list[tuple[object, ...]]) -> None:
    mailbox, plain, gone = Mailbox[int, int](), Plain(), set[int]()
    numbers, readers = iter(range(1, 99)), list[int]()
    for act in acts:
        match act:
            case ("put", str(topic)):
                number = next(numbers)
                mailbox.put(topic, number, number)
                plain.messages.append((topic, number))
            case ("wait", str(topic), int(order)) if order not in readers:
                readers.append(order)
                mailbox.wait(topic, order, order)
                plain.readers.append((topic, order))
            case ("leave", int(place)) if readers:
                gone.add(readers[place % len(readers)])
            case ("take", set(barred), set(held)):
                left, able = frozenset(gone), frozenset(range(10)) - barred
                taken = mailbox.take(partial(is_not_in, left), partial(ends_in, able), held=held)
                assert taken == plain.take(partial(is_not_in, left), partial(ends_in, able), "".join(held))
                gone |= {taken[0]} if taken else set()
        assert [mailbox.has_unread(topic) for topic in TOPICS] == [
            topic in [of for of, _ in plain.messages] for topic in TOPICS
        ]


def test_ten_thousand_messages_on_a_hundred_topics_are_taken_by_looking_at_a_few_readers_each() -> None:
    mailbox, looks, gone = Mailbox[int, int](), 0, set[int]()

    def waits(reader: int) -> bool:
        nonlocal looks
        looks += 1
        return reader not in gone

    for number in range(10_000):
        mailbox.put(f"topic-{number % 100}", number + 1, number)
        mailbox.wait(f"topic-{number % 100}", number, number)

    taken = []
    while (found := mailbox.take(waits, lambda _: True)) is not None:
        gone.add(found[0])
        taken.append(found)

    assert taken == [(number, number) for number in range(10_000)]
    assert looks < 5 * 10_000
