"""The page as a command: under signals, with its link said, until it is stopped."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import webbrowser
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from loom_cli.app_location import store_place
from loom_cli.cli import Cli
from loom_cli.errors import StoreNotTheApps, Usage
from loom_cli.exits import ExitCode
from loom_cli.ids import meant_id
from loom_cli.interrupting import Interruption, end_children
from loom_cli.linking import VARIABLE
from loom_cli.principals import principal_of
from loom_cli.safe_text import safe
from loom_cli.screen import Styled

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom_cli.web.serving import Serving

_NEEDED: Final = ("starlette", "uvicorn", "sse_starlette")


class Inspecting:
    """Serves the page about one store, until a signal stops it."""

    def __init__(self, cli: Cli, *, host: str, port: int, expose: bool, names: Sequence[str]) -> None:
        _require_extra()
        from loom_cli.web.serving import is_loopback

        if not is_loopback(host) and not expose:
            hint = "It is served without encryption: add --expose, or reach it through an SSH tunnel."
            raise Usage(f"{host} can be reached from other machines", hint=hint)
        self._cli, self._host, self._port, self._names = cli, host, port, names
        self._app: LoomApp | None = None
        self._app_named: str | None = None
        self._principal: str | None = None
        self._answers = False
        self._link_secret = ""
        self._serving: Serving | None = None
        self._interruption = Interruption(
            softly=self._softly, heard=lambda count: None, leaving=lambda: ExitCode.INTERRUPTED
        )

    def allow_answers(self, app: str | None, principal: str | None) -> None:
        """Have the page take answers, for *principal*, with the app that *app* names; and those by links, where there is a secret."""
        self._answers, self._app_named, self._principal = True, app, principal_of(principal)
        self._link_secret = os.environ.get(VARIABLE, "")

    def serve(self, store: str | None, run: str | None, at: int | None, *, opens: bool) -> ExitCode:
        """Serve until stopped: 0 after the first signal, 130 if it had to be cut short by a second.

        Raises:
            Usage: the address cannot be listened at.
            ExecutionNotFound, AmbiguousExecution: there is no such run.
            AppNotFound, AppNotImportable, StoreNotTheApps: answers are allowed, and the app cannot take them.
        """
        if self._answers:
            self._app = self._cli.app(self._app_named, store=store)
        try:
            with self._interruption.handling():
                self._cli.run(self._interruption.watch(self._serve(store, run, at, opens=opens)))
        except (KeyboardInterrupt, asyncio.CancelledError):
            end_children()
            return ExitCode.INTERRUPTED
        return ExitCode.DONE

    async def _serve(self, store: str | None, run: str | None, at: int | None, *, opens: bool) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        from loom_cli.web.access import LOOPBACK
        from loom_cli.web.answer_site import answer_app
        from loom_cli.web.serving import Serving, link_of, listening
        from loom_cli.web.site import inspect_app

        async with AsyncExitStack() as opened:
            if self._app is not None:
                await opened.enter_async_context(self._app)
            reader = self._cli.reader(store)
            opened.push_async_callback(reader.close)
            await reader.open()
            if self._app is not None and store_place(self._app.storage.url) != store_place(reader.url):
                raise StoreNotTheApps(asked=reader.url, app=self._app.storage.url)
            place = f"#/run/{quote(await meant_id(reader, run), safe='')}" if run is not None else ""
            place += f"/{at}" if place and at is not None else ""
            token = secrets.token_urlsafe(32)
            hosts = {*LOOPBACK, self._host, *self._names}
            site = inspect_app(
                reader, token=token, hosts=hosts, answers=self._app, principal=self._principal, told=self._told
            )
            if self._app is not None and self._link_secret:
                links, closing = answer_app(self._app, secret=self._link_secret, told=self._told), site.state.closing
                site = Starlette(routes=[*links.routes, Mount("/", app=site)])
                site.state.closing = closing
            listener = listening(self._host, self._port)
            self._serving = Serving(site, listener)
            link = link_of(listener, token) + place
            self._say(link, reader.url)
            if opens:
                webbrowser.open(link)
            await self._serving.run()

    def _say(self, link: str, store: str) -> None:
        screen = self._cli.screen
        does = f"answers are those of {self._principal}" if self._answers else "read-only"
        does += ", or of the links of `loom link`" if self._link_secret else ""
        screen.note(Styled(f"inspecting {store}, {does}; Ctrl-C ends it", "bold"))
        screen.text(link)
        screen.flush()

    def _softly(self) -> None:
        if self._app is not None:
            self._app.runtime.interrupt()
        if self._serving is not None:
            self._serving.stop()

    def _told(self, words: str) -> None:
        self._cli.screen.note(Styled(safe(words), "red"))


def _require_extra() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        hint = "pip install 'loom-runtime[serve]'; `loom inspect ID --html FILE` writes a page without it"
        raise Usage(f"the page needs {', '.join(missing)}, which is not installed", hint=hint)
