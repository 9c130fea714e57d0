"""Values cross the log and come back equal, of the same type, as a copy; or are refused in words."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import fractions
import ipaddress
import math
import pathlib
import pickle
import re
import socket
import sys
import threading
import types
import typing
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Optional, TypeVar, Union

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from loom import values
from loom.values import MISSING, NotSerializable, RecordUnreadable, codec_for, decode, encode
from tests.values.value_types import (
    Aliased,
    BigClaim,
    Cat,
    Checked,
    Claim,
    Colour,
    Dog,
    Frozen,
    Holder,
    IntRight,
    Item,
    Level,
    Login,
    Movie,
    Numbers,
    Open,
    Outer,
    Owner,
    Page,
    Point,
    Range,
    Right,
    Shouting,
    Still,
    Tree,
    WithInit,
    WithPrivate,
    Word,
)

# The repr is of the strategy, which is long because there are so many types; it costs nothing but this warning.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

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


@given(NESTED)
def test_a_nested_value_comes_back_alike(value: Any) -> None:
    assert alike(crossed(value), value)


@given(NESTED)
def test_json_is_the_same_after_bytes_and_after_another_trip(value: Any) -> None:
    json = encode(value)

    assert values.loads(values.dumps(json)) == json
    assert values.canonical(encode(crossed(value))) == values.canonical(json)


@given(NESTED)
def test_what_is_written_has_no_nul_and_no_number_that_others_round(value: Any) -> None:
    def leaves(json: Any) -> list[Any]:
        if isinstance(json, dict):
            return [leaf for key, item in json.items() for leaf in (key, *leaves(item))]
        return [leaf for item in json for leaf in leaves(item)] if isinstance(json, list) else [json]

    written = leaves(encode(value))

    assert all("\0" not in leaf for leaf in written if isinstance(leaf, str))
    assert all(abs(leaf) < 2**53 for leaf in written if isinstance(leaf, int))
    assert all(math.isfinite(leaf) for leaf in written if isinstance(leaf, float))
    assert {type(leaf) for leaf in written} <= {str, int, float, bool, type(None)}


FIELD_FAULTS: list[Any] = [
    *(decimal.Decimal("1.50"), fractions.Fraction(1, 3), complex(1, -0.0), uuid.UUID(int=7)),
    *(
        datetime.date(2026, 1, 2),
        datetime.datetime.fromisoformat("2026-01-02T03"),
        datetime.datetime(2026, 1, 2, tzinfo=UTC),
    ),
    *(datetime.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), datetime.timedelta(-1, 5, 7), b"\0\xff"),
    *(pathlib.Path("a"), frozenset({1, "a"}), (1, 2), Point(1, [2]), defaultdict(list, {"a": [1]}), Counter("aab")),
    *(deque([1, 2, 3], maxlen=3), {1: "a", (2, 3): "b", None: "c"}, Outer.Middle.Shade.DARK, Outer.Middle.Box(3)),
    *("a\0b", "half \ud83d", "\ud83d\ude00", "literally \\u0000", {"\0": 1, "\udc00": 2}, "\U0001f600"),
    *(2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64, -(2**64), 10**499, 10**5000, -(10**5000)),
    *({"a": 1.0, "b": math.nan}, [math.inf, -math.inf], -0.0, 0.0, 5e-324, 1.7976931348623157e308, 1e22, 1.0),
    *(Colour.CRIMSON, Colour.GREEN, Level.HIGH, Word.YES, Right.READ | Right.WRITE, Right(0), IntRight(9)),
    *(None, True, [], {}, (), set(), "", b"", bytearray(b"x"), OrderedDict(b=1, a=2), deque(), range(0, 9, 2)),
    *(decimal.Decimal("NaN"), decimal.Decimal("-0"), decimal.Decimal("1E+400"), decimal.Decimal("sNaN")),
    *(datetime.time(1, tzinfo=BERLIN), datetime.time(2, fold=1), datetime.timezone(datetime.timedelta(hours=1), "CET")),
    *(ipaddress.ip_interface("1.2.3.4/8"), ipaddress.ip_address("fe80::1%eth0"), defaultdict(None, {"a": 1})),
    *(dict.fromkeys([Word.YES, "no"], 1), {True: 1, 2: 2}, list(range(100)), [*range(20), 2**70], ["a\0"] * 20),
    *([math.nan] * 20, ["\ud83d"] * 20, [None, 1.5, "null"] * 10, [True, 1, 1.0] * 9, [-0.0] * 20, tuple(range(50))),
]


@pytest.mark.parametrize(
    "value",
    FIELD_FAULTS,
    ids=lambda value: (
        f"{type(value).__name__} {value!r:.40}".encode("ascii", "backslashreplace").decode()
        if not (isinstance(value, int) and value.bit_length() > 5000)
        else "huge"
    ),
)
def test_what_others_lost_comes_back_alike(value: Any) -> None:
    assert alike(crossed(value), value)
    assert alike(crossed([{"a": value}]), [{"a": value}])


@pytest.mark.parametrize(
    "own",
    [
        {"$set": [1]},
        {"$type": "os:system", "value": {}},
        {"$": 1},
        {"$dict": {"$dict": 1}},
        {"a": 1, "$b": 2, "c": {"$d": 1}},
    ],
)
def test_a_dict_of_the_users_that_looks_like_a_tag_stays_a_dict(own: dict[str, Any]) -> None:
    assert crossed(own) == own
    assert crossed(own, Claim | dict[str, Any]) == own


def test_set_members_are_sorted_by_their_encoding() -> None:
    assert encode({"b", "a", "c"}) == {"$set": ["a", "b", "c"]}
    assert encode(frozenset({(2, 1), (1, 2)})) == {"$frozenset": [{"$tuple": [1, 2]}, {"$tuple": [2, 1]}]}


def test_the_copy_shares_nothing_with_the_value() -> None:
    value = {"list": [1, {"deep": [2]}], "set": {1}, "item": Item("a", tags=["x"]), "long": list(range(50))}
    json = encode(value)

    first, second = decode(json), decode(json)
    first["list"][1]["deep"].append(3)
    first["item"].tags.append("y")
    first["long"].append(1)

    assert second == value
    assert decode(json) == value


# The author's classes


def models() -> list[tuple[Any, Any]]:
    claim = Claim(amount=1, items=[Item("a", 1)], by_name={"b": Item("b")}, level=Level.HIGH, pair=(1, Item("c")))
    with_init = WithInit(2, 3)
    assert with_init.doubled == 12
    return [
        (claim, Claim),
        (BigClaim(amount=1), Claim),
        (Aliased(second=1, first=2), Aliased),
        (Open(known=1, **{"other": Item("a"), "$x": "\ud83d", "key with \0": 1}), Open),
        (Open(**{"$extra": 1}), Open),
        (Still(known=1), Still),
        (WithPrivate(known=1), WithPrivate),
        (Page[int](entries=[1]), Page[int]),
        (Page[Item](entries=[Item("a")]), Page[Item]),
        (Page[Page[int]](entries=[Page[int](entries=[])]), Page[Page[int]]),
        (Numbers([1, 2]), Numbers),
        (Owner(pet=Dog(), others=[Cat(lives=3), Dog()]), Owner),
        (Item("a", 2, ["x"]), Item),
        (Frozen(item=Item("a"), level=Level.HIGH), Frozen),
        (with_init, WithInit),
        (Tree("a", [Tree("b", [Tree("c")], parent_hint=Tree("d"))]), Tree),
        (Holder[Item](Item("a")), Holder[Item]),
        (Checked(3), Checked),
        (Range(1), Range),
        (Point(1, Item("a")), Point),
        (Outer.Middle.Box(1), Outer.Middle.Box),
        (Outer.Middle.Shade.DARK, Outer.Middle.Shade),
        (Right.READ | Right.WRITE, Right),
    ]


@pytest.mark.parametrize(("value", "annotation"), models(), ids=lambda part: str(part)[:40])
def test_an_instance_comes_back_alike_whatever_the_annotation_says(value: Any, annotation: Any) -> None:
    for said in (annotation, MISSING, Any, annotation | None, annotation | int, Claim, dict[str, int], "Unresolved"):
        assert crossed(value, said) == value
        assert type(crossed(value, said)) is type(value)
    for said in (list[annotation], Sequence[annotation], list, MISSING):
        assert crossed([value, None, {"a": 1}], said) == [value, None, {"a": 1}]
    for said in (dict[str, annotation], Mapping[str, Any], tuple[annotation, int]):
        assert crossed({"a": value}, said) == {"a": value}


def test_the_name_of_a_type_is_left_off_only_where_the_annotation_says_it() -> None:
    assert encode(Item("a"), Item) == {"name": "a", "price": 0, "tags": []}
    assert encode([Item("a")], list[Item]) == [encode(Item("a"), Item)]
    assert encode({"a": Item("a")}, dict[str, Item]) == {"a": encode(Item("a"), Item)}
    assert encode(Item("a"), Item | None) == encode(Item("a"), Item)
    assert encode(Item("a"), Item | Range) == encode(Item("a"))
    assert written(BigClaim(amount=1), Claim)["$type"] == "tests.values.value_types:BigClaim"
    assert encode(Outer.Middle.Shade.DARK) == {"$enum": ["tests.values.value_types:Outer.Middle.Shade", "DARK"]}
    assert encode(Outer.Middle.Shade.DARK, Outer.Middle.Shade) == {"$enum": "DARK"}


@pytest.mark.parametrize(
    "annotation",
    [
        *(Annotated[Claim, "x"], NewClaim, typing.Final[Claim], Optional[Annotated[Claim, 1]], Union[Claim, None]),  # noqa: UP007, UP045  # these too
        *(typing.Required[Claim], Annotated[NewClaim, ["unhashable"]]),
    ],
)
def test_what_has_no_bearing_on_the_value_is_looked_through(annotation: Any) -> None:
    claim = Claim(amount=1)

    assert encode(claim, annotation) == encode(claim, Claim)
    assert crossed(claim, annotation) == claim


@pytest.mark.parametrize("annotation", [T, "Claim", Literal["a"], ClaimId, object, type[int], typing.Callable[[], int]])
def test_an_annotation_that_says_nothing_of_use_changes_nothing(annotation: Any) -> None:
    assert encode(Claim(amount=1), annotation) == encode(Claim(amount=1))
    assert crossed("a", annotation) == "a"


def test_an_alias_is_what_it_stands_for_and_one_that_recurs_is_written_out() -> None:
    recurring = typing_extensions.TypeAliasType("recurring", "list[recurring] | Claim")  # type: ignore[misc]

    assert encode([Claim(amount=1)], Alias) == [encode(Claim(amount=1), Claim)]
    assert crossed([[Claim(amount=1)]], recurring) == [[Claim(amount=1)]]


def test_containers_pass_on_what_is_said_of_their_items() -> None:
    item, bare = Item("a"), encode(Item("a"), Item)

    assert encode((1, item), tuple[int, Item]) == {"$tuple": [1, bare]}
    assert encode((item, item), tuple[Item, ...]) == {"$tuple": [bare, bare]}
    assert encode(deque([item]), deque[Item]) == {"$deque": [[bare], None]}
    assert encode({1: item}, dict[int, Item]) == {"$map": [[1, bare]]}
    assert encode(defaultdict(list, a=[item]), defaultdict[str, list[Item]]) == {
        "$defaultdict": ["list", [["a", [bare]]]]
    }
    assert encode(Counter([Range(1)]), Counter[Range]) == {"$counter": [[{"low": 1, "high": 10}, 1]]}
    assert crossed(Counter([Range(1)]), Counter[Range]) == Counter([Range(1)])
    assert crossed([item, (item,), {1: item}], list[Item]) == [item, (item,), {1: item}]


def test_a_typed_dict_is_a_plain_dict_whose_entries_are_annotated() -> None:
    movie = Movie(title="a", star=Item("b"), year=1)

    assert encode(movie, Movie) == {"title": "a", "star": encode(Item("b"), Item), "year": 1}
    assert crossed(movie, Movie) == movie
    assert type(crossed(movie, Movie)) is dict


def test_a_dict_where_a_model_is_expected_stays_a_dict() -> None:
    assert crossed({"amount": 1}, Claim) == {"amount": 1}
    assert crossed({"amount": 1}, Claim | Item) == {"amount": 1}
    assert crossed(5, Claim) == 5


def test_validators_and_post_init_do_not_run_again() -> None:
    shouting = Shouting(text="hey", log=["a"])

    assert shouting.text == "hey!"
    assert crossed(shouting).text == "hey!"
    assert crossed(shouting).log == shouting.log == ["a", "validated", "made"]


def test_fields_that_were_not_set_are_told_from_those_set_to_their_default() -> None:
    assert crossed(Claim(amount=1), Claim).model_fields_set == {"amount"}
    assert crossed(Claim(amount=1, reason="none")).model_dump(exclude_unset=True) == {"amount": 1, "reason": "none"}
    assert crossed(Open.model_validate({"other": 1})).model_fields_set == {"other"}


def test_private_attributes_are_at_their_default() -> None:
    private = WithPrivate(known=1)
    private._cache["a"] = 1

    assert crossed(private)._cache == {}


def test_attributes_beside_a_dataclass_fields_cross_too_but_no_cached_property() -> None:
    copied = crossed(WithInit(2, 3))

    assert copied.beside == [3]
    assert "doubled" not in vars(copied)
    assert vars(Holder[int](1)).keys() - vars(crossed(Holder[int](1))).keys() == {"__orig_class__"}


def test_a_url_of_pydantics_comes_back() -> None:
    url = pydantic.HttpUrl("https://example.org/a?b=c")

    assert crossed(url) == url
    assert type(crossed(url)) is pydantic.HttpUrl


# What cannot be written


class Client:
    pass


class Text(str):
    __slots__ = ()


class Bag(dict[str, int]):
    pass


def a_cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    return cycle


def nested(levels: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


class CustomZone(datetime.tzinfo):
    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def dst(self, moment: datetime.datetime | None) -> None:
        return None

    def tzname(self, moment: datetime.datetime | None) -> str:
        return "custom"


REFUSED: list[Any] = [
    *(threading.Lock(), len, lambda: 1, iter([1]), Client(), Client, object(), ..., ValueError("x")),
    *(
        Text("a"),
        Bag(a=1),
        type("Number", (int,), {})(1),
        type("Real", (float,), {})(1.0),
        type("Items", (list,), {})(),
    ),
    *(a_cycle(), nested(500, lambda inner: [inner]), nested(500, lambda inner: {"a": inner}), nested(300, Holder)),
    *(nested(150, lambda inner: (inner,)), defaultdict(lambda: 1), memoryview(b"a"), types.SimpleNamespace(a=1), sys),
    *(datetime.datetime(2026, 1, 1, tzinfo=CustomZone()), pydantic.SecretStr("x"), Claim.model_construct(reason="a")),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_what_cannot_be_written_is_refused_at_its_path(value: Any) -> None:
    with pytest.raises(NotSerializable) as caught:
        codec_for(MISSING, "result").encode({"items": [0, Holder(value)]})

    assert caught.value.path.startswith("result['items'][1].held")
    assert caught.value.kind
    assert str(caught.value).startswith(caught.value.path)


@pytest.mark.parametrize(
    "wrap",
    [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: {1: inner}, Holder, lambda inner: (inner,)],
)
def test_the_deepest_value_that_is_written_is_read(wrap: Any) -> None:
    deepest = next(
        value for levels in range(200, 0, -1) if (value := nested(levels, wrap)) is not None and _is_written(value)
    )

    assert crossed([deepest] if _is_written([deepest]) else deepest) is not None


def _is_written(value: Any) -> bool:
    try:
        encode(value)
    except NotSerializable:
        return False
    return True


def test_the_path_leads_through_models_lists_and_dicts() -> None:
    with socket.socket() as client, pytest.raises(NotSerializable) as caught:
        codec_for(Any, "result").encode(Holder([0, Open.model_validate({"pool": {"a b": (client,)}})]))

    assert caught.value.path == "result.held[1]['pool']['a b'][0]"
    assert caught.value.kind == "socket:socket"


def test_a_secret_does_not_go_to_the_log() -> None:
    with pytest.raises(NotSerializable, match="SecretStr cannot be written") as caught:
        codec_for(Login, "login").encode(Login(user="a", password=pydantic.SecretStr("hunter2")))

    assert caught.value.path == "login.password"
    assert "hunter2" not in str(caught.value)
    assert "Secrets do not go to the log" in caught.value.hint


def test_a_class_that_nobody_could_find_again_needs_its_annotation() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    assert crossed(Local(1), Local) == Local(1)
    with pytest.raises(NotSerializable, match="cannot be found by name"):
        encode(Local(1))


def test_a_class_whose_name_now_means_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Item("a")
    monkeypatch.setattr("tests.values.value_types.Item", dataclasses.make_dataclass("Item", ["name"]))

    with pytest.raises(NotSerializable, match="cannot be found by name"):
        encode(old)


def test_refusals_survive_copies_and_pickling() -> None:
    for error in (
        NotSerializable(path="result.a", kind="b", reason="c", hint="d"),
        RecordUnreadable(path="result.a", kind="b", reason="c", hint="d"),
    ):
        for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
            assert type(again) is type(error)
            assert (again.path, again.kind, again.hint, str(again)) == ("result.a", "b", "d", "result.a: c")


# What cannot be read


def test_a_type_that_is_gone_is_an_error_and_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    json = encode([Outer.Middle.Shade.DARK, Item("a")])
    monkeypatch.delattr(Outer.Middle, "Shade")

    with pytest.raises(
        RecordUnreadable, match=r"value\[0\]: the type tests.values.value_types:Outer.Middle.Shade is gone"
    ):
        decode(json)


def test_a_renamed_field_is_named_with_its_class() -> None:
    with pytest.raises(RecordUnreadable, match=r"the record has no name, and .*Item no default") as caught:
        decode([{"title": "a"}], list[Item])

    assert caught.value.path == "value[0].name"
    assert caught.value.kind == "tests.values.value_types:Item"


def test_a_field_that_the_class_has_no_more_is_not_dropped() -> None:
    with pytest.raises(RecordUnreadable, match=r"the record has colour, weight, which"):
        decode({"name": "a", "colour": 1, "weight": 2}, Item)


def test_a_new_field_with_a_default_is_filled_in_and_counts_as_not_set() -> None:
    assert decode({"name": "a"}, Item) == Item("a")
    assert decode({"amount": 1}, Claim) == Claim(amount=1)
    assert decode({"amount": 1}, Claim).model_fields_set == {"amount"}
    assert decode({"low": 1}, Range) == Range(1)


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "builtins:eval", "builtins:dict", "no.such:Type", "x", ""]
)
def test_no_class_of_another_sort_is_made_because_data_names_it(name: str) -> None:
    tag: Any
    for tag in ({"$type": name, "value": {}}, {"$enum": [name, "A"]}, {"$url": [name, "a"]}):
        with pytest.raises(RecordUnreadable):
            decode(tag)


def test_nothing_is_imported_because_data_names_it() -> None:
    sys.modules.pop("this", None)

    with pytest.raises(RecordUnreadable, match="not imported"):
        decode({"$type": "this:Zen", "value": {}})

    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "json",
    [
        *(
            {"$decimal": "x"},
            {"$decimal": 1},
            {"$datetime": "yesterday"},
            {"$uuid": "1"},
            {"$bytes": "*"},
            {"$int": "x"},
        ),
        *({"$set": 1}, {"$set": [[1]]}, {"$tuple": {}}, {"$map": [[1]]}, {"$deque": []}, {"$path": ["Path", "a"]}),
        *(
            {"$enum": "RED"},
            {"$enum": ["tests.values.value_types:Colour", "BLUE"]},
            {"$zone": "Nowhere/At All"},
            {"$new": 1},
        ),
        *({"$type": "tests.values.value_types:Item"}, {"$type": "tests.values.value_types:Item", "value": 1}),
        *({"$type": "tests.values.value_types:Colour", "value": {}}, {"$enum": ["tests.values.value_types:Item", "a"]}),
        *({"$type": 1, "value": {}}, {"$defaultdict": ["eval", []]}, {"$set": [], "b": 1}, (1, 2), {"$range": ["a"]}),
        *(
            {"$type": "tests.values.value_types:Page[subprocess:Popen]", "value": {"entries": []}},
            {"$pattern": ["(", 0]},
        ),
    ],
    ids=str,
)
def test_what_no_writer_writes_is_not_guessed_at(json: Any) -> None:
    with pytest.raises(RecordUnreadable) as caught:
        decode({"a": [json]})

    assert caught.value.path.startswith("value['a'][0]")


def test_fields_without_a_name_are_not_read_where_several_types_are_expected() -> None:
    with pytest.raises(RecordUnreadable, match="which of several types"):
        decode(encode(Item("a"), Item), Item | Range)


def test_a_record_under_an_old_name_is_read_while_an_alias_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.values.value_types.Article", Item, raising=False)

    assert decode({"$type": "tests.values.value_types:Article", "value": {"name": "a"}}) == Item("a")


# What a digest leaves out


def test_fields_at_their_default_are_left_out_of_digests_wherever_a_model_stands() -> None:
    plain, new = Claim(amount=1), Claim(amount=1, reason="none", items=[], level=None)

    assert values.significant(plain, Claim) == values.significant(new, Claim) == {"amount": 1}
    assert values.significant([{"a": (Item("x"),)}], list) == [
        {"a": {"$tuple": [{**written(Item("x")), "value": {"name": "x"}}]}}
    ]
    assert values.significant(Claim(amount=1, reason="b"), Claim) == {"amount": 1, "reason": "b"}
    assert values.significant(Range(1), Range) == {"low": 1}


def test_a_value_equal_to_its_default_but_of_another_type_is_significant() -> None:
    assert values.significant(Item("a", False), Item) == {"name": "a", "price": False}


def test_without_a_model_in_the_value_there_is_no_second_walk() -> None:
    encoded, significant = codec_for(MISSING).encode_both({"a": [1, (2,), Level.LOW]})

    assert significant is encoded
    assert codec_for(Claim).encode_both(Claim(amount=1)) == (encode(Claim(amount=1), Claim), {"amount": 1})


def test_a_codec_says_whether_a_digest_may_differ_from_the_encoding() -> None:
    assert not any(codec_for(kind).has_defaults for kind in (int, str, bytes, decimal.Decimal, Level, type(None)))
    assert all(codec_for(kind).has_defaults for kind in (MISSING, Any, dict, list[int], Item, Claim | None))


def test_codecs_are_kept() -> None:
    assert codec_for(list[Claim], "a") is codec_for(list[Claim], "a")
    assert codec_for(Annotated[int, []]).encode(1) == 1


@pytest.mark.parametrize(
    ("text", "limit", "safe"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("a\0b", 9, "a\\x00b"), ("\ud83d", 9, "\\ud83d"), ("😀😀", 1, "…")],
)
def test_shortened_text_is_safe_on_every_store(text: str, limit: int, safe: str) -> None:
    assert values.safe_text(text, limit) == safe
