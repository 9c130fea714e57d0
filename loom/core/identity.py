"""The identity of a syscall, and its text form, made and parsed here and nowhere else (kernel rule 4).

An identity is a structure: the path of (opening syscall, branch) that leads to a branch, a name, and a tag that tells
calls of one name apart. Its text is `[scope/branch/]*name[#tag]`. A plain word stands as it is; the signs `/ # %`, control
characters and lone surrogates inside a name, branch or key are percent-escaped as UTF-8, so the text parses back to
the same structure and no two structures share a text. Nothing here knows what kind of syscall it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

TagKind: TypeAlias = Literal["occurrence", "key", "item", "retry", "compensate"]
COUNTED: Final = ("item", "retry", "compensate")

_PLAIN: Final = re.compile(r"[^/#%\x00-\x1f\x7f\ud800-\udfff]*")
_SIGN: Final = re.compile(r"[/#%\x00-\x1f\x7f\ud800-\udfff]")
_LIKE_A_TAG: Final = re.compile(r"[0-9]+\Z|=|(item|retry|compensate):")


class Tag(NamedTuple):
    """What tells two calls of one name apart; *value* is a number for all kinds but a key."""

    kind: TagKind
    value: str

    def __str__(self) -> str:
        if self.kind == "occurrence":
            return "" if self.value == "0" else f"#{self.value}"
        if self.kind == "key":
            return f"#{'=' if not self.value or _LIKE_A_TAG.match(self.value) else ''}{escape(self.value)}"
        return f"#{self.kind}:{self.value}"


FIRST: Final = Tag("occurrence", "0")


class Identity(NamedTuple):
    """A syscall of one branch: *path* leads to the branch as (text of the opening syscall's name and tag, branch)."""

    path: tuple[tuple[str, str], ...]
    name: str
    tag: Tag = FIRST

    def __str__(self) -> str:
        return f"{path_text(self.path)}{escape(self.name)}{self.tag}"


@lru_cache(maxsize=4096)
def escape(text: str) -> str:
    """Return *text* with its own signs escaped, so that it can stand as one part of an identity."""
    if _PLAIN.fullmatch(text):
        return text
    return _SIGN.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode("utf-8", "surrogatepass")), text)


def unescape(text: str) -> str:
    """Return what `escape` was given."""
    return unquote_to_bytes(text).decode("utf-8", "surrogatepass") if "%" in text else text


def path_text(path: tuple[tuple[str, str], ...]) -> str:
    """Return the text that all identities below *path* start with."""
    return "".join(f"{scope}/{escape(branch)}/" for scope, branch in path)


def scope_of(text: str) -> str:
    """Return the path text of the branch in which the syscall with the id *text* was asked."""
    return text[: text.rfind("/") + 1] if "/" in text else ""


def parse(text: str) -> Identity:
    """Return the identity that *text* is the text form of."""
    *above, last = text.split("/")
    path = tuple((scope, unescape(branch)) for scope, branch in zip(above[::2], above[1::2], strict=True))
    name, sign, tag = last.partition("#")
    return Identity(path, unescape(name), _parse_tag(tag) if sign else FIRST)


def _parse_tag(text: str) -> Tag:
    if text.isascii() and text.isdigit():
        return Tag("occurrence", text)
    kind, sign, value = text.partition(":")
    if sign and kind in COUNTED:
        return Tag(kind, value)  # type: ignore[arg-type]  # narrowed by membership in COUNTED
    return Tag("key", unescape(text.removeprefix("=")))
