"""What cannot be written or read is refused, naming the place; and what digests leave out."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import pickle
import socket
import sys
import threading
import types
from collections import defaultdict
from typing import Annotated, Any

import pydantic
import pytest

from loom import values
from loom.values import MISSING, NotSerializable, RecordUnreadable, codec_for, decode, encode
from tests.values.crossing import (
    crossed,
    written,
)
from tests.values.value_types import (
    Claim,
    Holder,
    Item,
    Level,
    Login,
    Open,
    Outer,
    Range,
)

# The repr is of the strategy, which is long because there are so many types; it costs nothing but this warning.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


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
