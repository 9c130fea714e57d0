"""A stand-in for what lies between a client and the server: it counts round trips, and may give every transaction to another
server process, as a transaction pooler does."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import tempfile
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Final

_READY: Final = b"Z"
_ASKS: Final = {b"S": {_READY}, b"Q": {_READY}, b"H": {b"T", b"n", b"E"}}
"""Messages after which a client waits (Sync, Query, Flush), and for what: of Flush, the description of a statement."""

_BYE: Final = b"X"
_IDLE: Final = b"I"
_SOCKET: Final = ".s.PGSQL.5432"


class Pooler:
    """Listens on a socket of its own folder, for the server whose socket is in *home*. *round_trips* counts what was asked."""

    def __init__(self, home: Path, *, processes: int = 1) -> None:
        self._home, self._processes = home, processes
        self.round_trips = 0

    async def __aenter__(self) -> Pooler:
        self._folder = tempfile.TemporaryDirectory(prefix="loom-pooler-", dir="/tmp")
        self._server = await asyncio.start_unix_server(self._serve, Path(self._folder.name) / _SOCKET)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._folder.cleanup()

    def dsn(self, dsn: str) -> str:
        """Return the way through the pooler to what *dsn* names."""
        return dsn.replace(str(self._home), self._folder.name)

    async def _serve(self, client: StreamReader, answers: StreamWriter) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(answers.close)
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                size = await client.readexactly(4)
                hello = size + await client.readexactly(struct.unpack("!i", size)[0] - 4)
                behind = [await stack.enter_async_context(_connected(self._home)) for _ in range(self._processes)]
                for place, (replies, asks) in enumerate(behind):
                    asks.write(hello)
                    await _pass_on(replies, answers if place == 0 else None)
                await self._go_between(client, answers, behind)

    async def _go_between(
        self, client: StreamReader, answers: StreamWriter, behind: list[tuple[StreamReader, StreamWriter]]
    ) -> None:
        turn = 0
        while True:
            kind, message = await _message(client)
            if kind == _BYE:
                return
            replies, asks = behind[turn]
            asks.write(message)
            if kind in _ASKS:
                self.round_trips += 1
                if await _pass_on(replies, answers, _ASKS[kind]) == _IDLE:
                    turn = (turn + 1) % len(behind)


@contextlib.asynccontextmanager
async def _connected(home: Path) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    replies, asks = await asyncio.open_unix_connection(home / _SOCKET)
    try:
        yield replies, asks
    finally:
        asks.close()


async def _pass_on(
    replies: StreamReader, to: StreamWriter | None, until: AbstractSet[bytes] = frozenset({_READY})
) -> bytes:
    """Hand on what the server says *until* its answer ends; when it is ready, return how its transaction stands."""
    while True:
        kind, message = await _message(replies)
        if to is not None:
            to.write(message)
        if kind in until:
            return message[5:6] if kind == _READY else b""


async def _message(source: StreamReader) -> tuple[bytes, bytes]:
    head = await source.readexactly(5)
    return head[:1], head + await source.readexactly(struct.unpack("!i", head[1:])[0] - 4)
