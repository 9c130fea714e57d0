"""Names of things: ids are text, validated where they enter and trusted afterwards."""

from __future__ import annotations

import re
from typing import Final, NewType

from loom.core.errors import InvalidId

ExecutionId = NewType("ExecutionId", str)
FlowId = NewType("FlowId", str)
ToolId = NewType("ToolId", str)
Incarnation = NewType("Incarnation", int)
"""Which life of an execution id: a store-assigned number that a deleted and reused id does not share."""

ContentRef = NewType("ContentRef", str)
"""The address of a content: the SHA-256 of its bytes, 64 small hexadecimal digits."""

ID_LENGTH_MAX: Final = 200
_ID: Final = re.compile(r"[^\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_NAME: Final = re.compile(r"[^\W\d][\w.\-]*")
_WHOLE: Final = re.compile(r"[^\ud800-\udfff]+")
_REF: Final = re.compile(r"[0-9a-f]{64}")


def execution_id(text: str) -> ExecutionId:
    """Return *text* as an execution id.

    Raises:
        InvalidId: it is empty (reserved, ADR 0107 of the spec), longer than 200 characters, or holds white
            space, control characters or lone surrogates.
    """
    if not _is_short_text(text) or not _ID.fullmatch(text):
        raise InvalidId(kind="execution", text=text)
    return ExecutionId(str.__str__(text))


def content_ref(text: str) -> ContentRef:
    """Return *text* as the address of a content; nothing else may become a path or a key of a store.

    Raises:
        InvalidId: it is no SHA-256 in small hexadecimal digits.
    """
    if not _is_short_text(text) or not _REF.fullmatch(text):
        refused = InvalidId(kind="content", text=text)
        refused.hint = "It is 64 small hexadecimal digits, as `loom show` prints it; nothing was looked for."
        raise refused
    return ContentRef(str.__str__(text))


def declared_name(kind: str, text: str) -> str:
    """Return *text* as the id of a declared *kind* (flow, step, tool): a word of letters, digits, `_`, `-`, `.`.

    Raises:
        InvalidId: it does not start with a letter or `_`, or holds another character.
    """
    if not _is_short_text(text) or not _NAME.fullmatch(text):
        raise InvalidId(kind=kind, text=text)
    return str.__str__(text)


def label(kind: str, text: str) -> str:
    """Return *text* as the label of a gate, timer, event and the like: up to 200 characters of any script.

    Raises:
        InvalidId: it is no text, empty, longer, or holds half of a surrogate pair.
    """
    if not _is_short_text(text) or not (text.isascii() or _WHOLE.fullmatch(text)):
        raise InvalidId(kind=kind, text=text)
    return str.__str__(text)


def _is_short_text(text: object) -> bool:
    """Whether *text* may be a name. One of a subclass of `str` may, and becomes plain text: a log keeps no other."""
    return isinstance(text, str) and 0 < len(text) <= ID_LENGTH_MAX
