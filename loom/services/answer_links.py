"""Signed links with which one person answers one gate: what a link says, and whether it still holds. Pure.

A link is a bearer's right: who has it may answer, as the principal it was made for, that one gate of that one life of the run, as it
was shown, until it expires. So it needs no store and no account, and there is nothing to take back but the secret, with which all
links end. A gate takes one answer, so a link is of use once.

The form is `base64url(JSON) . base64url(HMAC-SHA256)` (RFC 4648 without padding, RFC 2104), signed as a whole before it is read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

import orjson

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId, Incarnation

SECRET_MIN: Final = 32
"""So many characters a secret has at least: what is guessed answers every gate."""

_PURPOSE: Final = b"loom.answer-link.1\0"
_TOKEN_MAX: Final = 4096


class AnswerLink(NamedTuple):
    """The right to answer *gate*, which event *start* opened, of one life of a run, as *principal*.

    *shown* is the digest of what the gate shows, None where it shows nothing. *expires_at* is in ms since the epoch.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    gate: str
    start: int
    shown: str | None
    principal: str
    expires_at: int


class LinkRefused(LoomError):
    """A link that gives no right, or none any more; *why* says which in words."""

    code = "link-refused"
    hint = "Ask for a new link: `loom link ID` makes one."

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the link does not hold: {why}")


class SecretTooShort(LoomError):
    """A secret that could be guessed."""

    code = "secret-too-short"
    hint = 'Make one, and keep it out of the repository: python -c "import secrets; print(secrets.token_urlsafe(32))"'

    def __init__(self, length: int) -> None:
        self.length = length
        super().__init__(f"the secret of answer links has {length} characters; {SECRET_MIN} are the least")


def signed(link: AnswerLink, secret: str) -> str:
    """Return *link* as a token of letters, digits, `-`, `_` and one dot.

    Raises:
        SecretTooShort: *secret* is shorter than `SECRET_MIN`.
    """
    said = _text(orjson.dumps(list(link)))
    return f"{said}.{_text(_signature(said, secret))}"


def opened(token: str, secret: str, *, now_ms: int) -> AnswerLink:
    """Return what *token* gives the right to.

    Raises:
        LinkRefused: it was not made with *secret*, or has expired.
        SecretTooShort: *secret* is shorter than `SECRET_MIN`.
    """
    said, _, signature = token.partition(".")
    if len(token) > _TOKEN_MAX or not hmac.compare_digest(_bytes(signature), _signature(said, secret)):
        raise LinkRefused("it was changed on its way, or made with another secret")
    link = AnswerLink(*orjson.loads(_bytes(said)))
    if link.expires_at <= now_ms:
        raise LinkRefused("it has expired")
    return link


def require_same(link: AnswerLink, *, incarnation: Incarnation) -> None:
    """Let a link pass that is about the present life of its run.

    Raises:
        LinkRefused: the run it was made for was deleted, and its id is used again.
    """
    if link.incarnation != incarnation:
        raise LinkRefused("the run that it was made for is gone")


def _signature(said: str, secret: str) -> bytes:
    if len(secret) < SECRET_MIN:
        raise SecretTooShort(len(secret))
    return hmac.new(secret.encode(), _PURPOSE + said.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Return what *text* encodes, nothing for what encodes nothing."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
