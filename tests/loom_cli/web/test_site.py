"""The page as a server: who gets in, what can be asked, and that nothing can be changed unless that was allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from loom.driving.run_reader import RunReader
from loom.plugins.sqlite import SqliteStorage
from loom_cli.web import inspect_app
from loom_cli.web.page_files import page_files
from loom_cli.web.site import HEADERS
from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import Ended, loom
from tests.loom_cli.web.conftest import BEARER, TOKEN, Asking, client

READING = {"GET", "HEAD"}


def methods(site: Starlette) -> set[str]:
    return {method for route in site.routes if isinstance(route, Route) for method in route.methods or ()}


@pytest.mark.proves("CLI-11")
async def test_no_write_route_exists_unless_answers_are_allowed(project: Project) -> None:
    storage = SqliteStorage(project.store, readonly=True)
    site = inspect_app(storage, token=TOKEN)

    assert methods(site) == READING
    async with client(site) as asker:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for path in ("/api/run/answer?id=refund-42", "/api/run?id=refund-42", "/"):
                refused = await asker.request(method, path, json={"gate": "approval", "shown": None, "answer": True})
                assert refused.status_code in {404, 405}, (method, path)
    await storage.close()


async def test_every_answer_has_the_headers_that_keep_the_page_to_itself(asking: Asking) -> None:
    async with asking() as asker:
        answers = [
            await asker.get(path) for path in ("/", "/static/main.js", "/api/runs", "/api/run?id=no", "/nowhere")
        ]

    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "script-src 'self'" in HEADERS["content-security-policy"]
    assert "unsafe" not in HEADERS["content-security-policy"]


async def test_who_has_no_token_sees_nothing_not_even_a_file(asking: Asking) -> None:
    async with asking(headers={}) as asker:
        answers = [await asker.get(path) for path in ("/", "/static/main.js", "/api/runs", "/api/live")]
        told = await asker.get("/", headers={"accept": "text/html"})

    assert {answer.status_code for answer in answers} == {401}
    assert "Open the link that `loom inspect` printed." in told.text


async def test_the_link_leaves_a_cookie_that_the_rest_is_asked_with(asking: Asking) -> None:
    async with asking(headers={}) as asker:
        page = await asker.get(f"/?token={TOKEN}")
        runs = await asker.get("/api/runs")

    assert page.status_code == 200
    assert TOKEN not in page.text
    assert runs.status_code == 200


async def test_a_rebound_name_and_a_foreign_page_are_refused(asking: Asking) -> None:
    async with asking() as asker:
        rebound = await asker.get("/api/runs", headers={"host": "evil.example"})
        foreign = await asker.get("/api/runs", headers={"sec-fetch-site": "cross-site"})

    assert (rebound.status_code, foreign.status_code) == (421, 403)
    assert rebound.json()["error"]["code"] == "wrong-host"


@pytest.mark.parametrize(
    "name",
    [
        "../site.py",
        "..%2fsite.py",
        "%2e%2e/access.py",
        "..%5caccess.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "page.css/../../site.py",
        "__init__.py",
        "index.html%00.js",
        "",
    ],
)
async def test_no_name_leads_out_of_the_files_of_the_page(asking: Asking, name: str) -> None:
    async with asking() as asker:
        found = await asker.get(f"/static/{name}")

    assert found.status_code == 404


async def test_the_files_of_the_page_name_nothing_outside_it(asking: Asking) -> None:
    """It works offline: there is no address of another server in it, and nothing is loaded from one."""
    for name, text in page_files().items():
        addresses = [word for word in ("http://", "https://", "//cdn", "@import", "url(") if word in text]
        assert addresses == (["http://"] if name in {"icon.svg", "dom.js"} else []), name  # the name of SVG
    assert "http://www.w3.org/2000/svg" in page_files()["dom.js"]


FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "DOMParser",
    "srcdoc",
)


def test_the_script_of_the_page_parses_no_text_as_html_or_code() -> None:
    found = [
        (name, word)
        for name, text in page_files().items()
        if name.endswith(".js")
        for word in FORBIDDEN
        if word in text
    ]

    assert found == []


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/run?id=nobody", 404, "execution-not-found"),
        ("/api/run?id=", 404, "invalid-id"),
        ("/api/run?id=refund", 409, "execution-ambiguous"),
        ("/api/run/moment?id=refund-41&n=99", 404, "not-there"),
        ("/api/run/moment?id=refund-41&n=-7", 404, "not-there"),
        ("/api/run/moment?id=refund-41&n=99999999999999999999999", 404, "not-there"),
        ("/api/run/state?id=refund-41&n=99", 404, "not-there"),
        ("/api/run/whole?id=refund-41&at=99", 404, "not-there"),
        ('/api/run/value?id=refund-41&n=1&path=["payload","no"]', 404, "not-there"),
        ("/api/run/value?id=refund-41&n=1&path={}", 404, "not-there"),
        ("/api/run/value?id=refund-41&n=1&path=[", 404, "not-there"),
        (f"/api/run/value?id=refund-41&n=1&path={'[' * 5000}", 404, "not-there"),
        (f"/api/run/value?id=refund-41&n=1&base={'[' * 5000}", 404, "not-there"),
        ("/api/run/call?id=refund-41&n=3&start=0", 404, "not-there"),
        ("/api/run/found?id=refund-41&search=is:odd", 404, "not-there"),
        ("/api/runs?search=status%3Dodd", 400, "where-invalid"),
        ("/api/runs?before=no", 400, "usage"),
        ("/api/live?run=nobody", 404, "execution-not-found"),
    ],
)
async def test_what_is_not_there_is_refused_in_words(asking: Asking, path: str, status: int, code: str) -> None:
    async with asking() as asker:
        refused = await asker.get(path)

    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert refused.json()["error"]["message"]


async def said(project: Project, *arguments: str) -> Ended:
    """Return what a command says, which has an event loop of its own."""
    return await asyncio.to_thread(loom, *arguments, "--json", folder=project.folder)


@pytest.mark.proves("CLI-11", "GOV-05")
@pytest.mark.parametrize("run", ["refund-41", "refund-42", "broken-1", "payout-1", "nap-1"])
async def test_the_state_at_every_event_is_that_of_loom_show(asking: Asking, project: Project, run: str) -> None:
    async with asking() as asker:
        last = (await asker.get(f"/api/run?id={run}")).json()["last"]
        for n in range(last + 1):
            shown = (await said(project, "show", run, "--at", str(n))).json

            assert (await asker.get(f"/api/run/whole?id={run}&at={n}")).json() == shown
            assert (await asker.get(f"/api/run/state?id={run}&n={n}")).json()["digest"] == shown["digest"]
        now = (await asker.get(f"/api/run/whole?id={run}")).json()

    assert now == (await said(project, "show", run)).json


@pytest.mark.proves("CLI-11")
def test_the_command_prints_what_loom_show_prints(project: Project) -> None:
    for at in ([], ["--at", "3"]):
        printed = loom("inspect", "refund-41", *at, "--json", folder=project.folder)

        assert printed.out == loom("show", "refund-41", *at, "--json", folder=project.folder).out
    assert loom("inspect", "refund-41", "--at", "99", "--json", folder=project.folder).status == 2


async def test_the_list_is_that_of_loom_ps_page_by_page(asking: Asking, project: Project) -> None:
    listed = (await said(project, "ps")).json

    async with asking() as asker:
        first = (await asker.get("/api/runs?limit=2")).json()
        then = (await asker.get("/api/runs", params={"limit": 50, "before": first["more"]})).json()

    assert first["runs"] + then["runs"] == listed
    assert then["more"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "fund-42"}, ["refund-42"]),
        ({"search": "payout"}, ["payout-1"]),
        ({"search": "status=failed"}, ["broken-1"]),
        ({"search": 'attr.customer="c7" and status=completed'}, ["refund-41"]),
        ({"gates": "1"}, ["payout-1", "refund-42"]),
        ({"status": ["failed", "completed"]}, ["broken-1", "refund-41"]),
        ({"search": "nothing-like-it"}, []),
    ],
)
async def test_runs_are_searched_by_words_and_conditions(
    asking: Asking, query: dict[str, Any], found: list[str]
) -> None:
    async with asking() as asker:
        told = (await asker.get("/api/runs", params=query)).json()

    assert [run["id"] for run in told["runs"]] == found


@pytest.mark.parametrize(("words", "without"), [("-79.55", ""), ("-is:run", " without is:run")])
async def test_a_search_of_events_says_what_must_not_be_there(asking: Asking, words: str, without: str) -> None:
    async with asking() as asker:
        told = (await asker.get("/api/run/found", params={"id": "refund-41", "search": words})).json()

    assert told["without"] == without


async def test_it_is_mounted_in_any_app(project: Project) -> None:
    storage = SqliteStorage(project.store, readonly=True)
    site = inspect_app(storage, token=TOKEN, hosts=["admin.example"])
    outer = Starlette(routes=[Mount("/looms", app=site)])

    async with client(outer, base="https://admin.example", headers={}) as asker:
        page = await asker.get(f"/looms/?token={TOKEN}")
        runs = await asker.get("/looms/api/runs")
        script = await asker.get("/looms/static/main.js")

    assert "Path=/looms;" in page.headers["set-cookie"]
    assert (page.status_code, runs.status_code, script.status_code) == (200, 200, 200)
    await storage.close()


def test_a_token_that_keeps_nobody_out_is_refused() -> None:
    with pytest.raises(ValueError, match="16 characters"):
        inspect_app(SqliteStorage("none.db"), token="short")


READS = {name for name in dir(RunReader) if not name.startswith("_")} | {
    "snapshots",
    "latest_snapshot",
    "forks_of",
    "source_of",
    "refs",
    "admissions",
}


class Untouchable:
    """A store of which only what reads may be called."""

    def __init__(self, store: SqliteStorage) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return found if name in READS or not callable(found) else self._refuse(name)

    def _refuse(self, name: str) -> Any:
        def refused(*_: Any, **__: Any) -> Any:
            raise AssertionError(f"{name} was called")

        return refused


@pytest.mark.proves("GOV-05")
async def test_no_request_touches_anything_of_the_store_that_writes(project: Project) -> None:
    storage = SqliteStorage(project.store)
    store: Any = Untouchable(storage)
    paths = [
        "/api/about",
        "/api/runs",
        "/api/runs?search=refund&status=failed",
        *(
            f"/api/run{what}"
            for what in (
                "?id=refund-41",
                "/lines?id=refund-41",
                "/found?id=refund-41&search=fetch",
                "/timeline?id=refund-41",
                "/moment?id=refund-41&n=4",
                "/state?id=refund-41&n=4",
                "/whole?id=refund-41",
                "/value?id=refund-41&n=0&path=[]",
                "/call?id=refund-41&n=9&start=1",
                "/branches?id=refund-41",
            )
        ),
    ]
    assert not READS & {"append", "insert", "claim", "renew", "leave", "release"}

    async with client(inspect_app(store, token=TOKEN), headers=BEARER) as asker:
        answers = {path: (await asker.get(path)).status_code for path in paths}

    assert set(answers.values()) == {200}, answers
    await storage.close()
