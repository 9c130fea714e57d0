"""The standard library's values that hold no others, as one-key objects: one row a type, both directions side by side.

*write* returns plain JSON, *read* is its exact inverse; a payload that *read* cannot use raises one of `UNREADABLE`.
Types are matched exactly: a subclass may carry more than its base, and is refused elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import decimal
import fractions
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, Final

from loom.core.json import Json
from loom.values.shapes import Trouble, label

INTEGER_MAX: Final = 2**53 - 1
"""The largest integer written as a number: beyond it other readers of the log, and RFC 8785, would round."""

_DECIMAL_BITS_MAX: Final = 2048
"""Beyond this, integers are written in hexadecimal: CPython may refuse decimal ones of more than 640 digits."""

UNREADABLE: Final = (
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    OSError,
    re.error,
    binascii.Error,
)


def plain_text(text: str) -> bool:
    """Whether JSON, and every store, keeps *text* as it is: no NUL, no half of a surrogate pair."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_text(text: str) -> Json:
    return text if plain_text(text) else {"$str": text.encode("unicode_escape").decode("ascii")}


def read_text(json: Any) -> str:
    if type(json) is dict:
        return _text(json["$str"]).encode("ascii").decode("unicode_escape")
    return _text(json)


def write_integer(number: int) -> Json:
    if -INTEGER_MAX <= number <= INTEGER_MAX:
        return number
    return {"$int": str(number) if number.bit_length() <= _DECIMAL_BITS_MAX else hex(number)}


def read_integer(json: Any) -> int:
    if type(json) is dict:
        return int(_text(json["$int"]), 0)
    if type(json) is not int:
        raise TypeError("not an integer")
    return json


def write_float(number: float) -> Json:
    return number if number - number == 0.0 else {"$float": repr(number)}


def read_float(json: Any) -> float:
    if type(json) is dict:
        return float(_text(json["$float"]))
    if type(json) not in (float, int):
        raise TypeError("not a number")
    return float(json)


def _text(json: Any) -> str:
    if type(json) is not str:
        raise TypeError("not a text")
    return json


# Time. A zone is null (as the offset in the text says), the name of a zoneinfo zone, or a named fixed offset.


_PARSED_ZONE: Final = "pydantic_core._pydantic_core.TzInfo"
"""What pydantic gives a time that it has read from JSON: a fixed offset without a name, as the text of the time says it."""


def _write_zone(zone: datetime.tzinfo | None) -> Json:
    if zone is None:
        return None
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return zone.key
    if type(zone) is datetime.timezone:
        named = zone.tzname(None) != datetime.timezone(zone.utcoffset(None)).tzname(None)
        return {"$timezone": _write_timezone(zone)} if named else None
    if f"{type(zone).__module__}.{type(zone).__name__}" == _PARSED_ZONE:
        return None
    raise Trouble(
        f"its time zone is a {label(type(zone))}",
        kind=label(type(zone)),
        hint="Use zoneinfo.ZoneInfo or datetime.timezone: other zones cannot be found by name again.",
    )


def _write_timezone(zone: datetime.timezone) -> Json:
    return [_write_timedelta(zone.utcoffset(None)), write_text(zone.tzname(None))]


def _read_timezone(json: Any) -> datetime.timezone:
    offset, name = _read_timedelta(json[0]), read_text(json[1])
    unnamed = datetime.timezone(offset)
    return unnamed if unnamed.tzname(None) == name else datetime.timezone(offset, name)


def _read_zone(json: Any) -> datetime.tzinfo:
    return _read_timezone(json["$timezone"]) if type(json) is dict else zoneinfo.ZoneInfo(_text(json))


def _write_moment(moment: datetime.datetime | datetime.time) -> Json:
    zone = _write_zone(moment.tzinfo)
    return [moment.isoformat(), moment.fold, zone] if moment.fold or zone is not None else moment.isoformat()


def _read_moment(kind: Any) -> Callable[[Any], Any]:
    def read(json: Any) -> Any:
        if type(json) is str:
            return kind.fromisoformat(json)
        text, fold, zone = json
        moment = kind.fromisoformat(text).replace(fold=fold)
        return moment if zone is None else moment.replace(tzinfo=_read_zone(zone))

    return read


def _write_timedelta(span: datetime.timedelta) -> Json:
    return [span.days, span.seconds, span.microseconds]


def _read_timedelta(json: Any) -> datetime.timedelta:
    days, seconds, microseconds = json
    return datetime.timedelta(days, seconds, microseconds)


def _write_zoneinfo(zone: zoneinfo.ZoneInfo) -> Json:
    if zone.key is None:
        raise Trouble("is a time zone without a name", kind=label(type(zone)))
    return zone.key


# The rest


def _write_bytes(value: bytes | bytearray) -> Json:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(json: Any) -> bytes:
    return base64.b64decode(_text(json), validate=True)


def _write_pattern(pattern: re.Pattern[Any]) -> Json:
    source = pattern.pattern
    flags = pattern.flags
    return [{"$bytes": _write_bytes(source)} if isinstance(source, bytes) else write_text(source), flags]


def _read_pattern(json: Any) -> re.Pattern[Any]:
    source, flags = json
    if type(source) is dict and "$bytes" in source:
        return re.compile(_read_bytes(source["$bytes"]), flags)
    return re.compile(read_text(source), flags)


_PATHS: Final = (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath)
_ADDRESSES: Final = (
    *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
    *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
)


def _write_by_kind(value: Any) -> Json:
    return [type(value).__name__, write_text(str(value))]


def _read_by_kind(*kinds: type[Any]) -> Callable[[Any], Any]:
    by_name = {kind.__name__: kind for kind in kinds}

    def read(json: Any) -> Any:
        name, text = json
        return by_name[name](read_text(text))

    return read


def _write_uuid(value: uuid.UUID) -> Json:
    return str(value)


def _write_range(value: range) -> Json:
    return [write_integer(value.start), write_integer(value.stop), write_integer(value.step)]


def _write_fraction(value: fractions.Fraction) -> Json:
    return [write_integer(value.numerator), write_integer(value.denominator)]


def _read_fraction(json: Any) -> fractions.Fraction:
    numerator, denominator = json
    return fractions.Fraction(read_integer(numerator), read_integer(denominator))


def _read_complex(json: Any) -> complex:
    real, imaginary = json
    return complex(read_float(real), read_float(imaginary))


@dataclasses.dataclass(frozen=True, slots=True)
class Tag:
    """How values of some types stand in the log."""

    name: str
    types: tuple[type[Any], ...]
    write: Callable[[Any], Json]
    read: Callable[[Any], Any]


TAGS: Final = (
    Tag("$decimal", (decimal.Decimal,), str, lambda json: decimal.Decimal(_text(json))),
    Tag("$fraction", (fractions.Fraction,), _write_fraction, _read_fraction),
    Tag("$complex", (complex,), lambda value: [write_float(value.real), write_float(value.imag)], _read_complex),
    Tag("$uuid", (uuid.UUID,), _write_uuid, lambda json: uuid.UUID(_text(json))),
    Tag("$datetime", (datetime.datetime,), _write_moment, _read_moment(datetime.datetime)),
    Tag("$time", (datetime.time,), _write_moment, _read_moment(datetime.time)),
    Tag("$date", (datetime.date,), lambda day: day.isoformat(), lambda json: datetime.date.fromisoformat(_text(json))),
    Tag("$timedelta", (datetime.timedelta,), _write_timedelta, _read_timedelta),
    Tag("$timezone", (datetime.timezone,), _write_timezone, _read_timezone),
    Tag("$zone", (zoneinfo.ZoneInfo,), _write_zoneinfo, _read_zone),
    Tag("$bytes", (bytes,), _write_bytes, _read_bytes),
    Tag("$bytearray", (bytearray,), _write_bytes, lambda json: bytearray(_read_bytes(json))),
    Tag("$path", _PATHS, _write_by_kind, _read_by_kind(*_PATHS)),
    Tag("$ip", _ADDRESSES, _write_by_kind, _read_by_kind(*_ADDRESSES)),
    Tag("$range", (range,), _write_range, lambda json: range(*map(read_integer, json))),
    Tag("$pattern", (re.Pattern,), _write_pattern, _read_pattern),
)
