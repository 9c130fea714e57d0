"""One run as one file: it holds all it needs, and nothing of it can be taken for a part of the page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_cli.web import one_file
from loom_cli.web.one_file import data_text, html_of, script_of
from loom_cli.web.page_files import page_files
from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import loom

EVIL = "</script><script>alert(1)</script><!--<script>\u2028"


class Elements(HTMLParser):
    """The elements of a page as a browser takes them, and the text of each script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.texts: dict[str, str] = {}
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self._within = dict(attrs).get("id") or dict(attrs).get("type") or tag if tag in {"script", "style"} else ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.texts[self._within] = self.texts.get(self._within, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


def elements(html: str) -> Elements:
    parser = Elements()
    parser.feed(html)
    return parser


def written(project: Project, run: str) -> tuple[str, Any]:
    """Return the file about *run*, and the data in it."""
    assert loom("inspect", run, "--html", "run.html", folder=project.folder).status == 0
    html = (project.folder / "run.html").read_text("utf-8")
    return html, json.loads(elements(html).texts["run-data"])


@pytest.mark.proves("CLI-11")
def test_it_holds_every_event_and_every_state_of_the_run(project: Project) -> None:
    _, data = written(project, "refund-41")
    events = [json.loads(line) for line in loom("logs", "refund-41", "--json", folder=project.folder).out.splitlines()]

    assert [event["value"] for event in data["events"]] == events
    for n, moment in enumerate(data["moments"]):
        shown = loom("show", "refund-41", "--at", str(n), "--json", folder=project.folder).json
        assert (moment["digest"], moment["status"]) == (shown["digest"], shown["status"])


def test_a_failed_run_is_opened_at_what_it_failed_by_with_what_that_was_asked(project: Project) -> None:
    _, failed = written(project, "broken-1")
    _, done = written(project, "refund-41")
    cause = failed["run"]["cause"]

    assert failed["events"][failed["at"]]["value"]["type"] == "STEP_FAILED"
    assert (cause["end"], cause["args"]["value"]) == (failed["at"], {"n": 99})
    assert failed["events"][cause["start"]]["value"]["payload"]["id"] == cause["id"]
    assert (done["at"], done["run"]["cause"]) == (None, None)


def test_nothing_in_the_data_ends_its_element() -> None:
    html = html_of({"evil": EVIL, EVIL: [EVIL]}, page_files())

    found = elements(html)
    assert json.loads(found.texts["run-data"]) == {"evil": EVIL, EVIL: [EVIL]}
    assert [name for name in found.names if name == "script"] == ["script", "script"]


@given(st.dictionaries(st.text(), st.text()))
def test_data_is_the_same_after_it_stood_in_a_page(data: dict[str, str]) -> None:
    text = data_text(data)

    assert not set(text) & set("<>&")
    assert json.loads(text) == data


def test_its_policy_lets_nothing_run_or_load_but_what_came_with_it(project: Project) -> None:
    html, _ = written(project, "refund-42")
    found = elements(html)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy is not None
    assert f"script-src {hashed(found.texts['module'])};" in policy[1]
    assert f"style-src {hashed(found.texts['style'])};" in policy[1]
    assert policy[1].startswith("default-src 'none'; img-src data:;")
    assert "link" not in found.names[found.names.index("style") :]
    assert not re.search(r'(?:src|href)="(?!data:)', html)


def test_its_modules_stand_after_those_that_they_import_from() -> None:
    script = script_of(page_files())

    defined: set[str] = set()
    for line in script.splitlines():
        used = re.match(r'const \{ .* \} = modules\["([\w.]+)"\];', line)
        assert used is None or used[1] in defined, line
        if found := re.match(r'modules\["([\w.]+)"\] = ', line):
            defined.add(found[1])
    assert "import {" not in script
    assert not re.search(r"^export ", script, re.MULTILINE)
    assert defined >= {name for name in page_files() if name.endswith(".js")} - {"main.js"}


def test_a_run_too_long_for_a_file_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_file, "EVENTS_MAX", 3)

    refused = loom("inspect", "refund-41", "--html", "run.html", folder=project.folder)

    assert refused.status == 2
    assert "error[run-too-long]: refund-41 has 18 events, and a file holds 3 at most" in refused.err
    assert not (project.folder / "run.html").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nobody", "--html", "x.html"], 4, "execution-not-found"),
        (["refund-41", "--html", "none/x.html"], 2, "none/x.html cannot be written: No such file or directory"),
        (["refund-41", "--html", "x.html", "--at", "99"], 2, "there is no event 99"),
        (["--html", "x.html"], 2, "name the run"),
    ],
)
def test_what_cannot_be_written_is_said(project: Project, arguments: list[str], status: int, says: str) -> None:
    refused = loom("inspect", *arguments, folder=project.folder)

    assert (refused.status, refused.out) == (status, "")
    assert says in refused.err


def test_a_file_goes_to_standard_output_too(project: Project) -> None:
    printed = loom("inspect", "refund-41", "--html", "-", folder=project.folder)

    assert printed.out.startswith("<!doctype html>")
    assert printed.err == ""
