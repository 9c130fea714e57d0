"""The page of a link: one gate, one answer, as whom the link says; and nothing else can be done or seen with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import loom
from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from loom.services.answer_links import SecretTooShort, signed
from loom_cli.linking import link_for
from loom_cli.web import answer_app
from loom_cli.web.answer_page import SHOWN_MAX, entered_in
from tests.loom_cli.web.conftest import Client, client

SECRET = "a secret of some forty letters, made once"
NOW = 1_000_000
DAY = 86_400_000
HOSTILE = "</pre><script>alert(1)</script>\u202egnp.exe\x1b]52;c;aGk=\x07"


class Place(BaseModel):
    street: str
    number: int


class Approval(BaseModel):
    approved: bool
    amount: float = Field(ge=0, le=100)
    way: Literal["bank", "voucher"] = "bank"
    tags: list[str] = []
    note: str | None = None
    at: Place | None = None


@loom.flow
async def refund(ctx: loom.Context, show: Any) -> dict[str, Any]:
    answer = await ctx.suspend("approval", show=show, expects=Approval)
    return answer.model_dump()


@loom.flow
async def twice(ctx: loom.Context) -> list[bool]:
    return [await ctx.suspend("yes", expects=bool), await ctx.suspend("yes", expects=bool)]


class Desk:
    """An app whose gates are answered by links."""

    def __init__(self, app: loom.LoomApp, told: list[str]) -> None:
        self.app, self.told = app, told
        self.site = answer_app(app, secret=SECRET, now_ms=lambda: NOW, told=told.append)

    async def path(self, run_id: str, *, expires_at: int = NOW + DAY, secret: str = SECRET) -> str:
        row = await self.app.storage.row(ExecutionId(run_id))
        assert row is not None
        state = await self.app.runtime.load_state(run_id)
        link = link_for(state, row.incarnation, None, principal="ines", expires_at=expires_at)
        return f"/answer/{signed(link, secret)}"

    def asker(self) -> Client:
        return client(self.site, base="https://desk.example", headers={})

    async def ended(self, run_id: str) -> Any:
        return (await self.app.runtime.wait(run_id)).value


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    app = loom.define_config(flows=[refund, twice], storage=SqliteStorage(tmp_path / "loom.db"))
    async with app:
        yield Desk(app, [])


async def test_a_link_shows_its_gate_and_takes_the_answer_of_whom_it_was_made_for(desk: Desk) -> None:
    await desk.app.runtime.start(refund, {"order": "A-1"}, id="r")
    path = await desk.path("r")

    async with desk.asker() as asker:
        page = await asker.get(path)
        done = await asker.post(path, data={"answer.approved": "true", "answer.amount": "20", "answer.way": "1"})
        again = await asker.get(path)

    assert page.status_code == 200
    assert "A-1" in page.text
    assert "You answer as ines." in page.text
    assert (done.status_code, "The answer is recorded." in done.text) == (200, True)
    assert (await desk.ended("r"))["way"] == "voucher"
    answered = next(event for event in await desk.app.runtime.events("r") if event.type == "GATE_ANSWERED")
    assert answered.metadata["principal"] == "ines"
    assert (again.status_code, "any more" in again.text) == (409, True)


async def test_all_that_a_form_can_say_arrives_as_it_was_entered(desk: Desk) -> None:
    await desk.app.runtime.start(refund, 1, id="r")
    entered = {
        "answer.approved": "false",
        "answer.amount": "0.5",
        "answer.tags": "a\r\nb\r\n",
        "answer.note": "two\r\nlines",
        "answer.at.street": "Ring",
        "answer.at.number": "7",
    }

    async with desk.asker() as asker:
        await asker.post(await desk.path("r"), data=entered)

    assert await desk.ended("r") == {
        "approved": False,
        "amount": 0.5,
        "way": "bank",
        "tags": ["a", "b"],
        "note": "two\nlines",
        "at": {"street": "Ring", "number": 7},
    }


async def test_a_browser_asks_for_what_is_needed_alone(desk: Desk) -> None:
    await desk.app.runtime.start(refund, 1, id="r")

    async with desk.asker() as asker:
        page = await asker.get(await desk.path("r"))

    inputs = re.findall(r'<(?:input|select|textarea)[^>]*name="answer\.([^"]+)"[^>]*required>', page.text)
    assert inputs == ["approved", "amount"]


async def test_an_answer_that_does_not_fit_is_told_at_its_field_and_changes_nothing(desk: Desk) -> None:
    await desk.app.runtime.start(refund, 1, id="r")
    path, before = await desk.path("r"), await desk.app.runtime.events("r")

    async with desk.asker() as asker:
        refused = await asker.post(path, data={"answer.amount": "500", "answer.note": 'so "much"'})

    assert refused.status_code == 422
    assert refused.text.count('role="alert"') == 2
    assert "at most 100" in refused.text
    assert "so &#34;much&#34;" in refused.text
    assert await desk.app.runtime.events("r") == before


@pytest.mark.parametrize("kind", ["expired", "forged", "changed", "deleted", "reused", "none"])
async def test_a_link_that_does_not_hold_shows_nothing(desk: Desk, kind: str) -> None:
    await desk.app.runtime.start(refund, {"order": "A-1"}, id="r")
    path = await desk.path("r", expires_at=NOW if kind == "expired" else NOW + 1)
    if kind == "forged":
        path = await desk.path("r", secret="x" * 40)
    if kind == "changed":
        path = path.replace(".", "A.")
    if kind == "none":
        path = "/answer/none"
    if kind in {"deleted", "reused"}:
        await desk.app.runtime.cancel("r")
        store: Any = desk.app.storage
        await store.delete([[await store.head(ExecutionId("r"))]])
    if kind == "reused":
        await desk.app.runtime.start(refund, {"order": "A-1"}, id="r")

    async with desk.asker() as asker:
        answers = [await asker.get(path), await asker.post(path, data={"answer.approved": "true"})]

    for answer in answers:
        assert answer.status_code == 403
        assert "This link does not hold" in answer.text
        assert "A-1" not in answer.text


async def test_a_link_is_for_one_gate_and_not_for_the_next_of_its_name(desk: Desk) -> None:
    await desk.app.runtime.start(twice, id="t")
    path = await desk.path("t")

    async with desk.asker() as asker:
        first = await asker.post(path, data={"answer": "true"})
        while (await desk.app.runtime.load_state("t")).status != "suspended":
            await asyncio.sleep(0)
        second = await asker.post(path, data={"answer": "false"})

    assert (first.status_code, second.status_code) == (200, 409)
    assert (await desk.app.runtime.load_state("t")).status == "suspended"


async def test_a_link_of_a_run_does_not_answer_its_fork_and_of_answers_at_once_one_is_taken(desk: Desk) -> None:
    await desk.app.runtime.start(twice, id="t")
    path, at = await desk.path("t"), (await desk.app.runtime.load_state("t")).sequence
    await desk.app.runtime.fork("t", at=at, id="fork")
    await desk.app.runtime.resume("fork")
    before = await desk.app.runtime.load_state("fork")

    async with desk.asker() as asker:
        taken = await asyncio.gather(*(asker.post(path, data={"answer": "true"}) for _ in range(5)))
        changed = await asker.post(path.replace(".", "A."), data={"answer": "true"})

    assert sorted(answer.status_code for answer in taken) == [200, 409, 409, 409, 409]
    assert changed.status_code == 403
    assert await desk.app.runtime.load_state("fork") == before


async def test_to_look_changes_nothing_and_a_flood_is_refused(desk: Desk) -> None:
    await desk.app.runtime.start(refund, 1, id="r")
    path, before = await desk.path("r"), await desk.app.runtime.events("r")

    async with desk.asker() as asker:
        for method in ("GET", "HEAD"):
            assert (await asker.request(method, path)).status_code == 200
        for body in (b"x" * (2 << 20), b"\xff\xfe", b"&".join([b"a=1"] * 1000)):
            assert (await asker.post(path, content=body)).status_code == 400

    assert await desk.app.runtime.events("r") == before


async def test_hostile_text_is_shown_and_not_obeyed(desk: Desk) -> None:
    await desk.app.runtime.start(refund, {HOSTILE: HOSTILE}, id="r")

    async with desk.asker() as asker:
        page = await asker.get(await desk.path("r"))

    assert "<script>" not in page.text
    assert not {"\u202e", "\x1b", "\x07"} & set(page.text)
    assert "&lt;script&gt;" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"


async def test_what_is_shown_at_length_is_cut_and_said_to_be(desk: Desk) -> None:
    await desk.app.runtime.start(refund, "x" * 2 * SHOWN_MAX, id="r")

    async with desk.asker() as asker:
        page = await asker.get(await desk.path("r"))

    assert len(page.text) < SHOWN_MAX + 20_000
    assert "Only the first part is shown here." in page.text


async def test_nothing_else_can_be_asked_for(desk: Desk) -> None:
    async with desk.asker() as asker:
        answers = [await asker.get(path) for path in ("/", "/api/runs", "/static/main.js", "/answer", "/answer/")]

    assert {answer.status_code for answer in answers} == {404}


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(SecretTooShort):
        answer_app(loom.define_config(flows=[twice]), secret="short")


def test_a_field_that_nobody_asked_for_is_not_taken() -> None:
    assert entered_in(b"answer=true&admin=1&answer.x=2", {"type": "boolean"}) == {"": True}
