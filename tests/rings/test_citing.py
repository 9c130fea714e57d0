"""Whatever way an envelope takes into a log, the content that it names is cited by that run before the log is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom import values
from loom.core.claims import ClaimCheck, Claimed
from loom.core.ids import ExecutionId, Incarnation
from loom.rings.citing import ContentCiting, named_in
from loom.rings.claim_check import ClaimChecking
from loom.spi.content_memory import MemoryContent
from loom.spi.content_store import address_of
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import NOBODY, Append, AppendResult, IndexRow, Lane
from loom.spi.memory import MemoryStorage
from tests.rings.contents import Watched, app_of, citers, log_of

LETTER = b"a letter " * 1_000
REF = address_of(LETTER)


@loom.step(claim_check=loom.ClaimCheck(over_bytes=10))
async def write() -> bytes:
    return LETTER


@loom.flow
async def writes(ctx: loom.Context) -> loom.Claimed[bytes]:
    return await ctx.run(write)


class Noting(MemoryStorage):
    """A store that notes, at each append, who cites the letter by then."""

    def __init__(self, content: MemoryContent) -> None:
        super().__init__()
        self.content = content
        self.cited: list[set[tuple[str, int | None]]] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        names = any(REF.encode() in event.payload for item in batch for event in item.events)
        if names:
            self.cited.append((await citers(self.content)).get(REF, set()))
        return await super().append(batch)


async def test_a_content_is_cited_before_the_log_names_it() -> None:
    content = MemoryContent()
    storage = Noting(content)
    app = app_of(writes, storage=storage, content=content)

    await app.runtime.start(writes, id="r1")

    assert storage.cited
    assert all({run for run, _ in cited} == {"r1"} for cited in storage.cited)


async def test_where_it_cannot_be_cited_nothing_is_written_and_the_run_goes_on_later() -> None:
    content = Watched()
    content.broken.add("cite")
    app = app_of(writes, content=content)

    with pytest.raises(StoreUnavailable, match="contents cannot be reached"):
        await app.runtime.start(writes, id="r1")

    assert [event.type for event in await log_of(app, "r1")] == ["EXECUTION_STARTED"]
    assert await citers(content) == {REF: set()}  # put, never recorded, cited by nobody

    content.broken.clear()
    assert (await app.runtime.resume("r1")).status == "completed"
    assert await citers(content) == {REF: {("r1", 1)}}


# The ways into a log


@loom.flow
async def reads(ctx: loom.Context, letter: loom.Claimed[bytes]) -> int:
    return letter.size


@loom.flow
async def hears(ctx: loom.Context) -> int:
    letter = await ctx.receive("letters", expects=loom.Claimed[bytes])
    return letter.size


@loom.flow
async def hears_anything(ctx: loom.Context) -> Any:
    return await ctx.receive("letters")


@loom.flow
async def asks(ctx: loom.Context) -> int:
    letter = await ctx.suspend("letter", expects=loom.Claimed[bytes])
    return letter.size


@loom.flow
async def rolls(ctx: loom.Context, letter: loom.Claimed[bytes] | None = None) -> int:
    if letter is None:
        return await ctx.continue_as_new(await ctx.run(write))
    return letter.size


@loom.flow
async def has_a_child(ctx: loom.Context) -> int:
    letter = await loom.await_child(ctx, await loom.spawn(ctx, writes))
    return letter.size


@loom.flow
async def shows(ctx: loom.Context) -> str:
    return await ctx.suspend("look", show={"letters": [await ctx.run(write)]}, expects=str)


async def written(content: MemoryContent) -> Claimed[Any, Any]:
    return await ClaimChecking(content).claimed(ClaimCheck(over_bytes=10), LETTER)


def everything(content: MemoryContent) -> loom.LoomApp:
    return app_of(writes, reads, hears, hears_anything, asks, rolls, has_a_child, shows, content=content)


async def test_an_input_is_cited() -> None:
    content = MemoryContent()
    app = everything(content)

    await app.runtime.start(reads, await written(content), id="r1")

    assert {run for run, _ in (await citers(content))[REF]} == {"r1"}


@pytest.mark.parametrize("flow", [hears, hears_anything])
async def test_a_message_is_cited_while_it_lies_in_the_inbox_and_when_it_is_received(flow: Any) -> None:
    content = MemoryContent()
    app = everything(content)
    await app.runtime.start(flow, id="r1")
    await app.runtime.hold("r1", "letters")

    await app.runtime.send("r1", "letters", await written(content))
    assert (await citers(content))[REF] == {("r1", 1)}
    await app.runtime.release("r1", "letters")

    assert (await app.runtime.load_state("r1")).status == "completed"
    assert (await citers(content))[REF] == {("r1", 1)}


async def test_an_answer_and_what_is_shown_are_cited() -> None:
    content = MemoryContent()
    app = everything(content)
    await app.runtime.start(asks, id="asks")
    await app.runtime.start(shows, id="shows")

    assert (await app.runtime.resume("asks", answer=await written(content))).result() == len(LETTER)

    assert {run for run, _ in (await citers(content))[REF]} == {"asks", "shows"}


async def test_the_next_link_of_a_chain_cites_what_it_begins_with() -> None:
    content = MemoryContent()
    app = everything(content)

    await app.runtime.start(rolls, id="r1")

    runs = {run for run, _ in (await citers(content))[REF]}
    assert len(runs) == 2
    assert "r1" in runs


async def test_a_parent_cites_what_its_child_returns() -> None:
    content = MemoryContent()
    app = everything(content)

    outcome = await app.runtime.start(has_a_child, id="parent")

    assert outcome.result() == len(LETTER)
    assert {run for run, _ in (await citers(content))[REF]} == {"parent", "parent:writes"}


async def test_a_fork_cites_what_it_copies() -> None:
    content = MemoryContent()
    app = everything(content)
    await app.runtime.start(shows, id="r1")

    await app.runtime.fork("r1", at=2, id="other")

    assert {run for run, _ in (await citers(content))[REF]} == {"r1", "other"}


# What is noted


def item(text: bytes, *, incarnation: int | None = 1, lease: Any = None) -> Append:
    from loom.spi.event_store import EventRecord

    index = IndexRow(
        flow="f", status="running", started_at=1, updated_at=1, wake_at=None, gates="[]", attributes="{}", chain="r1"
    )
    return Append(
        execution_id=ExecutionId("r1"),
        incarnation=None if incarnation is None else Incarnation(incarnation),
        expected=0 if incarnation is None else 1,
        append_id="a",
        events=[EventRecord(0, "user.said", 1, text, b"")],
        index=index,
        lease=lease,
    )


async def test_a_run_cites_the_same_once_while_it_is_driven() -> None:
    content = Watched()
    citing = ContentCiting(content)
    names = values.dumps(values.encode(await written(content)))
    content.calls.clear()

    for _ in range(3):
        await citing.before_append([item(names)])
    await citing.before_append([item(b"{}", lease=NOBODY)])
    assert content.calls == ["cite"]
    await citing.before_append([item(names)])
    assert content.calls == ["cite", "cite"]

    for _ in range(2):
        await citing.before_append([item(names, incarnation=None)])  # a life without a number is not remembered
    assert content.calls == ["cite"] * 4
    assert (await citers(content))[REF] == {("r1", 1), ("r1", None)}


async def test_what_names_nothing_costs_no_call() -> None:
    content = Watched()
    citing = ContentCiting(content)
    texts = [
        b"{}",
        b'{"ref":"order-7","size":5}',
        b'{"ref":"' + b"a" * 64 + b'"}',
        b'{"ref":"' + b"A" * 64 + b'","size":1}',
    ]

    await citing.before_append([item(text) for text in texts])
    await citing.before_insert(Lane(ExecutionId("r1"), Incarnation(1)), b'{"topic":"letters","message":5}')

    assert content.calls == []


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=9,
    ),
    st.lists(st.binary(min_size=1), max_size=5),
)
async def test_every_envelope_in_a_value_is_found_and_nothing_else(value: Any, contents: list[bytes]) -> None:
    claims = ClaimChecking(MemoryContent())
    claimed = [await claims.claimed(ClaimCheck(over_bytes=0), each) for each in contents]

    found = named_in(values.dumps(values.encode({"around": value, "inside": [claimed, {"deep": claimed[:1]}]})))

    assert set(found) == {address_of(each) for each in contents}
    assert named_in(values.dumps(values.encode(values.plain(claimed)))) == found[: len(found)]
