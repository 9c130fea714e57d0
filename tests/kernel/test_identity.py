from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core.identity import Identity, Tag, escape, parse, path_text, unescape
from tests.kernel.running import RUN, payloads, runtime

ODD = st.text(st.sampled_from("ab01/#%=:\x00\x1f\x7f\ud800\udfff é💡"), max_size=8)
NAMES = st.one_of(ODD, st.text(st.characters(), max_size=8), st.sampled_from(["retry:1", "item:2", "=", "#=", "007"]))
NUMBERS = st.integers(0, 10**6).map(str)
TAGS = st.one_of(
    st.builds(Tag, st.just("occurrence"), NUMBERS),
    st.builds(Tag, st.just("key"), NAMES),
    st.builds(Tag, st.sampled_from(["item", "retry", "compensate"]), NUMBERS),
)


@st.composite
def identities(draw: st.DrawFn) -> Identity:
    above: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 3))):
        opener = str(Identity((), draw(NAMES), draw(TAGS)))
        above.append((opener, draw(NAMES)))
    return Identity(tuple(above), draw(NAMES), draw(TAGS))


@given(identities())
def test_the_text_of_an_identity_parses_back(identity: Identity) -> None:
    assert parse(str(identity)) == identity


@given(identities(), identities())
def test_no_two_identities_share_a_text(one: Identity, other: Identity) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(NAMES)
def test_an_escaped_part_has_no_sign_of_its_own_and_comes_back(text: str) -> None:
    escaped = escape(text)

    assert not set(escaped) & set("/#\x00\x1f\ud800")
    escaped.encode()
    assert unescape(escaped) == text


@given(identities())
def test_what_is_asked_in_a_branch_starts_with_the_text_of_its_path(identity: Identity) -> None:
    assert str(identity).startswith(path_text(identity.path))


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (Identity((), "fetch"), "fetch"),
        (Identity((), "fetch", Tag("occurrence", "2")), "fetch#2"),
        (Identity((), "fetch", Tag("key", "order-7")), "fetch#order-7"),
        (Identity((), "fetch", Tag("key", "7")), "fetch#=7"),
        (Identity((), "fetch", Tag("key", "retry:1")), "fetch#=retry:1"),
        (Identity((), "fetch", Tag("key", "a/b")), "fetch#a%2Fb"),
        (Identity((), "fetch", Tag("retry", "1")), "fetch#retry:1"),
        (Identity((("checks", "risk"),), "fetch", Tag("occurrence", "1")), "checks/risk/fetch#1"),
    ],
)
def test_the_text_is_the_one_that_people_type(identity: Identity, text: str) -> None:
    assert str(identity) == text


async def identity_of(x: int) -> int:
    return x


fetch = loom.step(id="fetch")(identity_of)


@loom.flow
async def fifteen(ctx: loom.Context) -> int:
    total = 0
    for i in range(10):
        total += await ctx.run(fetch, i)
    return total + sum(await ctx.map(fetch, range(5)))


@pytest.mark.proves("RPL-01")
async def test_a_step_in_a_loop_and_in_branches_is_told_apart_without_a_word_of_the_author() -> None:
    over = runtime(fifteen)

    await over.start(fifteen, id=RUN)

    ids = [start.id for start in await payloads(over, "STEP_STARTED")]
    assert ids == ["fetch", *(f"fetch#{i}" for i in range(1, 10)), *(f"map/{i}/fetch" for i in range(5))]


@loom.flow
async def odd_names(ctx: loom.Context) -> list[int]:
    a = await ctx.run(fetch.keyed("7"), 1)
    b = await ctx.run(fetch.keyed("a/b#c%"), 2)
    c = await ctx.parallel({"x/y": lambda c: c.run(fetch, 3), "é": lambda c: c.run(fetch, 4)}, name="p#1")
    d = await ctx.run("a label\x00/", identity_of, 5)
    e = await ctx.run(fetch.retried(1), 6)
    return [a, b, *c.values(), d, e]


async def test_names_with_signs_of_the_text_form_run_and_replay() -> None:
    over = runtime(odd_names)

    outcome = await over.start(odd_names, id=RUN)

    ids = [start.id for start in await payloads(over, "STEP_STARTED")]
    assert outcome.value == [1, 2, 3, 4, 5, 6]
    assert len(set(ids)) == 6
    assert [str(parse(text)) for text in ids] == ids
    assert {"fetch#=7", "fetch#a%2Fb%23c%25", "p%231/x%2Fy/fetch", "p%231/é/fetch", "fetch#retry:1"} < set(ids)
