"""The page as an ASGI app: its routes, and who may ask for what. Everything that decides is elsewhere, and pure.

Reading is all there is, unless it is made with `answers`: then, and only then, is there a route that changes something.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loom.app.config import LoomApp
from loom.core.errors import LoomError
from loom.driving.run_reader import RunReader
from loom_cli.exits import ExitCode, exit_code_of_error
from loom_cli.ids import meant_id
from loom_cli.options import EVENTS_MAX
from loom_cli.version import version
from loom_cli.web.access import LOOPBACK, TOKEN_LENGTH_MIN, Access, Asked, Refusal
from loom_cli.web.answering import DRIVEN_WORDS, Answering, given_of
from loom_cli.web.inspector import Inspector, NotThere, Wanted
from loom_cli.web.live import live
from loom_cli.web.page_files import page_files
from loom_cli.web.shortening import compact

Json: TypeAlias = Any
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]

CONTENT_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_PING_S: Final = 15
_BODY_MAX: Final = 1 << 20
_STATUSES: Final = {ExitCode.NOT_FOUND: 404, ExitCode.USAGE: 409, ExitCode.WAITING: 409}
_BY_CODE: Final = {
    "answer-refused": 422,
    "denied": 403,
    "invalid-id": 404,
    "not-there": 404,
    "usage": 400,
    "where-invalid": 400,
}


def inspect_app(
    storage: RunReader,
    *,
    token: str | None,
    hosts: Collection[str] | None = LOOPBACK,
    answers: LoomApp | None = None,
    principal: str | None = None,
    now_ms: Callable[[], int] | None = None,
    told: Callable[[str], None] = lambda words: None,
) -> Starlette:
    """Return the page about the runs of *storage* as an ASGI app, to be served or mounted anywhere.

    *token* has to be brought by everybody: in the link (`/?token=...`), which leaves a cookie, or as a bearer token. None: whoever
    mounts it looks after who may see it. *hosts* are the names by which it may be asked for, without ports; None: any. With *answers*,
    an app on the same store, gates can be answered, by *principal*, and that app drives what was answered; without, nothing
    here can change a run. *told* hears, in words, of a drive that went wrong. Closing *storage* and *answers* is the caller's.

    Raises:
        ValueError: the token is too short to keep anybody out.
    """
    if token is not None and len(token) < TOKEN_LENGTH_MIN:
        raise ValueError(f"a token has {TOKEN_LENGTH_MIN} characters or more")
    names = None if hosts is None else frozenset(host.lower() for host in hosts)
    access = Access(token=token, hosts=names, secret=secrets.token_bytes(32))
    clock = now_ms or (lambda: time.time_ns() // 1_000_000)
    answering = Answering(answers, principal=principal, told=told) if answers is not None else None
    page = _Page(Inspector(storage, now_ms=clock), access, answering)
    site = Starlette(routes=page.routes(), middleware=[Middleware(_Guard, access=access)])
    site.state.closing = page.closing
    return site


class _Page:
    """The answers to requests."""

    def __init__(self, inspector: Inspector, access: Access, answering: Answering | None) -> None:
        self._inspector, self._access, self._answering = inspector, access, answering
        self.closing = asyncio.Event()
        """Set, it ends the streams that are open."""

    def routes(self) -> list[Route]:
        """Return the routes: reading ones, and the one for answers where there is somebody to take them."""
        reading = {
            "/api/about": self._about,
            "/api/runs": self._runs,
            "/api/run": self._run,
            "/api/run/lines": self._lines,
            "/api/run/found": self._found,
            "/api/run/timeline": self._timeline,
            "/api/run/moment": self._moment,
            "/api/run/state": self._state,
            "/api/run/whole": self._whole,
            "/api/run/value": self._value,
            "/api/run/call": self._call,
            "/api/run/branches": self._branches,
        }
        writing = {"/api/run/answer": self._answer} if self._answering is not None else {}
        return [
            Route("/", _page),
            Route("/static/{name}", _static),
            Route("/api/live", self._live),
            *(Route(path, _told(answer)) for path, answer in reading.items()),
            *(Route(path, _told(answer), methods=["POST"]) for path, answer in writing.items()),
        ]

    async def _about(self, request: Request) -> Json:
        answers = self._answering is not None
        about = {
            "store": self._inspector.store.url,
            "version": version(),
            "answers": answers,
            "csrf": self._access.csrf,
        }
        return {**about, "driven": DRIVEN_WORDS if answers else None}

    async def _runs(self, request: Request) -> Json:
        asked = request.query_params
        limit = min(max(_number(asked, "limit", 50), 1), 500)
        wanted = Wanted(
            asked.get("search", ""), asked.getlist("status"), asked.get("gates") == "1", asked.get("before"), limit
        )
        return await self._inspector.runs(wanted)

    async def _run(self, request: Request) -> Json:
        return await self._inspector.run(_id(request))

    async def _lines(self, request: Request) -> Json:
        asked = request.query_params
        return await self._inspector.lines(
            _id(request), start=_number(asked, "start", 0), limit=_number(asked, "limit", 200)
        )

    async def _found(self, request: Request) -> Json:
        return await self._inspector.found(_id(request), request.query_params.get("search", ""))

    async def _timeline(self, request: Request) -> Json:
        asked = request.query_params
        end = _number(asked, "end", -1)
        return await self._inspector.timeline(
            _id(request), start=_number(asked, "start", 0), end=None if end < 0 else end
        )

    async def _moment(self, request: Request) -> Json:
        against = _number(request.query_params, "against", -2)
        return await self._inspector.moment(_id(request), _n(request), None if against < -1 else against)

    async def _state(self, request: Request) -> Json:
        return await self._inspector.state(_id(request), _n(request))

    async def _whole(self, request: Request) -> Json:
        at = _number(request.query_params, "at", -1)
        return await self._inspector.whole(_id(request), None if at < 0 else at)

    async def _value(self, request: Request) -> Response:
        of = "state" if request.query_params.get("of") == "state" else "event"
        path, base = _path(request, "path"), _path(request, "base")
        return _raw(await self._inspector.value(_id(request), _n(request), path or [], of=of, base=base))

    async def _call(self, request: Request) -> Json:
        return await self._inspector.call(_id(request), _number(request.query_params, "start", -1), _n(request))

    async def _branches(self, request: Request) -> Json:
        return await self._inspector.branches(_id(request))

    async def _live(self, request: Request) -> Response:
        asked, run_id = request.query_params, None
        try:
            if text := asked.get("run"):
                run_id = await meant_id(self._inspector.store, text)
        except LoomError as error:
            return _error(error)
        after = _number(request.headers, "last-event-id", _number(asked, "after", -1))
        return EventSourceResponse(live(self._inspector, run_id, after, self.closing), ping=_PING_S)

    async def _answer(self, request: Request) -> Json:
        assert self._answering is not None
        given = given_of(await _body(request))
        return await self._answering.answer(await meant_id(self._inspector.store, _id(request)), given)


def _told(answer: Callable[[Request], Awaitable[Json]]) -> Answer:
    """Return a route that answers with JSON, and with what Loom refuses in words."""

    async def route(request: Request) -> Response:
        try:
            told = await answer(request)
            return told if isinstance(told, Response) else _json(told)
        except LoomError as error:
            return _error(error)

    return route


async def _page(request: Request) -> Response:
    return Response(page_files()["index.html"], media_type="text/html; charset=utf-8")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = page_files().get(name)
    kind = CONTENT_TYPES.get(name.rpartition(".")[2])
    if content is None or kind is None:
        return _error(NotThere("there is no such file"))
    return Response(content, media_type=kind)


def _raw(text: bytes) -> Response:
    return Response(text, media_type="application/json")


def _json(value: Json, status: int = 200) -> Response:
    return Response(compact(value), status, media_type="application/json")


def _error(error: LoomError) -> Response:
    status = _BY_CODE.get(error.code) or _STATUSES.get(exit_code_of_error(error), 500)
    told: dict[str, Json] = {"code": error.code, "message": str(error), "hint": error.hint}
    problems = getattr(error, "problems", None)
    return _json({"error": {**told, **({"problems": problems} if isinstance(problems, dict) else {})}}, status)


def _id(request: Request) -> str:
    return request.query_params.get("id", "")


def _n(request: Request) -> int:
    return _number(request.query_params, "n", -1)


def _path(request: Request, name: str) -> list[Any] | None:
    try:
        path = json.loads(request.query_params.get(name, "null"))
    except (ValueError, RecursionError):
        path = ""
    if not isinstance(path, list | None):
        raise NotThere("the path is no JSON list")
    return path


async def _body(request: Request) -> Json:
    """Return the JSON that was sent, None where it is none, or longer than an answer may be."""
    written = b""
    async for part in request.stream():
        written += part
        if len(written) > _BODY_MAX:
            return None
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None


def _number(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= len(str(EVENTS_MAX)) else default


class _Guard:
    """Lets in who may ask, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        asked = Asked(scope["method"], _path_of(scope), query, Headers(scope=scope))
        refusal = self._access.refusal(asked)
        cookie = self._access.cookie(asked, scope.get("root_path", "")) if refusal is None else None

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if cookie is not None:
                    headers.append("set-cookie", cookie)
            await send(message)

        if refusal is None:
            await self._app(scope, receive, sending)
        else:
            await _refused(refusal, asked)(scope, receive, sending)


def _path_of(scope: Scope) -> str:
    """Return the path within the page, which may be mounted below another."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _refused(refusal: Refusal, asked: Asked) -> Response:
    if "text/html" in asked.headers.get("accept", ""):
        lines = f"Loom inspect: {refusal.message}.\n{refusal.hint}\n"
        return Response(lines, refusal.status, media_type="text/plain; charset=utf-8")
    return _json({"error": {"code": refusal.code, "message": refusal.message, "hint": refusal.hint}}, refusal.status)
