"""Where the parts of a value come from: they are looked for in values that were known before, by what they are. Pure.

A log records values and no flow of data, so this finds equality, and says how much that tells: a long text, a moment or an id is
hardly equal by chance, a small number often is. What a flow computed is equal to nothing, unless it put a text into a text.
Following the data itself would take a run under stand-ins for its values, which `is`, `isinstance` and other code can tell from
them: docs/adr/0044.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

Json: TypeAlias = Any
Certainty: TypeAlias = Literal["exact", "inside", "same", "none", "plain"]
"""How sure it is: *exact* is the same value, and a telling one; *inside*: a telling text stands in this text; *same*: equal, but
that may be chance; *none*: nothing known before is equal; *plain*: too common to say anything (`true`, `null`, 0, 1, empty)."""

TELLING_TEXT: Final = 8
"""So many characters make a text telling."""
TELLING_NUMBER: Final = 10_000
"""An integer of at least so much is telling; a fraction is with three places or more."""
TELLING_LEAVES: Final = 3
"""So many leaves that are not plain make an object or a list telling."""
_TEXTS_MAX: Final = 20_000
_WRAPPED: Final = ("$tuple", "$set", "$frozenset", "$list", "$dict", "$deque")
_PLAIN: Final = frozenset({"null", "true", "false", "0", "1", "-1", '""', "[]", "{}", "0.0", "1.0"})
_PLACES: Final = 3


class Place(NamedTuple):
    """A part of a known value: of the source number *source*, at *path* (`$.lines[0].sku`)."""

    source: int
    path: str


class Part(NamedTuple):
    """A part of a value at *path* (`claim.amount`), and every *place* it may come from, the first of them first."""

    path: str
    value: Json
    certainty: Certainty
    places: tuple[Place, ...] = ()


class _Node(NamedTuple):
    """A part of a value: its *name*, equal for equal parts, and how many of its leaves are not plain."""

    path: str
    value: Json
    name: bytes
    leaves: int
    is_telling: bool


class Known:
    """Values that were known, each under the number of its source; they are added in the order of these."""

    def __init__(self) -> None:
        self._places: dict[bytes, list[Place]] = {}
        self._texts: dict[str, list[Place]] = {}

    def add(self, source: int, value: Json, path: str = "$") -> None:
        """Add a value that *source* gave."""
        for node in _nodes(value, path):
            place = Place(source, node.path)
            self._places.setdefault(node.name, []).append(place)
            if isinstance(node.value, str) and node.is_telling and len(self._texts) < _TEXTS_MAX:
                self._texts.setdefault(node.value, []).append(place)

    def parts(self, value: Json, path: str = "", *, before: int) -> list[Part]:
        """Return *value* in the largest parts that sources numbered *before* that gave; what none gave, leaf by leaf."""
        nodes = {node.path: node for node in _nodes(value, path)}
        return list(self._parts(bare(value), path, nodes, before))

    def _parts(self, value: Json, path: str, nodes: Mapping[str, _Node], before: int) -> Iterator[Part]:
        node, below = nodes[path], list(_below(value, path))
        places = _by_source(self._places.get(node.name, ()), before)
        if places and (node.is_telling or not below) and _name(value) not in _PLAIN:
            yield Part(path, value, "exact" if node.is_telling else "same", places)
        elif below:
            for part, inner in below:
                yield from self._parts(bare(inner), part, nodes, before)
        elif _name(value) in _PLAIN:
            yield Part(path, value, "plain")
        elif isinstance(value, str) and (inside := self._inside(value, before)):
            yield Part(path, value, "inside", inside)
        else:
            yield Part(path, value, "none")

    def _inside(self, text: str, before: int) -> tuple[Place, ...]:
        """Return where the telling texts are from that stand in *text*, without those that only stand in one of them."""
        found = [
            known
            for known, places in self._texts.items()
            if len(known) <= len(text) and places[0].source < before and known in text
        ]
        largest = [each for each in found if not any(each != other and each in other for other in found)]
        return _by_source((place for each in largest for place in self._texts[each]), before)


def bare(value: Json) -> Json:
    """Return *value* without the tag that says which type it had; a moment, a decimal or an id as its text."""
    while isinstance(value, dict):
        if "$type" in value and "value" in value:
            value = value["value"]
        elif len(value) == 1 and (tag := next(iter(value))) in _WRAPPED:
            value = value[tag]
        elif (
            len(value) == 1
            and next(iter(value)).startswith("$")
            and isinstance(text := next(iter(value.values())), str)
        ):
            return text
        else:
            return {name: each for name, each in value.items() if name != "$unset"}
    return value


def _below(value: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Yield the parts of a value, one level down, with their paths."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield (f"{path}.{name}" if path else name) if name.isidentifier() else f"{path}[{name!r}]", part
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield f"{path}[{at}]", part


def _nodes(value: Json, path: str) -> Sequence[_Node]:
    """Return every part of *value*, itself last."""
    value = bare(value)
    found: list[_Node] = []
    tops: list[_Node] = []
    for part, inner in _below(value, path):
        nodes = _nodes(inner, part)
        found += nodes
        tops.append(nodes[-1])
    if tops:
        named = sorted(zip(value, tops, strict=True)) if isinstance(value, dict) else [("", node) for node in tops]
        whole = blake2b(repr([name for name, _ in named]).encode("utf-8", "surrogatepass"), digest_size=16)
        for _, node in named:
            whole.update(node.name)
        leaves = sum(node.leaves for node in tops)
        is_telling = leaves >= TELLING_LEAVES or any(node.is_telling for node in tops)
        found.append(_Node(path, value, whole.digest(), leaves, is_telling))
    else:
        name = _name(value)
        is_plain = name in _PLAIN
        found.append(_Node(path, value, _hashed(name), 0 if is_plain else 1, not is_plain and _is_telling(value)))
    return found


def _name(value: Json) -> str:
    return orjson.dumps(value, default=str).decode() if not isinstance(value, str) else f'"{value}"'


def _hashed(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_telling(leaf: Json) -> bool:
    if isinstance(leaf, str):
        return len(leaf) >= TELLING_TEXT
    if isinstance(leaf, bool) or leaf is None:
        return False
    if isinstance(leaf, int):
        return abs(leaf) >= TELLING_NUMBER
    if isinstance(leaf, float):
        return len(repr(leaf).partition(".")[2]) >= _PLACES or abs(leaf) >= TELLING_NUMBER
    return False


def _by_source(places: Iterable[Place], before: int) -> tuple[Place, ...]:
    """Return the first place in each source numbered *before* that, in their order."""
    first: dict[int, Place] = {}
    for place in places:
        if place.source < before:
            first.setdefault(place.source, place)
    return tuple(first[source] for source in sorted(first))
