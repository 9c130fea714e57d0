"""Bytes of a JSON value: as stored, and canonical (RFC 8785) for what is compared or named by its content.

The value is as `values.encode` returns it: plain dicts and lists, no NaN, integers within 64 bits. RFC 8785 stops at
2**53; integers between, which only foreign JSON has, are written with all their digits.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import Any, Final

import orjson
import rfc8785

from loom.core.json import Json

_STORED: Final = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_SORTED: Final = _STORED | orjson.OPT_SORT_KEYS
_DIGEST_BYTES: Final = 16
_DIGEST_LENGTH: Final = 22
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")

# Text that looks alike costs a walk, no more. What holds a float holds one of two texts once these bytes are as one, and those are
# gone: that is seen ten times as fast as the float itself.
_OPENERS: Final = bytes.maketrans(b"[,", b"::")
_IN_NUMBERS: Final = b"-0123456789"
_FLOAT_INSIDE: Final = re.compile(rb"[\[:,]-?\d+[.e]")
_BEYOND_FFFF: Final = re.compile(rb"[\xf0-\xf4]")
_EXPONENT_BELOW: Final = 1e-5
_INTEGRAL_BELOW: Final = 2.0**53


class _Uncommon(Exception):
    """A float or a key that orjson writes or sorts in another way than RFC 8785."""


def dumps(json: Json) -> bytes:
    """Return *json* as bytes, keys in their order; `loads` gives back an equal value of the same types."""
    return orjson.dumps(json, option=_STORED)


def loads(stored: bytes) -> Any:
    """Return the value that `dumps` was given."""
    return orjson.loads(stored)


def canonical(json: Json) -> bytes:
    """Return the one sequence of bytes that equal values share: RFC 8785."""
    written = orjson.dumps(json, option=_SORTED)
    floats = type(json) is float or (_may_hold_float(written) and _FLOAT_INSIDE.search(written))
    if not floats and (written.isascii() or not _BEYOND_FFFF.search(written)):
        return written
    try:
        return orjson.dumps(_with_integral_floats(json), option=_SORTED)
    except _Uncommon:
        return _written(json)


def _may_hold_float(written: bytes) -> bool:
    bare = written.translate(_OPENERS, _IN_NUMBERS)
    return b":." in bare or b":e" in bare


def part(json: Json) -> orjson.Fragment:
    """Return *json* written canonically once, to stand in values that are written by `assembled`."""
    return orjson.Fragment(canonical(json))


def assembled(whole: Any) -> bytes:
    """Return the canonical bytes of a value whose floats, and keys that are no ASCII, all stand in parts made by `part`."""
    return orjson.dumps(whole, option=_SORTED)


def digest(json: Json) -> str:
    """Return the name of *json*'s content: 22 characters of base64url, half of its SHA-256."""
    return digest_of_written(canonical(json))


def digest_of_written(written: bytes) -> str:
    """Return the digest of the value whose canonical bytes are *written*."""
    short = hashlib.sha256(written).digest()[:_DIGEST_BYTES]
    return binascii.b2a_base64(short, newline=False)[:_DIGEST_LENGTH].translate(_URL_SAFE).decode("ascii")


def alike(json: Json, other: Json) -> bool:
    """Whether two values have one digest: `==` alone takes True for 1."""
    return json == other and canonical(json) == canonical(other)


def _with_integral_floats(json: Any) -> Any:
    kind = type(json)
    if kind is float:
        if json and not _EXPONENT_BELOW <= abs(json) < _INTEGRAL_BELOW:
            raise _Uncommon
        return int(json) if json.is_integer() else json
    if kind is dict:
        if any(not key.isascii() and max(key) > "\uffff" for key in json):
            raise _Uncommon  # orjson sorts by code point, RFC 8785 by UTF-16 unit
        return {key: _with_integral_floats(item) for key, item in json.items()}
    if kind is list:
        return [_with_integral_floats(item) for item in json]
    return json


def _written(json: Any) -> bytes:
    kind = type(json)
    if kind is float:
        return rfc8785.dumps(json)
    if kind is dict:
        pairs = sorted(json.items(), key=lambda pair: pair[0].encode("utf-16-be"))
        return b"{" + b",".join(orjson.dumps(key) + b":" + _written(item) for key, item in pairs) + b"}"
    if kind is list:
        return b"[" + b",".join(map(_written, json)) + b"]"
    return orjson.dumps(json, option=_SORTED)
