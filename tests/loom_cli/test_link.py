"""`loom link`: a link that only its secret makes, and that a served page takes an answer by."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from loom.services.answer_links import opened
from loom_cli.linking import PORT
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


def test_what_is_to_be_typed_to_have_a_secret_lasts_for_the_commands_after_it(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOM_LINK_SECRET", raising=False)
    waiting(desk)

    refused = loom("link", "r1", folder=desk)

    assert "try: export LOOM_LINK_SECRET=$(python -c " in refused.err
    assert "what serves the page has to have the same" in refused.err


def test_a_link_without_a_base_says_what_serves_it_there(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOM_LINK_SECRET", SECRET)
    waiting(desk)

    made = loom("link", "r1", folder=desk)
    elsewhere = loom("link", "r1", "--base", "https://desk.example", folder=desk)

    assert urlsplit(made.out.strip()).port == PORT
    assert f"loom inspect --allow-answers --port {PORT}, with the same LOOM_LINK_SECRET" in made.err
    assert elsewhere.err == ""


def test_the_help_tells_for_how_long_in_the_words_of_the_option(desk: Path) -> None:
    assert "[default: (7d)]" in " ".join(loom("link", "--help", folder=desk).out.split())
