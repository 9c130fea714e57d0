"""The page served in a thread of this process, so that a browser can be driven over it while the test goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loom.plugins.sqlite import SqliteStorage
from loom_cli.web import inspect_app
from loom_cli.web.serving import Serving, link_of, listening
from tests.loom_cli.web.desk import app_on

TOKEN = "a-token-for-browsers-in-tests"


class Called(SqliteStorage):
    """A store that says of itself that it is elsewhere: a picture does not show the folder it was made in."""

    called = ""

    @property
    def url(self) -> str:
        return self.called or super().url


@contextmanager
def served(store: Path, *, now_ms: int | None = None, answers: bool = False, called: str = "") -> Iterator[str]:
    """Serve the page about the runs in *store* and give its link; with *answers*, the desk's app takes them."""
    listener = listening("127.0.0.1", 0)
    stopping: list[Any] = []

    async def serve() -> None:
        reader = Called(store, readonly=True)
        reader.called = called
        app = app_on(SqliteStorage(store)) if answers else None
        clock = (lambda: now_ms) if now_ms is not None else None
        site = inspect_app(reader, token=TOKEN, answers=app, principal="cleo", now_ms=clock)
        serving = Serving(site, listener)
        stopping.append((asyncio.get_running_loop(), serving))
        try:
            await serving.run()
        finally:
            if app is not None:
                await app.close()
            await reader.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield link_of(listener, TOKEN)
    finally:
        loop, serving = stopping[0]
        loop.call_soon_threadsafe(serving.stop)
        thread.join(timeout=20)
        assert not thread.is_alive(), "the server did not end"
