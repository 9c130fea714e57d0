"""Where the contents of a store's runs are: where the app says, else where the store does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from loom.core.claims import ContentNotWired
from loom.spi.content_store import Content, ContentMissing, ContentStore, HasContent
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.errors import AppNotFound, CommandRefused, Usage

_DIGITS: Final = frozenset("0123456789abcdef")
_LENGTH: Final = 64


class AmbiguousContent(CommandRefused):
    """A beginning of an address that several contents share."""

    code = "content-ambiguous"
    hint = "Give more of it."

    def __init__(self, *, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} fits more than one content")


class Places(NamedTuple):
    """Logs, to read only, and the contents that they cite."""

    logs: Storage
    contents: ContentStore


@asynccontextmanager
async def content_places(cli: Cli, *, app: str | None, store: str | None) -> AsyncIterator[Places]:
    """Give both. The app is asked where it is named, or found and no store is named.

    Raises:
        ContentNotWired: there is no place for contents.
    """
    places = _places(cli, app, store)
    try:
        yield places
    finally:
        await asyncio.gather(places.contents.close(), places.logs.close())


def _places(cli: Cli, app: str | None, store: str | None) -> Places:
    if app is not None or store is None:
        from loom_cli.app_location import read_only

        try:
            loaded = cli.app(app, store=store)
        except AppNotFound:
            if app is not None:
                raise
        else:
            return Places(read_only(loaded.storage), _required(loaded.content))
    logs = cli.reader(store)
    return Places(logs, _required(logs.content_store() if isinstance(logs, HasContent) else None))


def _required(contents: ContentStore | None) -> ContentStore:
    if contents is None:
        raise ContentNotWired(what="this command")
    return contents


async def content_meant(contents: ContentStore, text: str) -> Content:
    """Return the content whose address is *text*, or begins so.

    Raises:
        Usage: it is no beginning of an address.
        ContentMissing: there is none.
        AmbiguousContent: there is more than one.
    """
    before = before_all(text)
    found = [each for each in await contents.contents(after=before, limit=2) if each.ref.startswith(text)]
    if not found:
        raise ContentMissing(ref=text, store=contents.url)
    if len(found) > 1:
        raise AmbiguousContent(text=text)
    return found[0]


def before_all(text: str) -> str:
    """Return the greatest address that is smaller than every address which begins with *text*, "" where there is none.

    Raises:
        Usage: it is no beginning of an address.
    """
    if not text or len(text) > _LENGTH or not _DIGITS.issuperset(text):
        raise Usage(
            f"{text[:80]!r} is no address of a content", hint="It is up to 64 hexadecimal digits; loom show has it."
        )
    number = int(text, 16)
    return f"{number - 1:0{len(text)}x}".ljust(_LENGTH, "f") if number else ""
