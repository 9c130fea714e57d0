"""A hook that posts what waits for a person to a URL, signed as https://www.standardwebhooks.com says."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.json import JsonObject
from loom.services.answer_links import AnswerLink, signed
from loom.spi.gate_hook import GATE_HOOK_SPI_VERSION, GateNotice

SHOWN_MAX: Final = 64 << 10
"""So many bytes of JSON of what a gate shows are sent along; more is left to the page, or the command."""

_PLAIN_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_OK: Final = range(200, 300)


class WebHookFailed(LoomError):
    """The other side did not take what was posted."""

    code = "webhook-failed"
    hint = "It is posted again later, with the same webhook-id."

    def __init__(self, url: str, what: str) -> None:
        self.url, self.what = url, what
        super().__init__(f"{url}: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPages:
    """Where a person answers: *base* is the address at which `loom inspect --allow-answers` is reached, *secret* that of its links.

    A link holds for *expires*, and whoever has it answers as *principal*.
    """

    base: str
    secret: str = field(repr=False)
    expires: timedelta = timedelta(days=7)
    principal: str = "link"

    def link(self, notice: GateNotice) -> str | None:
        """Return the address of the page for the gate of *notice*, None for an effect in doubt, which nobody answers by a link."""
        gate = notice.gate
        if gate.in_doubt:
            return None
        expires_at = notice.at + int(self.expires.total_seconds() * 1000)
        shared = (notice.execution_id, notice.incarnation, gate.gate, gate.start, gate.shown)
        token = signed(AnswerLink(*shared, self.principal, expires_at), self.secret)
        return f"{self.base.rstrip('/')}/answer/{token}"


@dataclass(frozen=True, slots=True)
class WebHook:
    """Posts to *url*, with a signature where there is a *secret*, for at most *timeout* an attempt; of *flows* alone where named."""

    url: str
    secret: str | None = field(default=None, repr=False)
    pages: AnswerPages | None = None
    flows: frozenset[str] = frozenset()
    timeout: timedelta = timedelta(seconds=10)
    spi_version = GATE_HOOK_SPI_VERSION

    def wants(self, flow: str) -> bool:
        """Whether it posts what waits in runs of *flow*."""
        return not self.flows or flow in self.flows

    async def tell(self, notice: GateNotice) -> None:
        """Post *notice*.

        Raises:
            WebHookFailed: it could not be reached, or did not answer with 2xx. Redirects are not followed.
        """
        import httpx2  # an extra, and slow to import

        body = orjson.dumps(posted(notice, None if self.pages is None else self.pages.link(notice)))
        headers = {"content-type": "application/json", **signature(notice, body, self.secret)}
        limit_s = self.timeout.total_seconds()
        try:
            async with (
                asyncio.timeout(limit_s),  # in all: that of the client begins anew with every byte
                httpx2.AsyncClient(timeout=limit_s, follow_redirects=False, verify=_trusted()) as client,
                client.stream("POST", self.url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code  # what else it says is not read: it may have no end
        except TimeoutError as error:
            raise WebHookFailed(self.url, f"it did not answer within {limit_s:g} s") from error
        except httpx2.HTTPError as error:
            raise WebHookFailed(self.url, str(error) or type(error).__name__) from error
        if status not in _OK:
            raise WebHookFailed(self.url, f"it answered {status}")


@cache
def _trusted() -> ssl.SSLContext:
    """Return whom a connection trusts: what httpx2 makes for each client else, which takes longer than a post."""
    import httpx2

    return httpx2.create_ssl_context()


def webhook(
    url: str,
    *,
    secret: str | None = None,
    pages: AnswerPages | None = None,
    flows: tuple[str, ...] = (),
    timeout: timedelta = timedelta(seconds=10),
) -> WebHook:
    """Return a hook for `define_config(gate_hooks={"NAME": ...})` that posts each new gate to *url*.

    What is posted is in docs/guide/hooks.md. *secret* signs it, so that the other side knows who it is from. With *pages* it says
    where the gate can be answered. *flows* are the ids of those that it is told of; all, unless named.

    Raises:
        InvalidDeclaration: *url* is no address that can be posted to, or httpx2 is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidDeclaration(f"webhook({url!r}): an address that begins with https:// is needed")
    if parts.scheme == "http" and parts.hostname not in _PLAIN_HOSTS:
        raise InvalidDeclaration(f"webhook({url!r}): what is shown at a gate is not sent in the open; use https://")
    return WebHook(url, secret, pages, frozenset(flows), timeout)


def posted(notice: GateNotice, answer_url: str | None) -> JsonObject:
    """Return the body of the post. What a gate shows is left out where it is longer than `SHOWN_MAX`; then `show_omitted` is true."""
    gate = notice.gate
    is_long = len(orjson.dumps(gate.show)) > SHOWN_MAX
    said: dict[str, Any] = {
        "execution_id": notice.execution_id,
        "flow": notice.flow,
        "gate": gate.gate,
        "label": gate.label,
        "in_doubt": gate.in_doubt,
        "opened_at": gate.opened_at,
        "due_at": gate.due_at,
        "shown": gate.shown,
        "show": None if is_long else gate.show,
        "show_omitted": is_long,
        "schema": gate.schema,
        "reason": gate.reason,
        "answer_url": answer_url,
    }
    return {"type": "gate.doubted" if gate.in_doubt else "gate.opened", "timestamp": notice.at, "data": said}


def signature(notice: GateNotice, body: bytes, secret: str | None) -> dict[str, str]:
    """Return the headers that name the post, and prove who it is from where there is a *secret* (Standard Webhooks, symmetric)."""
    at = str(notice.at // 1000)
    headers = {"webhook-id": notice.key, "webhook-timestamp": at}
    if secret is None:
        return headers
    signed_text = b".".join((notice.key.encode(), at.encode(), body))
    mac = hmac.new(_key(secret), signed_text, hashlib.sha256).digest()
    return {**headers, "webhook-signature": f"v1,{base64.b64encode(mac).decode()}"}


def _key(secret: str) -> bytes:
    """Return the bytes of a secret: those that a `whsec_` one encodes, else its own."""
    return base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
