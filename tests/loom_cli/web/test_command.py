"""`loom inspect` as a process: it serves, answers, refuses what it must not do, and ends quietly."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from loom_cli.web.serving import is_loopback, link_of, listening
from tests.loom_cli.conftest import Project
from tests.loom_cli.desk import Running, state, types
from tests.loom_cli.projects import loom, python


class Inspected:
    """A page that a process serves, as a script asks it."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.running = Running(folder, "inspect", *arguments, **environment)
        self.running.wait_until_said("Ctrl-C ends it")
        self.link = self._link()
        self.base, _, self.token = self.link.partition("/?token=")
        self.client = httpx2.Client(
            base_url=self.base, headers={"authorization": f"Bearer {self.token.partition('#')[0]}"}
        )

    def _link(self) -> str:
        out = self.running._process.stdout
        assert out is not None
        return out.readline().strip()

    def ended(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Stop it as a person or a supervisor does; return its status and what it has said."""
        self.client.close()
        self.running.send(number)
        done = self.running.ended()
        return done.status, done.err


@pytest.mark.proves("CLI-11")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_what_the_store_holds_and_ends_quietly_also_while_somebody_listens(
    project: Project, number: signal.Signals
) -> None:
    page = Inspected(project.folder, "refund-41", "--at", "2")

    assert page.link.endswith("#/run/refund-41/2")
    assert page.link.startswith("http://127.0.0.1:")
    assert [run["id"] for run in page.client.get("/api/runs").json()["runs"]][-1] == "refund-41"
    assert page.client.get("/api/about").json()["answers"] is False
    with page.client.stream("GET", "/api/live?run=refund-42") as stream:
        assert next(stream.iter_lines()) == "event: hello"
        page.running.send(number)
        done = page.running.ended()
    assert done.status == 0
    assert len(done.err.splitlines()) == 1
    assert "inspecting sqlite:" in done.err
    assert "read-only" in done.err


@pytest.mark.proves("CLI-11")
def test_with_leave_an_answer_drives_the_run_on(desk: Path) -> None:
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk).status == 3
    page = Inspected(desk, "--allow-answers", "--as", "cleo")

    told = page.client.post("/api/run/answer?id=r1", json={"gate": "approval", "answer": {"approved": True}})
    page.running.wait_until(lambda: types(desk, "r1")[-1] == "EXECUTION_COMPLETED")

    assert told.json() == {"recorded": True, "by": "cleo", "driven_here": True}
    assert state(desk, "r1").facts.result == {"paid": "R-1"}
    assert page.ended()[0] == 0


def test_without_leave_it_works_when_the_code_is_broken_and_with_it_says_so(desk: Path) -> None:
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk).status == 3
    (desk / "app.py").write_text("raise ValueError('broken')")

    page = Inspected(desk)
    refused = python("-m", "loom_cli", "inspect", "--allow-answers", folder=desk)

    assert page.client.get("/api/run?id=r1").json()["status"] == "suspended"
    assert page.ended()[0] == 0
    assert refused.status == 2
    assert "error[app-not-importable]" in refused.err


def test_a_page_about_another_store_than_the_app_s_takes_no_answers(desk: Path, project: Project) -> None:
    assert loom("run", "hello", folder=desk).status == 0
    (desk / "app.py").write_text(
        "import loom\n\napp = loom.define_config(storage=loom.sqlite_storage('elsewhere.db'))\n"
    )

    refused = python("-m", "loom_cli", "inspect", "--allow-answers", folder=desk)

    assert refused.status == 2
    assert "error[store-not-the-apps]" in refused.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_an_address_that_others_reach_is_refused_unless_that_is_meant(project: Project, host: str) -> None:
    refused = loom("inspect", "--host", host, folder=project.folder)

    assert refused.status == 2
    assert f"error[usage]: {host} can be reached from other machines\n" in refused.err
    assert "--expose" in refused.err


@pytest.mark.parametrize(
    ("host", "is_so"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("evil", False)],
)
def test_which_addresses_are_this_machine_s_alone(host: str, is_so: bool) -> None:
    assert is_loopback(host) is is_so


def test_a_port_that_is_taken_is_said_to_be_taken(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        refused = loom("inspect", "--port", str(port), folder=project.folder)

    assert refused.status == 2
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use" in refused.err
    assert "try: Leave --port off" in refused.err


def test_a_link_names_an_address_of_either_kind() -> None:
    with listening("127.0.0.1", 0) as four:
        assert link_of(four, "t") == f"http://127.0.0.1:{four.getsockname()[1]}/?token=t"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nobody"], 4, "execution-not-found"),
        (["refund-4"], 2, "execution-ambiguous"),
        (["--json"], 2, "name the run"),
        (["--at", "3"], 2, "name the run"),
    ],
)
def test_what_it_cannot_show_is_said_at_once(project: Project, arguments: list[str], status: int, says: str) -> None:
    refused = loom("inspect", *arguments, folder=project.folder)

    assert refused.status == status
    assert says in refused.err


def test_it_opens_itself_in_the_browser_that_the_system_names(project: Project) -> None:
    browser = project.folder / "browser.py"
    browser.write_text("import pathlib, sys\npathlib.Path('opened').write_text(sys.argv[1])\n")

    page = Inspected(project.folder, "--open", BROWSER=f"{sys.executable} {browser} %s")
    page.running.wait_until((project.folder / "opened").exists)
    page.running.wait_until(lambda: (project.folder / "opened").read_text() == page.link)

    assert page.ended()[0] == 0


def test_where_there_is_no_store_it_says_so(tmp_path: Path) -> None:
    assert loom("inspect", folder=tmp_path).status == 4


def test_without_the_extra_it_says_how_to_install_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "uvicorn" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)

    refused = loom("inspect", folder=project.folder)

    assert refused.status == 2
    assert "error[usage]: the page needs uvicorn, which is not installed\n" in refused.err
    assert "pip install 'loom-runtime[serve]'" in refused.err
    assert loom("inspect", "refund-41", "--json", folder=project.folder).status == 0
    assert loom("inspect", "refund-41", "--html", "a.html", folder=project.folder).status == 0


def test_the_parts_of_the_command_that_serve_nothing_import_no_server(project: Project) -> None:
    code = "import sys; from loom_cli.main import main; main(['inspect', 'refund-41', '--html', 'a.html']); print(*sys.modules)"

    done = python("-c", code, folder=project.folder)

    assert not {"starlette", "uvicorn", "sse_starlette"} & set(done.out.split())


async def test_a_browser_that_was_cut_off_is_sent_what_it_missed(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk)
    page = await asyncio.to_thread(Inspected, desk)

    def events(**headers: str) -> list[str]:
        with page.client.stream("GET", "/api/live?run=r1&after=2", headers=headers) as stream:
            lines = stream.iter_lines()
            return [next(lines) for _ in range(7)]

    first = await asyncio.to_thread(events)
    again = await asyncio.to_thread(events, **{"last-event-id": "3"})
    odd = [await asyncio.to_thread(events, **{"last-event-id": last}) for last in ("9" * 30, "9" * 5000, "1.5")]
    await asyncio.to_thread(page.ended)

    assert "id: 4" in first
    assert odd == [first] * 3
    assert '"n":3' in next(line for line in first if line.startswith('data: {"start"'))
    assert '"n":3' not in next(line for line in again if line.startswith('data: {"start"'))
