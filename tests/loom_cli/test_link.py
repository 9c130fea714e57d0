"""`loom link`: a link that only its secret makes, and that a served page takes an answer by."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from loom.services.answer_links import opened
from tests.loom_cli.desk import Running, types
from tests.loom_cli.projects import loom
from tests.loom_cli.test_driving import waiting

SECRET = "a secret of some forty letters, made once"


def test_it_says_where_and_as_whom_a_gate_is_answered(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOM_LINK_SECRET", SECRET)
    waiting(desk)

    done = loom(
        "link", "r1", "--for", "ines", "--base", "https://desk.example/", "--expires", "2h", "--json", folder=desk
    )

    told = json.loads(done.out)
    base, token = told["url"].rsplit("/", 1)
    link = opened(token, SECRET, now_ms=told["expires_at"] - 1)
    assert base == "https://desk.example/answer"
    assert (link.execution_id, link.gate, link.principal) == ("r1", told["gate"], "ines")
    assert link.shown is not None


@pytest.mark.parametrize(
    ("secret", "run", "status", "words"),
    [
        ("", "r1", 2, "LOOM_LINK_SECRET holds no secret"),
        ("short", "r1", 2, "32 are the least"),
        (SECRET, "none", 4, "no execution 'none'"),
        (SECRET, "ended", 2, "waits for no answer"),
    ],
)
def test_what_makes_no_link_is_told_in_words(
    desk: Path, monkeypatch: pytest.MonkeyPatch, secret: str, run: str, status: int, words: str
) -> None:
    monkeypatch.setenv("LOOM_LINK_SECRET", secret)
    waiting(desk)
    loom("run", "hello", "--id", "ended", folder=desk)

    refused = loom("link", run, folder=desk)

    assert (refused.status, refused.out) == (status, "")
    assert words in refused.err
    assert "Traceback" not in refused.err


def test_the_page_that_takes_answers_takes_those_of_links_with_the_same_secret(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOM_LINK_SECRET", SECRET)
    waiting(desk)
    serving = Running(desk, "inspect", "--allow-answers", LOOM_LINK_SECRET=SECRET)
    serving.wait_until_said("Ctrl-C ends it")
    served = urlsplit(serving.next_line().strip())
    base = f"{served.scheme}://{served.netloc}"
    url = loom("link", "r1", "--base", base, folder=desk).out.strip()

    shown = httpx2.get(url)
    done = httpx2.post(url, data={"answer.approved": "true"})
    runs = httpx2.get(f"{base}/api/runs")
    serving.wait_until(lambda: types(desk, "r1")[-1] == "EXECUTION_COMPLETED")
    serving.send(signal.SIGINT)

    assert (shown.status_code, done.status_code, runs.status_code) == (200, 200, 401)
    assert "GATE_ANSWERED" in types(desk, "r1")
    assert serving.ended().status == 0
