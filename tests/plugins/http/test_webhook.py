"""The web hook: what it posts, how the other side knows who it is from, and what becomes of a post that is not taken."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.core.views import OpenGate
from loom.devtools.conformance.gate_hook import GateHookConformance
from loom.plugins.http import AnswerPages, WebHook, WebHookFailed, webhook
from loom.plugins.http.webhook import SHOWN_MAX, posted
from loom.services.answer_links import opened
from loom.spi.gate_hook import GateNotice

GATE = OpenGate("approval", 3, 1_000, "approval", show={"amount": 7}, shown="d", schema={"type": "boolean"})
DOUBT = OpenGate("pay", 5, 2_000, "pay", in_doubt=True, show={"to": "ada"}, reason="the driver was lost")
SECRET = "a secret that nobody guesses, of 40 signs"


def notice(gate: OpenGate = GATE) -> GateNotice:
    return GateNotice("key-1", 3_000, ExecutionId("refund-42"), Incarnation(2), "refund", gate)


class Desk:
    """A server that takes posts, and answers with *status*."""

    def __init__(self) -> None:
        desk = self
        self.status = 204
        self.posts: list[tuple[dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                desk.posts.append((dict(self.headers.items()), body))
                self.send_response(desk.status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    @property
    def last(self) -> Any:
        """What was posted last."""
        return json.loads(self.posts[-1][1])

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


class TestWebHookConformance(GateHookConformance):
    @pytest.fixture
    def gate_hook(self, desk: Desk) -> WebHook:
        return webhook(desk.url)


async def test_it_posts_what_waits(desk: Desk) -> None:
    await webhook(desk.url).tell(notice())

    [(headers, body)] = desk.posts
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == "key-1"
    assert "webhook-signature" not in headers
    assert json.loads(body) == {
        "type": "gate.opened",
        "timestamp": 3_000,
        "data": {
            "execution_id": "refund-42",
            "flow": "refund",
            "gate": "approval",
            "label": "approval",
            "in_doubt": False,
            "opened_at": 1_000,
            "due_at": None,
            "shown": "d",
            "show": {"amount": 7},
            "show_omitted": False,
            "schema": {"type": "boolean"},
            "reason": None,
            "answer_url": None,
        },
    }


@pytest.mark.parametrize(
    ("secret", "key"),
    [(SECRET, SECRET.encode()), (f"whsec_{base64.b64encode(b'k' * 24).decode()}", b"k" * 24)],
)
async def test_the_other_side_can_check_who_it_is_from(desk: Desk, secret: str, key: bytes) -> None:
    await webhook(desk.url, secret=secret).tell(notice())

    [(headers, body)] = desk.posts
    mac = hmac.new(key, b"key-1.3." + body, hashlib.sha256).digest()
    assert headers["webhook-timestamp"] == "3"
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(mac).decode()}"


@pytest.mark.parametrize("status", [302, 404, 410, 500])
async def test_what_is_not_taken_is_told_and_not_taken_elsewhere(desk: Desk, status: int) -> None:
    desk.status = status

    with pytest.raises(WebHookFailed, match=str(status)):
        await webhook(desk.url).tell(notice())
    assert len(desk.posts) == 1


async def test_nobody_there_is_told_in_words(desk: Desk) -> None:
    desk.close()

    with pytest.raises(WebHookFailed, match=desk.url):
        await webhook(desk.url, timeout=timedelta(seconds=5)).tell(notice())


def test_an_effect_in_doubt_is_told_as_one_and_has_no_page() -> None:
    pages = AnswerPages(base="https://desk.example", secret=SECRET)
    said = posted(notice(DOUBT), pages.link(notice(DOUBT)))

    assert said["type"] == "gate.doubted"
    assert said["data"]["reason"] == "the driver was lost"
    assert said["data"]["answer_url"] is None


def test_what_is_shown_at_length_is_left_to_the_page() -> None:
    said = posted(notice(GATE._replace(show="x" * SHOWN_MAX)), None)

    assert (said["data"]["show"], said["data"]["show_omitted"]) == (None, True)


@asynccontextmanager
async def answering(first: bytes, for_ever: bytes) -> AsyncIterator[str]:
    """Be the other side, which says *first*, and then *for_ever* as often as it is listened to; yield its URL."""

    heard, over = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set()
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while not writer.is_closing():
                writer.write(for_ever)
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        if heard.is_set():  # who asks may have given up before
            await over.wait()


async def test_who_answers_bit_by_bit_and_never_to_the_end_has_not_answered() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a") as url:
        with pytest.raises(WebHookFailed, match="did not answer within"):
            await webhook(url, timeout=timedelta(seconds=0.2)).tell(notice())


async def test_who_says_yes_and_then_goes_on_for_ever_was_told() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"3\r\nyes\r\n") as url:
        await webhook(url, timeout=timedelta(seconds=5)).tell(notice())


async def test_it_says_where_the_gate_can_be_answered(desk: Desk) -> None:
    pages = AnswerPages(base="https://desk.example/", secret=SECRET, expires=timedelta(hours=1), principal="mail")
    await webhook(desk.url, pages=pages).tell(notice())

    url = json.loads(desk.posts[0][1])["data"]["answer_url"]
    base, token = url.rsplit("/", 1)
    assert base == "https://desk.example/answer"
    assert opened(token, SECRET, now_ms=3_000) == ("refund-42", 2, "approval", 3, "d", "mail", 3_603_000)


@pytest.mark.parametrize("url", ["desk", "ftp://desk.example", "https://", "http://desk.example/hook"])
def test_an_address_that_cannot_be_posted_to_safely_is_refused(url: str) -> None:
    with pytest.raises(InvalidDeclaration, match="webhook"):
        webhook(url)


def test_secrets_are_in_no_text_of_it() -> None:
    hook = webhook("https://desk.example", secret=SECRET, pages=AnswerPages(base="https://p", secret=SECRET))

    assert SECRET not in repr(hook)


@loom.flow
async def leave(ctx: loom.Context, days: int) -> bool:
    return await ctx.suspend("boss", show={"days": days}, expects=bool)


async def test_a_gate_of_an_app_is_posted_by_its_worker_and_no_secret_is_on_the_log(desk: Desk, tmp_path: Path) -> None:
    storage = loom.sqlite_storage(tmp_path / "loom.db")
    hook = webhook(desk.url, secret=SECRET, pages=AnswerPages(base=desk.url, secret=SECRET))
    async with loom.define_config(flows=[leave], storage=storage, gate_hooks={"desk": hook}) as app:
        await app.runtime.start(leave, 3, id="l")
        await app.worker(until_idle=True).run()

    [(_, body)] = desk.posts
    assert json.loads(body)["data"]["show"] == {"days": 3}
    assert SECRET.encode() not in (tmp_path / "loom.db").read_bytes()
