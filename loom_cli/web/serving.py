"""Serving the page on loopback until somebody stops it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette

from loom_cli.errors import Usage

_BACKLOG: Final = 128
_LEAVING_S: Final = 1


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at *host*."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at *host* and *port*, 0 for one that is free.

    Raises:
        Usage: it cannot.
    """
    try:
        [(family, kind, number, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listener = socket.socket(family, kind, number)
    except OSError as refused:
        raise Usage(f"cannot listen at {host}: {refused.strerror or refused}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as refused:
        listener.close()
        hint = "Leave --port off: a free one is taken." if refused.errno == errno.EADDRINUSE else ""
        raise Usage(f"cannot listen at {host}, port {port}: {refused.strerror or refused}", hint=hint) from None
    return listener


def link_of(listener: socket.socket, token: str) -> str:
    """Return the link to the page that is served by *listener*."""
    host, port = listener.getsockname()[:2]
    named = f"[{host}]" if ":" in host else host
    return f"http://{named}:{port}/?token={token}"


class Serving:
    """Serves *site* until it is told to stop; streams that are open then are ended."""

    def __init__(self, site: Starlette, listener: socket.socket) -> None:
        config = uvicorn.Config(
            site,
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_LEAVING_S,
        )
        self._server, self._listener = _Server(config), listener
        self._closing: asyncio.Event = site.state.closing

    async def run(self) -> None:
        """Serve."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Stop serving soon."""
        self._closing.set()
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Leaves the signals of the process to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
