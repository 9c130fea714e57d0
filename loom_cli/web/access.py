"""Who may ask the page for what (docs/adr/0046). Pure: decides by the headers of a request, and knows no server.

A page on loopback is reached by every process of the machine and by every page in the browser. So a request has to name a host
that is meant (a name that was rebound to 127.0.0.1 is none of them), to bring the token of the link, and, where it would change
something, to come from this very page.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""The names by which a page on loopback is asked for."""

TOKEN_LENGTH_MIN: Final = 16
CSRF_HEADER: Final = "x-loom-csrf"
_READING: Final = frozenset({"GET", "HEAD"})
_OURS: Final = frozenset({"same-origin", "none"})
"""What a browser says of who asks: this page, or a person who followed a link or typed one."""


class Asked(NamedTuple):
    """What is looked at of a request. Names of *headers* are in small letters; *path* is the one within the page."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


class Refusal(NamedTuple):
    """Why a request is not answered: its HTTP *status*, a stable *code*, what happened and what to do."""

    status: int
    code: str
    message: str
    hint: str = ""


class Access:
    """The rules of one page.

    *token* has to be brought by everybody, None: somebody else looks after that. *hosts* are the names by which it may be asked
    for, None: any. *secret* is known to this process alone, and what answers are protected with is made of it.
    """

    def __init__(self, *, token: str | None, hosts: frozenset[str] | None, secret: bytes) -> None:
        self._token, self._hosts = token, hosts
        self.csrf: Final = _derived(secret, "csrf")
        """What a request that changes something has to bring: known to those who can read this page."""
        self._visit = _derived((token or "").encode(), "visit")
        self._cookie = f"loom_inspect_{self._visit[:8]}"  # cookies do not tell ports apart: each page has its own

    def refusal(self, asked: Asked) -> Refusal | None:
        """Return why a request is not answered, None: it is."""
        host = asked.headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            hint = "Open it by the name that the link has, or allow this one with --allow-host."
            return Refusal(421, "wrong-host", f"this page is not known as {host or 'nothing'}", hint)
        if asked.headers.get("sec-fetch-site", "same-origin") not in _OURS and not self._is_a_visit(asked):
            return Refusal(
                403, "other-page", "another page asked for this", "Open the link that `loom inspect` printed."
            )
        if not self._is_known(asked):
            return Refusal(
                401, "no-token", "the token is missing or wrong", "Open the link that `loom inspect` printed."
            )
        return None if asked.method in _READING else self._refusal_to_change(asked, host)

    def cookie(self, asked: Asked, path: str) -> str | None:
        """Return the cookie to set for who came by the link of the page, which lies below *path*; None for everybody else."""
        if self._token is None or not self._is_right(_token_in(asked.query)):
            return None
        return f"{self._cookie}={self._visit}; Path={path or '/'}; HttpOnly; SameSite=Strict"

    def _is_known(self, asked: Asked) -> bool:
        if self._token is None or self._is_right(_bearer(asked)):
            return True
        if self._is_a_visit(asked) and self._is_right(_token_in(asked.query)):
            return True
        return hmac.compare_digest(_cookie_of(asked, self._cookie).encode(), self._visit.encode())

    def _is_right(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def _is_a_visit(self, asked: Asked) -> bool:
        """Whether this is the page itself, which may be come to by a link from elsewhere."""
        return asked.method == "GET" and asked.path in ("", "/")

    def _refusal_to_change(self, asked: Asked, host: str) -> Refusal | None:
        if self._token is not None and self._is_right(_bearer(asked)) and "origin" not in asked.headers:
            return None  # a script: no page can make a browser send this header
        if _netloc(asked.headers.get("origin", "")) != host.lower():
            return Refusal(403, "wrong-origin", "only the page itself may change something", "Answer on the page.")
        if not hmac.compare_digest(asked.headers.get(CSRF_HEADER, "").encode(), self.csrf.encode()):
            return Refusal(403, "stale-page", "this page is older than its server", "Load it again.")
        return None


def _derived(secret: bytes, what: str) -> str:
    return hmac.new(secret, f"loom inspect {what}".encode(), hashlib.sha256).hexdigest()


def _name(host: str) -> str:
    """Return the name in a Host header, without the port; "" for what is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _netloc(origin: str) -> str | None:
    """Return the host and port of an origin, None where it is none, as the one that is called `null`."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _bearer(asked: Asked) -> str:
    kind, _, token = asked.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _token_in(query: str) -> str:
    return parse_qs(query).get("token", [""])[0]


def _cookie_of(asked: Asked, name: str) -> str:
    try:
        found = SimpleCookie(asked.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
