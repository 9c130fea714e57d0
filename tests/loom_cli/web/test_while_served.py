"""What happens to the store, to who listens and to the host while the page is served, by real processes."""

from __future__ import annotations

import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx2
import pytest

from tests.loom_cli.conftest import Project
from tests.loom_cli.web.test_command import Inspected

LISTENERS = 50
HOST = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from loom.plugins.sqlite import SqliteStorage
from loom_cli.web import inspect_app

storage = SqliteStorage(sys.argv[1], readonly=True)
page = inspect_app(storage, token="a token of some twenty letters", hosts=["127.0.0.1"])
server = uvicorn.Server(uvicorn.Config(Starlette(routes=[Mount("/runs", app=page)]), log_level="error"))
listener = __import__("socket").create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
server.run(sockets=[listener])
"""


@pytest.fixture
def page(project: Project) -> Iterator[Inspected]:
    """The page, served by `loom inspect` in a process."""
    page = Inspected(project.folder)
    yield page
    status, said = page.ended()
    assert (status, len(said.splitlines())) == (0, 1), said


def runs(page: Inspected) -> list[str]:
    return [run["id"] for run in page.client.get("/api/runs").json()["runs"]]


def refusal(page: Inspected, path: str) -> tuple[int, str]:
    answer = page.client.get(path)
    return answer.status_code, answer.json()["error"]["code"]


def test_a_store_that_is_gone_is_said_to_be_and_one_that_is_put_back_is_shown(
    page: Inspected, project: Project
) -> None:
    before = runs(page)
    for file in project.store.parent.glob(f"{project.store.name}*"):
        shutil.move(file, file.with_name(f"away-{file.name}"))

    assert refusal(page, "/api/runs") == (404, "store-not-found")
    assert refusal(page, "/api/run?id=refund-42") == (404, "store-not-found")

    for file in project.store.parent.glob("away-*"):
        shutil.move(file, file.with_name(file.name.removeprefix("away-")))
    assert runs(page) == before


def test_a_store_that_a_newer_loom_has_migrated_is_not_guessed_at(page: Inspected, project: Project) -> None:
    runs(page)
    with closing(sqlite3.connect(project.store)) as raw:
        raw.executescript("CREATE TABLE of_later (a); PRAGMA user_version = 999")

    assert refusal(page, "/api/runs") == (500, "store-newer")


def test_a_run_that_is_deleted_while_it_is_looked_at_is_said_to_be_gone(page: Inspected, project: Project) -> None:
    assert page.client.get("/api/run/state?id=refund-42&n=1").status_code == 200
    with page.client.stream("GET", "/api/live?run=refund-42&after=1", timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: hello"
        assert next(line for line in lines if line.startswith("id: ")) != ""
        with closing(sqlite3.connect(project.store)) as raw, raw:
            raw.execute("DELETE FROM events WHERE run = (SELECT run FROM executions WHERE id = 'refund-42')")
            raw.execute("DELETE FROM executions WHERE id = 'refund-42'")

        assert next(line for line in lines if line == "event: runs")
        assert refusal(page, "/api/run?id=refund-42") == (404, "execution-not-found")
        assert refusal(page, "/api/run/state?id=refund-42&n=1") == (404, "execution-not-found")
        assert "refund-42" not in runs(page)


def test_many_who_listen_and_do_not_read_keep_nobody_from_being_answered(page: Inspected) -> None:
    before = runs(page)
    host, _, port = page.base.removeprefix("http://").partition(":")
    asked = (
        f"GET /api/live?run=refund-42&after=-1 HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {page.token}\r\n\r\n"
    )
    with ExitStack() as open_:
        idle = [open_.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(LISTENERS)]
        for listener in idle:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            listener.sendall(asked.encode())
        assert {listener.recv(12) for listener in idle} == {b"HTTP/1.1 200"}

        assert runs(page) == before
        for listener in idle[::2]:
            listener.close()
        assert page.client.get("/api/run/state?id=refund-42&n=1").status_code == 200


def test_a_host_that_is_told_to_end_is_not_kept_by_who_listens_to_the_page_it_has_mounted(project: Project) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(project.store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert host.stdout is not None
        base = f"http://127.0.0.1:{host.stdout.readline().strip()}/runs"
        headers = {"authorization": "Bearer a token of some twenty letters"}
        with (
            httpx2.Client(headers=headers, timeout=30) as client,
            client.stream("GET", f"{base}/api/live?run=refund-42") as stream,
        ):
            assert next(stream.iter_lines()) == "event: hello"
            host.send_signal(signal.SIGTERM)
            assert host.wait(timeout=20) in (0, -signal.SIGTERM)
    finally:
        host.kill()
        host.communicate()
