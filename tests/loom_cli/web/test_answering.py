"""Answers from the page: checked like those of the command, recorded once, and driven on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from starlette.routing import Route

import loom
from loom.app.config import LoomApp
from loom.core.ids import ExecutionId
from loom.driving.reading import read_log
from loom.spi.memory import MemoryStorage
from loom_cli.web import inspect_app
from tests.loom_cli.web.conftest import TOKEN, Client, client
from tests.loom_cli.web.desk import app_on, refund, reminder, tell

RUN = "refund-A-1042"


class Desk(NamedTuple):
    """The desk's app and a client of the page that takes answers for it."""

    app: LoomApp
    asker: Client

    async def gate(self, run: str = RUN) -> dict[str, Any]:
        [gate] = (await self.asker.get("/api/run", params={"id": run})).json()["gates"]
        return dict(gate)

    async def types(self, run: str = RUN) -> list[str]:
        return [event.type for event in await read_log(self.app.storage, ExecutionId(run))]

    async def answer(self, body: Any, run: str = RUN, **headers: str) -> Any:
        return await self.asker.post("/api/run/answer", params={"id": run}, json=body, headers=headers)


class NoEve:
    """Eve may do nothing."""

    async def authorize(self, principal: str | None, action: str, execution_id: str, flow: str) -> str | None:
        return "eve may do nothing" if principal == "eve" else None


async def desk_for(principal: str) -> AsyncIterator[Desk]:
    storage = MemoryStorage()
    await tell(storage)
    app = app_on(storage) if principal != "eve" else None
    app = app or loom.define_config(flows=[refund, reminder], storage=storage, authorizer=NoEve())
    site = inspect_app(storage, token=TOKEN, answers=app, principal=principal)
    async with app, client(site) as asker:
        yield Desk(app, asker)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async for each in desk_for("cleo"):
        yield each


async def test_the_form_of_a_gate_is_made_of_what_it_expects(desk: Desk) -> None:
    gate = await desk.gate()

    assert [(field["path"], field["kind"]) for field in gate["form"]["fields"]] == [
        ("approved", "boolean"),
        ("amount", "number"),
        ("way", "choice"),
        ("note", "area"),
    ]
    assert gate["show"]["value"]["claim"]["order"] == "A-1042"


async def test_an_answer_is_recorded_for_the_principal_and_drives_the_run_on(desk: Desk) -> None:
    gate = await desk.gate()
    entered = {"approved": True, "amount": "120", "way": "1", "note": ""}

    told = await desk.answer({"gate": gate["gate"], "shown": gate["shown"], "entered": entered})
    outcome = await desk.app.runtime.wait(RUN)

    assert told.json() == {"recorded": True, "by": "cleo", "driven_here": True}
    assert (outcome.status, outcome.value) == ("completed", "R-A-1042")
    [answered] = [e for e in await read_log(desk.app.storage, ExecutionId(RUN)) if e.type == "GATE_ANSWERED"]
    assert answered.metadata["principal"] == "cleo"
    assert answered.payload.answer["approved"] is True


async def test_a_script_answers_with_json(desk: Desk) -> None:
    told = await desk.answer({"gate": "approval", "answer": {"approved": False, "amount": 1}})

    assert told.status_code == 200
    assert (await desk.app.runtime.wait(RUN)).value == "refused"


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ({"entered": {"approved": None, "amount": "x"}}, {"approved", "amount"}),
        ({"entered": {"approved": True, "amount": "1001"}}, {"amount"}),
        ({"entered": {"approved": True, "amount": "1", "note": "n" * 301}}, {"note"}),
        ({"answer": {"approved": True, "amount": 1001}}, {"amount"}),
        ({"answer": {"approved": True}}, {"amount"}),
        ({"answer": {"approved": True, "amount": 1, "amuont": 2}}, {"amuont"}),
        ({"answer": "no object"}, {""}),
        ({}, {""}),
        ({"answer": 1, "entered": {}}, {""}),
        ({"entered": ["approved"]}, {""}),
        ({"answer": 1, "shown": 7}, {""}),
    ],
)
async def test_a_refused_answer_is_told_at_its_field_and_changes_nothing(
    desk: Desk, body: dict[str, Any], problems: set[str]
) -> None:
    before = await desk.types()

    refused = await desk.answer({"gate": "approval", **body})

    assert refused.status_code == 422
    assert set(refused.json()["error"]["problems"]) == problems
    assert await desk.types() == before


@pytest.mark.parametrize(
    ("run", "body", "status", "code"),
    [
        (RUN, {"gate": "approval", "shown": "of-what-was-there-before", "answer": 1}, 409, "approval-mismatch"),
        (RUN, {"gate": "another", "answer": 1}, 409, "gate-not-open"),
        ("refund-A-1038", {"gate": "approval", "answer": 1}, 409, "already-answered"),
        ("nobody", {"gate": "approval", "answer": 1}, 404, "execution-not-found"),
        (RUN, None, 422, "answer-refused"),
        (RUN, [], 422, "answer-refused"),
    ],
)
async def test_an_answer_to_what_does_not_wait_is_refused(
    desk: Desk, run: str, body: Any, status: int, code: str
) -> None:
    before = await desk.types()

    refused = await desk.answer(body, run)

    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert await desk.types() == before


async def test_an_answer_larger_than_any_answer_is_refused(desk: Desk) -> None:
    refused = await desk.answer({"gate": "approval", "answer": "x" * (2 << 20)})

    assert refused.status_code == 422
    assert (await desk.gate())["gate"] == "approval"


async def test_who_may_not_answer_is_told_so() -> None:
    async for desk in desk_for("eve"):
        refused = await desk.answer({"gate": "approval", "answer": {"approved": True, "amount": 1}})

        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "denied")
        assert (await desk.gate())["gate"] == "approval"


async def test_an_answer_needs_the_page_s_origin_and_its_csrf_token_unless_a_script_brings_the_token(
    desk: Desk,
) -> None:
    body, ours = {"gate": "approval", "answer": {"approved": True, "amount": 1}}, "http://127.0.0.1:8000"
    csrf = (await desk.asker.get("/api/about")).json()["csrf"]

    foreign = await desk.answer(body, origin="http://127.0.0.1:9999", **{"x-loom-csrf": csrf})
    stale = await desk.answer(body, origin=ours, **{"x-loom-csrf": "of another process"})
    fine = await desk.answer(body, origin=ours, **{"x-loom-csrf": csrf})

    assert (foreign.status_code, stale.status_code, fine.status_code) == (403, 403, 200)


async def test_the_one_route_that_changes_something_is_that_of_answers(desk: Desk) -> None:
    site = inspect_app(MemoryStorage(), token=TOKEN, answers=app_on(MemoryStorage()))
    writing = [route.path for route in site.routes if isinstance(route, Route) and "POST" in (route.methods or ())]

    assert writing == ["/api/run/answer"]


async def test_two_who_answer_at_once_count_once(desk: Desk) -> None:
    import asyncio

    body = {"gate": "approval", "answer": {"approved": True, "amount": 1}}

    answers = await asyncio.gather(desk.answer(body), desk.answer(body))

    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert (await desk.types()).count("GATE_ANSWERED") == 1
