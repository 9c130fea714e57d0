"""Values of every kind, and the ways in which they cross the log in tests."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import re
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, NewType, TypeVar

import typing_extensions
from hypothesis import strategies as st

from loom import values
from loom.values import MISSING, decode, encode
from tests.values.value_types import (
    Claim,
    Colour,
    Holder,
    Item,
    Level,
    Open,
    Outer,
    Point,
    Range,
    Right,
    Word,
)

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
UTC = datetime.UTC
T = TypeVar("T")
ClaimId = NewType("ClaimId", str)
NewClaim = NewType("NewClaim", Claim)
Alias = typing_extensions.TypeAliasType("Alias", list[Claim])


def crossed(value: Any, annotation: Any = MISSING) -> Any:
    """Return *value* after a trip through the bytes of a log."""
    return decode(values.loads(values.dumps(encode(value, annotation))), annotation)


def written(value: Any, annotation: Any = MISSING) -> Any:
    return encode(value, annotation)


def exact(value: Any) -> Any:
    """Return *value* in a form that tells apart what == takes for equal: 1 and True, 0.0 and -0.0, a datetime's fold."""
    kind = type(value)
    if isinstance(value, float | complex | decimal.Decimal | datetime.datetime | datetime.time):
        return kind, repr(value)
    if isinstance(value, dict):
        return kind, [(exact(key), exact(item)) for key, item in value.items()], getattr(value, "default_factory", None)
    if isinstance(value, list | tuple | deque):
        return kind, [exact(item) for item in value], getattr(value, "maxlen", None)
    if hasattr(value, "__dict__") and not isinstance(value, type | enum.Enum):
        return kind, [(name, exact(item)) for name, item in vars(value).items()]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(exact(item)) for item in value)
    return kind, value


def alike(left: Any, right: Any) -> bool:
    """Whether two values are equal and of equal types throughout; NaN is like NaN."""
    return bool(exact(left) == exact(right))


# Everything of the standard library

ZONES = st.sampled_from(
    [
        None,
        UTC,
        BERLIN,
        datetime.timezone(datetime.timedelta(hours=1)),
        datetime.timezone(-datetime.timedelta(0, 5), "X"),
        zoneinfo.ZoneInfo("America/St_Johns"),
    ]
)
DATETIMES = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.datetimes(), ZONES, st.integers(0, 1)
)
ANY_TEXT = st.text(st.characters(exclude_categories=[])) | st.sampled_from(["\0", "\ud83d", "\\u0000", "$set", "$"])
HASHABLE_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | ANY_TEXT
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.complex_numbers(allow_nan=False)
    | st.uuids()
    | st.dates()
    | DATETIMES
    | st.times()
    | st.timedeltas()
    | st.sampled_from([Colour.RED, Level.HIGH, Word.YES, Right.READ | Right.WRITE, Right(0), Outer.Middle.Shade.DARK])
    | st.sampled_from([pathlib.Path("a/b"), pathlib.PurePosixPath("/x"), pathlib.PureWindowsPath("C:/y")])
    | st.sampled_from([range(3), range(10**30, 0, -7), BERLIN, re.compile("a.b", re.IGNORECASE), re.compile(b"\xff")])
    | st.ip_addresses()
    | st.builds(Range, st.integers(), st.integers())
)
SCALARS = st.deferred(lambda: HASHABLE_SCALARS) | st.floats() | st.binary().map(bytearray) | st.just(10**500)
# Deferred, as hypothesis warns of strategies that take long to print.
HASHABLE = st.deferred(
    lambda: st.recursive(HASHABLE_SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3))
)


LONG_LISTED = st.deferred(lambda: st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    short = st.lists(inner, max_size=4)
    pairs = st.dictionaries(HASHABLE, inner, max_size=4)
    return (
        short
        | short.map(tuple)
        | st.lists(LONG_LISTED, min_size=17, max_size=20)
        | st.sets(HASHABLE, max_size=4)
        | st.dictionaries(ANY_TEXT, inner, max_size=4)
        | pairs
        | pairs.map(OrderedDict)
        | pairs.map(lambda held: defaultdict(list, held))
        | st.lists(HASHABLE, max_size=4).map(Counter)
        | st.builds(deque, short, st.none() | st.integers(0, 5))
        | st.builds(Point, inner, inner)
        | st.builds(Item, ANY_TEXT, st.integers(), st.lists(ANY_TEXT, max_size=2))
        | st.builds(Holder, inner)
        | st.builds(lambda held: Open(known=1, **{"$more": held}), inner)
    )


NESTED = st.deferred(lambda: st.recursive(SCALARS, containers, max_leaves=12))
