"""The page about the story's store, asked as a browser asks it, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import httpx2
import pytest
from starlette.types import ASGIApp

from loom.plugins.sqlite import SqliteStorage
from loom_cli.web import inspect_app
from tests.loom_cli.conftest import *  # noqa: F403  # the fixtures of the story
from tests.loom_cli.conftest import Project

TOKEN = "a-token-for-tests-only"
BEARER = {"authorization": f"Bearer {TOKEN}"}
BASE = "http://127.0.0.1:8000"

Client: TypeAlias = httpx2.AsyncClient
Asking: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


def client(site: ASGIApp, *, base: str = BASE, headers: dict[str, str] | None = None) -> Client:
    """Return a client of *site*, which brings the token unless other headers are given."""
    transport = httpx2.ASGITransport(app=site)
    return httpx2.AsyncClient(transport=transport, base_url=base, headers=BEARER if headers is None else headers)


@pytest.fixture
def asking(project: Project) -> Asking:
    """What makes a client of the page about the story's store; it takes what `inspect_app` and `client` take."""

    @asynccontextmanager
    async def ask(**options: Any) -> AsyncIterator[Client]:
        headers, base = options.pop("headers", None), options.pop("base", BASE)
        storage = SqliteStorage(project.store, readonly=True)
        given: Any = {"token": TOKEN, "now_ms": lambda: project.now_ms} | options
        site = inspect_app(storage, **given)
        async with client(site, base=base, headers=headers) as asker:
            yield asker
        await storage.close()

    return ask
