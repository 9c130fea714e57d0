"""Signed links at work, as an ASGI app of its own: it shows one gate, and takes one answer. To be reached by whoever has a link.

It needs no token beside the link, and knows no way to anything else: so it can be mounted where the page of runs must not be. To
look changes nothing, whatever fetches a link ahead of its reader.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loom.app.config import LoomApp
from loom.core.errors import LoomError
from loom.core.views import OpenGate
from loom.driving.addressing import gate_meant
from loom.driving.stored_log import log_of
from loom.services.answer_links import SECRET_MIN, AnswerLink, LinkRefused, SecretTooShort, opened, require_same
from loom_cli.web.answer_page import entered_in, message_of, page_of
from loom_cli.web.answering import Answering, AnswerRefused, Given

_BODY_MAX: Final = 1 << 20
_STATUSES: Final = {"link-refused": 403, "denied": 403}


class Place(NamedTuple):
    """What a link leads to."""

    link: AnswerLink
    flow: str
    gate: OpenGate

    def page(self, entered: Mapping[str, Any], problems: Mapping[str, str]) -> str:
        """Return its page, with what was *entered*, and what is wrong with that."""
        return page_of(self.gate, self.flow, entered=entered, problems=problems, by=self.link.principal)


def answer_app(
    app: LoomApp,
    *,
    secret: str,
    now_ms: Callable[[], int] | None = None,
    told: Callable[[str], None] = lambda words: None,
) -> Starlette:
    """Return an ASGI app that answers at `/answer/TOKEN`, with the links that *secret* has signed; *app* drives what was answered.

    *told* hears, in words, of a drive that went wrong.

    Raises:
        SecretTooShort: the secret could be guessed.
    """
    if len(secret) < SECRET_MIN:
        raise SecretTooShort(len(secret))
    answering = Answering(app, principal=None, told=told)
    pages = _Pages(app, answering, secret, now_ms or _now_ms)
    routes = [Route("/answer/{token}", pages.show), Route("/answer/{token}", pages.take, methods=["POST"])]
    site = Starlette(routes=routes)
    site.state.answering = answering
    return site


class _Pages:
    """The answers to requests."""

    def __init__(self, app: LoomApp, answering: Answering, secret: str, now_ms: Callable[[], int]) -> None:
        self._app, self._answering, self._secret, self._now_ms = app, answering, secret, now_ms

    async def show(self, request: Request) -> Response:
        """Show the gate of a link, with its form."""
        try:
            place = await self._place(request)
        except LoomError as error:
            return _refused(error)
        return _page(place.page({}, {}))

    async def take(self, request: Request) -> Response:
        """Take the answer to the gate of a link."""
        try:
            place = await self._place(request)
            return await self._taken(place, request)
        except LoomError as error:
            return _refused(error)

    async def _taken(self, place: Place, request: Request) -> Response:
        try:
            entered = entered_in(await _body(request), place.gate.schema or {})
        except ValueError:
            return _page(message_of("That was no form", "Nothing was recorded.", "Open the link again."), 400)
        given = Given(place.gate.gate, place.gate.shown, entered=entered)
        try:
            await self._answering.answer(place.link.execution_id, given, principal=place.link.principal)
        except AnswerRefused as refused:
            return _page(place.page(entered, refused.problems), 422)
        return _page(message_of("Thank you", "The answer is recorded.", "This page can be closed."))

    async def _place(self, request: Request) -> Place:
        """Return what the link of *request* leads to.

        Raises:
            LinkRefused: it does not hold, or its gate is another by now.
            GateNotOpen, ApprovalMismatch: it was answered, or shows something else.
        """
        link = opened(request.path_params["token"], self._secret, now_ms=self._now_ms())
        row = await self._app.storage.row(link.execution_id)
        if row is None:
            raise LinkRefused("the run that it was made for is gone")
        require_same(link, incarnation=row.incarnation)
        log = await log_of(self._app.storage, link.execution_id)
        gate = gate_meant(log.state(), link.gate, shown=link.shown)
        if gate.start != link.start:
            raise LinkRefused("the gate that it was made for is not open any more")
        return Place(link, row.index.flow, gate)


async def _body(request: Request) -> bytes:
    """Return what was posted.

    Raises:
        ValueError: it is longer than an answer may be.
    """
    written = b""
    async for part in request.stream():
        written += part
        if len(written) > _BODY_MAX:
            raise ValueError(len(written))
    return written


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _refused(error: LoomError) -> Response:
    is_link = error.code == "link-refused"
    title = "This link does not hold" if is_link else "This cannot be answered any more"
    hint = "Ask for a new one." if is_link else "Nothing was recorded."
    return _page(message_of(title, str(error), hint), _STATUSES.get(error.code, 409))


def _page(html: str, status: int = 200) -> Response:
    style = html.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    rules = (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": rules,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
    return Response(html, status, headers, media_type="text/html; charset=utf-8")
