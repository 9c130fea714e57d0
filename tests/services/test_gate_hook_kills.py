"""Workers that are killed while they tell a desk which fails, dawdles and sends elsewhere: each gate is told, each under one id."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.sqlite.processes import ROOT
from tests.services.teller import app_on, ask

PATIENCE_S = 60.0


class OddDesk:
    """A server that takes a part of what is posted; of the rest it refuses some, sends some elsewhere, and lets some wait too long."""

    def __init__(self, seed: int) -> None:
        desk, self._random = self, random.Random(seed)
        self.ids: dict[str, set[str]] = {}
        self.posts = 0
        self.taken = Counter[str]()
        self.has_news = threading.Condition()
        self._is_over = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                with suppress(OSError, ValueError):  # who posts is killed in the middle
                    desk.take(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 512
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def take(self, asked: BaseHTTPRequestHandler, body: bytes) -> None:
        run_id, key = json.loads(body)["data"]["execution_id"], asked.headers["webhook-id"]
        with self.has_news:
            status = self._random.choice([204] * 5 + [500, 302, 0])
            self.posts += 1
            self.ids.setdefault(run_id, set()).add(key)
            self.has_news.notify_all()
        if not status:
            self._is_over.wait(2)
        asked.send_response(status or 204)
        asked.send_header("location", self.url)
        asked.send_header("content-length", "0")
        asked.end_headers()
        with self.has_news:
            self.taken[run_id] += status == 204
            self.has_news.notify_all()

    def has_heard(self, posts: int, gates: int) -> bool:
        """Whether so much was posted by now, or all *gates* were taken."""
        return self.posts >= posts or len(+self.taken) == gates

    def close(self) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def worker(store: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "tests.services.teller", str(store), url], cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def asked(store: Path, count: int) -> None:
    async with app_on(store, None) as app:
        for number in range(count):
            await app.runtime.start(ask, number, id=f"ask-{number}")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_each_gate_is_told_whoever_is_killed_and_under_one_id(seed: int, tmp_path: Path) -> None:
    store, desk, chance = tmp_path / "loom.db", OddDesk(seed), random.Random(seed)
    count, deadline = 20, time.monotonic() + PATIENCE_S
    asyncio.run(asked(store, count))
    try:
        for _ in range(3):
            until = desk.posts + chance.randrange(1, 8)
            with worker(store, desk.url), desk.has_news:
                assert desk.has_news.wait_for(partial(desk.has_heard, until, count), PATIENCE_S)
        with worker(store, desk.url), desk.has_news:
            assert desk.has_news.wait_for(lambda: len(+desk.taken) == count, deadline - time.monotonic())
    finally:
        desk.close()

    assert set(desk.ids) == {f"ask-{number}" for number in range(count)}
    assert all(len(ids) == 1 for ids in desk.ids.values())
    assert len(set.union(*desk.ids.values())) == count
