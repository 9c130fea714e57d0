"""Values cross the log and come back equal, of the same type, as a copy; or are refused in words."""

from __future__ import annotations

import datetime
import decimal
import fractions
import ipaddress
import math
import pathlib
import typing
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
import pytest
import typing_extensions
from hypothesis import given

from loom import values
from loom.values import MISSING, decode, encode
from tests.values.crossing import (
    BERLIN,
    NESTED,
    UTC,
    Alias,
    ClaimId,
    NewClaim,
    T,
    alike,
    crossed,
    written,
)
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
    ids=[
        f"{place} {type(value).__name__}" for place, value in enumerate(FIELD_FAULTS)
    ],  # a set has no order to be shown in
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
