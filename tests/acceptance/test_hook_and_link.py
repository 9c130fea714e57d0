"""The whole way of a gate to a person and back: a worker posts it, the link in the post answers it, the run goes on, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loom
from loom.plugins.http import AnswerPages
from loom.plugins.sqlite import SqliteStorage
from loom_cli.web import answer_app
from tests.loom_cli.web.conftest import client
from tests.plugins.http.test_webhook import Desk

SECRET = "a secret of some forty letters, made once"
PAID: list[str] = []


@loom.step(idempotent=False)
async def pay(order: str) -> str:
    PAID.append(order)
    return f"paid {order}"


@loom.flow
async def refund(ctx: loom.Context, order: str) -> str:
    approved = await ctx.suspend("approval", show={"order": order}, expects=bool)
    return await ctx.run(pay, order) if approved else "refused"


@pytest.mark.proves("BEY-08")
async def test_a_gate_is_posted_and_its_link_answers_it_once(tmp_path: Path) -> None:
    PAID.clear()
    desk = Desk()
    try:
        hook = loom.webhook(desk.url, pages=AnswerPages(base="https://desk.example", secret=SECRET, principal="ines"))
        storage: Any = SqliteStorage(tmp_path / "loom.db")
        async with loom.define_config(flows=[refund], storage=storage, gate_hooks={"desk": hook}) as app:
            await app.runtime.enqueue(refund, "A-1", id="r")
            await app.worker(until_idle=True).run()

            url = desk.last["data"]["answer_url"]
            site = answer_app(app, secret=SECRET)
            async with client(site, base="https://desk.example", headers={}) as asker:
                page = await asker.get(url)
                answers = [await asker.post(url, data={"answer": "true"}) for _ in range(3)]
            outcome = await app.runtime.wait("r")

        assert "A-1" in page.text
        assert [answer.status_code for answer in answers] == [200, 409, 409]
        assert (outcome.value, PAID) == ("paid A-1", ["A-1"])
    finally:
        desk.close()
