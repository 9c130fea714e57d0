"""Text from a log, a tool or a person, made harmless for a terminal (field fault 57).

A terminal obeys what it is sent: cursor moves, clipboard writes (OSC 52), colours, and marks that show text in another
order than it stands. Such characters are shown as escapes, never sent. Everything else, emoji included, stays as it is.
"""

from __future__ import annotations

import re
from typing import Final

_OBEYED: Final = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: escape sequences, bells, carriage returns
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the order in which text is shown
    "\u2028\u2029"  # line ends to some, nothing to others
    "\u200b\u2060\ufeff\u00ad"  # shown as nothing at all
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations and tags: hidden text
    "\ud800-\udfff"  # half a character: no encoding takes it
)
_UNSAFE: Final = re.compile(f"[{_OBEYED}]")
_UNSAFE_IN_LINES: Final = re.compile(f"(?![\n\t])[{_OBEYED}]")


def safe(text: str) -> str:
    """Return *text* on one line, with every character a terminal would obey shown as an escape."""
    return _UNSAFE.sub(_escape, text)


def safe_lines(text: str) -> str:
    """Return *text* as for `safe`, with its line breaks and tabs kept: for tracebacks and documents."""
    return _UNSAFE_IN_LINES.sub(_escape, text.replace("\r\n", "\n"))


def safe_json(text: str) -> str:
    """Return JSON *text* with such characters as JSON's own escapes: another spelling of the same value.

    The text is one line of JSON, or indented by blanks: a line break outside a string stays.
    """
    return _UNSAFE_IN_LINES.sub(lambda found: _json_escape(found[0]), text)


def _escape(found: re.Match[str]) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(found[0])
    code = ord(found[0])
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def is_utf8(text: str) -> bool:
    """Tell whether *text* is characters: bytes of a command line that are no UTF-8 come in as halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
