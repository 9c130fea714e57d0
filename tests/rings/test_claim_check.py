"""A result that is too large for the log is kept as a content, and the flow has its envelope, live and replayed alike."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import loom
from loom import values
from loom.core.claims import ContentNotWired
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ContentRef
from loom.core.middleware import Next
from loom.rings.claim_check import ClaimChecking
from loom.spi.content_memory import MemoryContent
from loom.spi.content_store import ContentMissing, address_of
from loom.spi.errors import StoreCorrupt, StoreUnavailable
from loom.spi.memory import MemoryStorage
from tests.rings.contents import Watched, all_refs, app_of, log_bytes, log_of

MB = 1_000_000
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


class Page(BaseModel):
    """What a step fetches."""

    title: str
    body: str
    price: Decimal = Decimal("1.50")


@dataclass(frozen=True)
class Summary:
    """What the flow branches on."""

    title: str
    words: int


def summary(page: Page) -> Summary:
    return Summary(page.title, len(page.body.split()))


@loom.step(claim_check=loom.ClaimCheck(digest=summary))
async def fetch(title: str, words: int) -> Page:
    ran.append(f"fetch {title}")
    return Page(title=title, body="word " * words)


@loom.step
async def count(step: loom.StepContext, page: loom.Claimed[Page, Summary]) -> int:
    ran.append("count")
    return len((await step.content.get(page)).body)


@loom.flow
async def asks(ctx: loom.Context, words: int) -> str:
    page = await ctx.run(fetch, "Ada", words)
    if page.digest.words > 100:
        return f"{page.digest.title}: {await ctx.suspend('publish', expects=str)}"
    return f"short, {await ctx.run(count, page)}"


@pytest.mark.proves("EFF-09", "NOT-09", "RNG-16")
async def test_five_megabytes_add_less_than_a_kilobyte_and_replay_needs_no_contents(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    async with app_of(asks, storage=loom.sqlite_storage(path)) as app:
        assert (await app.runtime.start(asks, MB, id="large")).status == "suspended"
        large = await log_bytes(app, "large")
        await app.runtime.start(asks, 101, id="small")
        assert len(await app.content.contents()) == 1  # type: ignore[union-attr]
        [fetched] = [event for event in await log_of(app, "large") if event.type == "STEP_COMPLETED"]
        assert len(fetched.payload) < 300
    shutil.rmtree(tmp_path / "loom.db.content")
    ran.clear()

    async with app_of(asks, storage=loom.sqlite_storage(path)) as app:
        outcome = await app.runtime.resume("large", answer="yes")
        replayed = await app.runtime.load_state("large")

    assert large < 2_000
    assert (outcome.status, outcome.result(), replayed.status) == ("completed", "Ada: yes", "completed")
    assert ran == []
    assert not (tmp_path / "loom.db.content").exists()


@pytest.mark.proves("EFF-10")
async def test_a_flow_branches_on_the_declared_digest_without_reading_a_content() -> None:
    content = Watched()
    app = app_of(asks, content=content)

    outcome = await app.runtime.start(asks, 5_000, id="r1")
    await app.runtime.resume("r1", answer="yes")

    assert outcome.status == "suspended"
    assert content.calls == ["put", "cite"]
    assert content.reads == []


@pytest.mark.proves("EFF-09")
async def test_a_result_within_the_inline_cap_stands_in_its_envelope_and_touches_no_store() -> None:
    content = Watched()
    app = app_of(asks, content=content)

    outcome = await app.runtime.start(asks, 50, id="r1")

    assert outcome.result() == "short, 250"
    assert content.calls == []
    [fetched, _] = [values.loads(event.payload) for event in await log_of(app, "r1") if event.type == "STEP_COMPLETED"]
    assert fetched["result"]["$claimed"]["inline"]["value"]["title"] == "Ada"


@pytest.mark.parametrize(("size", "is_kept"), [(99, False), (100, False), (101, True)])
async def test_what_is_larger_than_the_cap_is_kept(size: int, is_kept: bool) -> None:
    @loom.step(claim_check=loom.ClaimCheck(over_bytes=100))
    async def read() -> bytes:
        return bytes(size)

    @loom.flow
    async def reads(ctx: loom.Context) -> loom.Claimed[bytes]:
        return await ctx.run(read)

    content = MemoryContent()
    claimed = (await app_of(reads, content=content).runtime.start(reads)).result()

    assert (claimed.ref is not None, claimed.size, claimed.form) == (is_kept, size, "bytes")
    assert (claimed.inline is None) is is_kept
    assert await content.get_many([address_of(bytes(size))]) == ({claimed.ref: bytes(size)} if is_kept else {})


seen: list[Any] = []


@loom.flow
async def watches(ctx: loom.Context) -> str:
    page = await ctx.run(fetch, "Ada", 5_000)
    seen.append(page)
    await ctx.suspend("go on")
    return page.digest.title


async def test_the_envelope_is_the_same_live_and_replayed() -> None:
    seen.clear()
    app = app_of(watches)
    await app.runtime.start(watches, id="r1")

    await app.runtime.resume("r1", answer=None)

    live, replayed = seen
    assert live == replayed
    assert type(live) is type(replayed) is loom.Claimed
    assert live.digest == Summary("Ada", 5_000)
    assert ran == ["fetch Ada"]


class Reading(BaseModel):
    """A value with values in it."""

    pages: list[Page]
    by_name: dict[str, Decimal]


RESULTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.decimals(allow_nan=False)
    | st.builds(Page, title=st.text(), body=st.text(), price=st.decimals(allow_nan=False, allow_infinity=False))
    | st.builds(Summary, st.text(), st.integers()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.sets(st.integers()),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.proves("EFF-09")
@given(result=RESULTS)
async def test_what_a_step_gets_is_what_the_other_returned(result: Any) -> None:
    claims = ClaimChecking(MemoryContent())

    for over in (0, 1 << 20):
        claimed = await claims.claimed(loom.ClaimCheck(over_bytes=over), result)
        crossed = values.decode(values.loads(values.dumps(values.encode(claimed))))
        got = await claims.get(crossed)

        assert (got, type(got)) == (result, type(result))
        assert crossed == claimed


@pytest.mark.proves("EFF-12")
async def test_a_hundred_envelopes_are_resolved_by_one_call() -> None:
    @loom.step(claim_check=loom.ClaimCheck(over_bytes=0))
    async def part(number: int) -> str:
        return f"part {number}"

    @loom.step
    async def join(step: loom.StepContext, parts: list[loom.Claimed[str]]) -> str:
        return ",".join(await step.content.get_many(parts))

    @loom.flow
    async def joins(ctx: loom.Context) -> str:
        parts = await ctx.map(part, range(100))
        return await ctx.run(join, [*parts, parts[0]])

    content = Watched()
    outcome = await app_of(joins, content=content).runtime.start(joins)

    assert outcome.result() == ",".join(f"part {number}" for number in [*range(100), 0])
    assert content.reads == ["get_many"]


async def test_a_part_of_a_content_is_streamed_and_an_inline_one_too() -> None:
    @loom.step(claim_check=loom.ClaimCheck(over_bytes=100))
    async def read(size: int) -> bytes:
        return bytes(range(256)) * size

    @loom.step
    async def middle(step: loom.StepContext, claimed: loom.Claimed[bytes]) -> bytes:
        return b"".join([piece async for piece in step.content.stream(claimed, start=5, stop=8)])

    @loom.flow
    async def reads(ctx: loom.Context, size: int) -> bytes:
        claimed = await ctx.run(read, size)
        assert (claimed.ref is None) is (size == 0)
        return await ctx.run(middle, claimed)

    app = app_of(reads)

    assert (await app.runtime.start(reads, 9)).result() == bytes([5, 6, 7])
    assert (await app.runtime.start(reads, 0)).result() == b""


async def test_middleware_sees_the_result_itself() -> None:
    results: list[Any] = []

    async def watching(about: loom.EffectContext, given: dict[str, Any], call: Next) -> Any:
        results.append(await call(given))
        return results[-1]

    app = app_of(asks, middleware=[watching])
    await app.runtime.start(asks, 5_000)

    assert [type(result) for result in results] == [Page]


def test_a_claim_check_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidDeclaration, match="over_bytes=-1"):
        loom.ClaimCheck(over_bytes=-1)
    with pytest.raises(InvalidDeclaration, match="is no function"):
        loom.ClaimCheck(digest="title")  # type: ignore[arg-type]


# What goes wrong


class Bare:
    """A store of logs that knows no place for contents."""

    def __init__(self) -> None:
        self._storage = MemoryStorage()

    def __getattr__(self, name: str) -> Any:
        if name == "content_store":
            raise AttributeError(name)
        return getattr(self._storage, name)


async def test_without_a_place_for_contents_the_step_fails_in_words_and_never_runs() -> None:
    app = app_of(asks, storage=Bare())

    outcome = await app.runtime.start(asks, 5)

    assert app.content is None
    assert outcome.failure is not None
    assert "the result of fetch needs a content store" in outcome.failure.message
    assert "define_config(content=" in outcome.failure.message
    assert ran == []


async def test_a_detached_step_reads_what_is_inline_and_refuses_the_rest() -> None:
    detached = loom.StepContext.detached()
    kept: loom.Claimed[Page, None] = loom.Claimed(ref="0" * 64, size=9, form="json", digest=None)
    inline = loom.Claimed(ref=None, size=1, form="json", digest=None, inline=5)

    assert await detached.content.get_many([inline, inline]) == [5, 5]
    assert await detached.content.get(inline) == 5
    with pytest.raises(ContentNotWired, match="the content 0000"):
        await detached.content.get(kept)
    with pytest.raises(ContentNotWired, match=r"step\.content\.stream needs"):
        detached.content.stream(kept)


async def test_a_store_that_cannot_be_written_ends_the_drive_and_no_step_has_failed() -> None:
    content = Watched()
    content.broken.add("put")
    app = app_of(asks, content=content)

    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await app.runtime.start(asks, 5_000, id="r1")
    assert content.calls == ["put"] * 3
    assert [event.type for event in await log_of(app, "r1")] == ["EXECUTION_STARTED", "STEP_STARTED"]
    content.broken.clear()

    outcome = await app.runtime.resume("r1")

    assert outcome.status == "suspended"
    assert ran == ["fetch Ada", "fetch Ada"]


async def test_an_effect_that_must_not_run_twice_is_in_doubt_when_its_result_cannot_be_kept() -> None:
    @loom.step(idempotent=False, claim_check=loom.ClaimCheck(over_bytes=5, digest=len))
    async def pay() -> str:
        ran.append("pay")
        return "receipt " * 10

    @loom.flow
    async def pays(ctx: loom.Context) -> int:
        return (await ctx.run(pay)).digest

    content = Watched()
    content.broken.add("put")
    app = app_of(pays, content=content)
    with pytest.raises(StoreUnavailable):
        await app.runtime.start(pays, id="r1")
    content.broken.clear()

    outcome = await app.runtime.resume("r1")
    assert (outcome.status, ran) == ("in_doubt", ["pay"])

    outcome = await app.runtime.resolve("r1", "pay", "done", value="the receipt, as the bank has it")

    assert (outcome.result(), ran) == (len("the receipt, as the bank has it"), ["pay"])
    assert await all_refs(content) == []  # what a person says stands on the log


async def test_a_digest_is_to_be_small() -> None:
    @loom.step(claim_check=loom.ClaimCheck(digest=lambda text: text))
    async def read() -> str:
        return "x" * 20_000

    @loom.flow
    async def reads(ctx: loom.Context) -> loom.Claimed[str, str]:
        return await ctx.run(read)

    outcome = await app_of(reads).runtime.start(reads)

    assert outcome.failure is not None
    assert "the digest takes 20,002 bytes, more than 16,384" in outcome.failure.message


async def test_a_content_that_is_gone_or_changed_fails_the_step_that_needs_it() -> None:
    content = MemoryContent()
    app = app_of(counts, content=content)

    await app.runtime.start(counts, id="r1")
    [ref] = await all_refs(content)
    content._kept[ref].data = b"something else"
    changed = await app.runtime.resume("r1", answer=None)
    await app.runtime.start(counts, id="r2")
    await content.remove(await content.contents())
    gone = await app.runtime.resume("r2", answer=None)

    assert changed.failure is not None
    assert changed.failure.message.startswith(f"count failed: loom.StoreCorrupt: the content {ref} is not what was put")
    assert gone.failure is not None
    assert gone.failure.message.startswith(f"count failed: loom.ContentMissing: the content {ref} is not there")


@loom.flow
async def counts(ctx: loom.Context) -> int:
    page = await ctx.run(fetch, "Ada", 5_000)
    await ctx.suspend("go on")
    return await ctx.run(count, page)


async def test_a_stream_whose_bytes_have_changed_says_so_at_its_end() -> None:
    content = MemoryContent()
    claims = ClaimChecking(content)
    claimed = await claims.claimed(loom.ClaimCheck(over_bytes=0), b"as it was")
    content._kept[ContentRef(str(claimed.ref))].data = b"as it is now"

    with pytest.raises(StoreCorrupt, match="is not what was put"):
        _ = [piece async for piece in claims.stream(claimed)]
    with pytest.raises(ContentMissing):
        _ = [piece async for piece in claims.stream(loom.Claimed(ref="1" * 64, size=1, form="bytes", digest=None))]


async def test_a_step_that_fails_first_claims_what_it_returns_in_the_end() -> None:
    tries: list[int] = []

    @loom.step(retry=loom.Retry(attempts=3, delay=timedelta(0)), claim_check=loom.ClaimCheck(over_bytes=0))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return "at last"

    @loom.flow
    async def insists(ctx: loom.Context) -> loom.Claimed[str]:
        return await ctx.run(flaky)

    content = MemoryContent()
    outcome = await app_of(insists, content=content).runtime.start(insists)

    assert outcome.result().ref == address_of(b'"at last"')
    assert len(await content.contents()) == 1


async def test_a_plain_function_and_a_tool_that_is_called_by_its_id_claim_too() -> None:
    @loom.tool(claim_check=loom.ClaimCheck(over_bytes=3, digest=len))
    def look_up(name: str) -> str:
        """Look a name up."""
        return name * 3

    @loom.flow
    async def by_id(ctx: loom.Context) -> int:
        claimed = await ctx.execute("look_up", {"name": "Ada"})
        assert claimed.ref is not None
        return int(claimed.digest)

    app = loom.define_config(flows=[by_id], steps=[look_up])

    assert (await app.runtime.start(by_id)).result() == 9


async def test_an_envelope_that_a_record_does_not_hold_whole_ends_the_drive() -> None:
    cases: list[Any] = [
        {"size": "5", "form": "bytes"},
        {"size": 5, "form": "xml"},
        {"ref": "../x", "size": 5, "form": "json"},
    ]
    for broken in cases:
        with pytest.raises(values.RecordUnreadable, match="claimed"):
            values.decode({"$claimed": broken})
