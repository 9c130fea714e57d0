"""Conditions on runs as people write them: `status=failed and attr.customer="c7"`. From text to the tree of where.py.

A test is a field, one of the signs `= != < <= > >= ~ !~` and a value, or a field, `in` or `not in`, and values in parentheses.
Tests stand with `not`, `and`, `or` (which bind in this order) and parentheses. A value is a word, or a text in single or double
quotes, in which a backslash takes the next character as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from loom.core.errors import LoomError
from loom.core.state import Status
from loom.spi.where import Among, Compared, Every, Field, Known, Not, Scalar, Sign, Some, Where

STATUSES: Final[tuple[str, ...]] = tuple(status for status in get_args(Status) if status != "new")
"""What a stored run can be."""

DEPTH_MAX: Final = 50
TESTS_MAX: Final = 200
_SHOWN_MAX: Final = 120
_NUMBER_MAX: Final = 2**63 - 1

Kind: TypeAlias = Literal["text", "status", "time", "duration", "number", "attribute"]

FIELDS: Final[Mapping[str, tuple[Field, Kind]]] = {
    "id": (Field("id"), "text"),
    "flow": (Field("flow"), "text"),
    "status": (Field("status"), "status"),
    "started": (Field("started"), "time"),
    "updated": (Field("updated"), "time"),
    "ended": (Field("ended"), "time"),
    "duration": (Field("took"), "duration"),
    "wake": (Field("wake"), "time"),
    "parent": (Field("parent"), "text"),
    "chain": (Field("chain"), "text"),
    "gates": (Field("gates"), "number"),
    "length": (Field("length"), "number"),
}
"""The fields, beside `attr.NAME`, and what they are."""

NULLABLE: Final = ("ended", "wake", "parent", "attr.NAME")
_ORDER: Final = ("<", "<=", ">", ">=")
_TAKES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "text": ("=", "!=", *_ORDER, "~", "!~"),
    "status": ("=", "!="),
    "time": _ORDER,
    "duration": _ORDER,
    "number": ("=", "!=", *_ORDER),
    "attribute": ("=", "!=", *_ORDER, "~", "!~"),
}
_EXAMPLES: Final[Mapping[Kind, str]] = {
    "text": "flow=refund",
    "status": "status=failed",
    "time": "started > -2h",
    "duration": "duration > 10m",
    "number": "gates > 0",
    "attribute": 'attr.customer="c7"',
}
_MEANT: Final[Mapping[str, str]] = {
    "after": "Write started > -2h, or started > 2026-11-30.",
    "before": "Write started < -2h, or started < 2026-11-30.",
    "age": "Write started < -2h, or duration > 2h.",
    "cost": "Loom does not know what a run costs.",
    "tags": "Write attr.NAME for an attribute.",
}
"""Names of other systems, and of earlier times, with what is written here."""

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+) | (?P<mark>[(),]) | (?P<sign>[=!<>~]+)
      | (?P<quoted>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*') | (?P<open>["']) | (?P<word>[^\s(),=!<>~"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?")
_SPAN: Final = re.compile(r"(?:\d{1,9}[smhdw])+")
_PART: Final = re.compile(r"(\d{1,9})([smhdw])")
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_FLIPPED: Final[Mapping[Sign, Sign]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS: Final[Mapping[str, tuple[Sign, bool]]] = {
    "=": ("=", False),
    "!=": ("=", True),
    "~": ("~", False),
    "!~": ("~", True),
    "<": ("<", False),
    "<=": ("<=", False),
    ">": (">", False),
    ">=": (">=", False),
}
"""What a sign says, and whether it says that it is not so."""


class Columns(NamedTuple):
    """What the rows of a read model have: the *names* in those of its newest *version*."""

    model: str
    version: str
    names: frozenset[str]


class WhereInvalid(LoomError):
    """A condition on runs that cannot be read. *at* is where, counted in characters from 0."""

    code = "where-invalid"

    def __init__(self, message: str, *, text: str, at: int, hint: str = "") -> None:
        self.text, self.at, self.hint = text, at, hint
        super().__init__(f"{message}, at character {at + 1} of {_short(text)!r}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


class _Token(NamedTuple):
    """A piece of the text: *kind* is `word`, `quoted`, `sign`, `mark` or `end`; of what is quoted, *text* is what it says."""

    kind: str
    text: str
    at: int
    stop: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word

    def is_mark(self, mark: str) -> bool:
        return self.kind == "mark" and self.text == mark

    @property
    def told(self) -> str:
        return "nothing" if self.kind == "end" else repr(_short(self.text))


def parse_where(text: str, *, now_ms: int, zone: tzinfo | None = None, columns: Sequence[Columns] = ()) -> Where:
    """Return the condition that *text* is. Times are seen from *now_ms*; those that name no zone are in *zone* (None: the machine's).

    *columns* are what can be asked of read models, as `MODEL.NAME`, or `NAME` alone where that is nothing else.

    Raises:
        WhereInvalid: it is none; where, and what was expected there.
    """
    return _Parser(text, now_ms, zone, columns).whole()


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None, "each character begins some token"
        kind, told = str(found.lastgroup), found[0]
        if kind == "open":
            raise WhereInvalid(
                "the quote is not closed", text=text, at=at, hint="A \\ before a quote is for one inside."
            )
        if kind == "quoted":
            told = _ESCAPED.sub(r"\1", told[1:-1])
        if kind in ("quoted", "word") and not _is_plain(told):
            raise WhereInvalid("this text is none that a run can have", text=text, at=at)
        if kind != "space":
            yield _Token(kind, told, at, found.end())
        at = found.end()
    yield _Token("end", "", len(text), len(text))


def _is_plain(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


class _Tested(NamedTuple):
    """What a test is of: the field, its *name* as it is written, and what it is."""

    name: str
    field: Field
    kind: Kind


def _span_ms(text: str) -> int:
    return sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(text))


class _Parser:
    """One pass over *text*, by recursive descent."""

    def __init__(self, text: str, now_ms: int, zone: tzinfo | None, columns: Sequence[Columns]) -> None:
        self._text, self._now, self._zone, self._columns = text, now_ms, zone, columns
        self._tokens: Sequence[_Token] = list(_tokens(text))
        self._at = self._tests = self._depth = 0

    def whole(self) -> Where:
        where = self._some()
        if self._next.kind != "end":
            raise self._expected("and, or, or the end")
        return where

    # -- the tree ------------------------------------------------------------------------------------------------

    def _some(self) -> Where:
        parts = [self._every()]
        while self._takes_word("or"):
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _every(self) -> Where:
        parts = [self._negated()]
        while self._takes_word("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _negated(self) -> Where:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._refused("this is nested too deeply", self._next)
        if self._takes_word("not"):
            where: Where = Not(self._negated())
        elif self._takes_mark("("):
            where = self._some()
            self._closing()
        else:
            where = self._test()
        self._depth -= 1
        return where

    def _test(self) -> Where:
        self._count()
        tested = self._field()
        negated = self._takes_word("not")
        if negated or self._next.is_word("in"):
            if not self._takes_word("in"):
                raise self._expected("in")
            where = self._among(tested)
        else:
            sign, negated = self._sign(tested)
            where = self._compared(tested, sign)
        return Not(where) if negated else where

    def _count(self) -> None:
        self._tests += 1
        if self._tests > TESTS_MAX:
            raise self._refused(f"these are more than {TESTS_MAX} tests", self._next)

    # -- its parts -----------------------------------------------------------------------------------------------

    def _field(self) -> _Tested:
        token = self._take()
        if token.kind == "word" and token.text.lower() in FIELDS:
            return _Tested(token.text.lower(), *FIELDS[token.text.lower()])
        prefix, dot, attribute = token.text.partition(".")
        if token.kind == "word" and dot and prefix.lower() in ("attr", "attributes"):
            following = self._next
            if following.kind == "quoted" and following.at == token.stop and not attribute:
                attribute = self._take().text
            if attribute:
                return _Tested(f"attr.{attribute}", Field("attr", attribute), "attribute")
        if token.kind in ("word", "quoted") and (found := self._column(token)) is not None:
            return _Tested(token.text, found, "attribute")
        raise self._no_field(token)

    def _column(self, token: _Token) -> Field | None:
        """Return what *token* names in the rows of a read model, None where it names nothing there."""
        model, dot, name = ("", "", token.text) if token.kind == "quoted" else token.text.rpartition(".")
        following = self._next
        if dot and not name and following.kind == "quoted" and following.at == token.stop:
            name = self._take().text
        of = [each for each in self._columns if each.model == model or not dot]
        found = [each for each in of if name in each.names]
        if len(found) > 1:
            hint = f"Write {' or '.join(f'{each.model}.{name}' for each in found)}."
            raise self._refused(f"several read models have {token.told}", token, hint=hint)
        if dot and of and not found:
            raise self._refused(
                f"the rows of {model} have no {name!r}", token, hint=f"They have {', '.join(sorted(of[0].names))}."
            )
        return Field("row", name, found[0].model, found[0].version) if found else None

    def _no_field(self, token: _Token) -> WhereInvalid:
        if token.kind != "word":
            return self._refused(f"expected a field, found {token.told}", token, hint=f"As in {_EXAMPLES['status']}.")
        columns = {name for each in self._columns for name in each.names}
        near = get_close_matches(token.text.lower(), [*FIELDS, *sorted(columns - FIELDS.keys())], n=1)
        rows = "".join(f"; of {each.model}: {', '.join(sorted(each.names))}" for each in self._columns)
        known = f"There are {', '.join(FIELDS)}, and attr.NAME for an attribute{rows}."
        hint = _MEANT.get(token.text.lower()) or (f"Did you mean {near[0]}? {known}" if near else known)
        return self._refused(f"runs have no field {token.told}", token, hint=hint)

    def _sign(self, tested: _Tested) -> tuple[Sign, bool]:
        name, _, kind = tested
        token, takes = self._next, _TAKES[kind]
        if token.kind != "sign":
            raise self._expected(f"{', '.join(takes)} or in after {name}", hint=f"As in {_EXAMPLES[kind]}.")
        self._take()
        if token.text in takes or (token.text in ("=", "!=") and self._next.is_word("null")):
            return _SIGNS[token.text]
        told = f"{name} is not compared by {token.text}" if token.text in _SIGNS else f"{token.told} is no sign"
        raise self._refused(told, token, hint=f"It takes {', '.join(takes)}, as in {_EXAMPLES[kind]}.")

    def _value(self, kind: Kind) -> _Token:
        if self._next.kind not in ("word", "quoted"):
            raise self._expected("a value", hint=f"As in {_EXAMPLES[kind]}; quote what is no plain word.")
        return self._take()

    def _among(self, tested: _Tested) -> Where:
        name, field, kind = tested
        if "=" not in _TAKES[kind]:
            raise self._refused(f"{name} is compared by {', '.join(_TAKES[kind])} alone", self._next)
        if not self._takes_mark("("):
            raise self._expected("(", hint="As in status in (failed, cancelled).")
        values = [*self._one_of(tested)]
        while self._takes_mark(","):
            self._count()
            values += self._one_of(tested)
        self._closing()
        return Among(field, tuple(values))

    def _one_of(self, tested: _Tested) -> Sequence[Scalar]:
        token = self._value(tested.kind)
        if token.is_word("null"):
            raise self._refused("null is none of several values", token, hint=f"Write {tested.name} = null or ...")
        return self._equals(tested, token)

    # -- a test --------------------------------------------------------------------------------------------------

    def _compared(self, tested: _Tested, sign: Sign) -> Where:
        """Return the test by *sign* of what stands next."""
        field, token = tested.field, self._value(tested.kind)
        if token.is_word("null"):
            return self._null(tested, sign, token)
        if sign == "=":
            values = self._equals(tested, token)
            return Compared(field, "=", values[0]) if len(values) == 1 else Among(field, tuple(values))
        if sign == "~":
            return Compared(field, "~", token.text)
        if tested.kind == "duration":
            return self._lasted(Compared(field, sign, self._span(token)))
        return Compared(field, sign, self._ordered(tested, token))

    def _null(self, tested: _Tested, sign: Sign, token: _Token) -> Where:
        if tested.kind != "attribute" and tested.name not in NULLABLE:
            told = f"{tested.name} always has a value"
            raise self._refused(told, token, hint=f"Only {', '.join(NULLABLE)} can be null.")
        if sign != "=":
            raise self._refused("null is neither smaller nor larger", token, hint=f"Write {tested.name} = null.")
        return Not(Known(tested.field))

    def _lasted(self, took: Compared) -> Where:
        """A run that has not ended has lasted until now."""
        began = Compared(Field("started"), _FLIPPED[took.sign], self._now - int(took.value))
        return Some((took, Every((Not(Known(Field("ended"))), began))))

    def _equals(self, tested: _Tested, token: _Token) -> Sequence[Scalar]:
        """Return what *token* can stand for; an attribute's word is a number or truth, or the text that reads so."""
        if tested.kind == "status":
            return [self._status(token)]
        if tested.kind == "number":
            return [self._number(tested.name, token)]
        if tested.kind == "attribute" and token.kind == "word":
            if token.text in ("true", "false"):
                return [token.text == "true", token.text]
            if _NUMBER.fullmatch(token.text):
                return [self._any_number(token), token.text]
        return [token.text]

    def _ordered(self, tested: _Tested, token: _Token) -> Scalar:
        if tested.kind == "time":
            return self._moment(tested.name, token)
        if tested.kind == "number":
            return self._number(tested.name, token)
        if tested.kind == "attribute" and token.kind == "word" and _NUMBER.fullmatch(token.text):
            return self._any_number(token)
        return token.text

    # -- values --------------------------------------------------------------------------------------------------

    def _status(self, token: _Token) -> str:
        status = token.text.lower().replace("-", "_").replace(" ", "_")
        if status in STATUSES:
            return status
        near = get_close_matches(status, STATUSES, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"One of {', '.join(STATUSES)}."
        raise self._refused(f"{token.told} is no status", token, hint=hint)

    def _number(self, name: str, token: _Token) -> int:
        if not re.fullmatch(r"-?\d{1,18}", token.text):
            raise self._refused(f"{name} is a whole number, and not {token.told}", token, hint=f"As in {name} > 0.")
        return int(token.text)

    def _any_number(self, token: _Token) -> Scalar:
        try:
            number: float = int(token.text)
        except ValueError:
            number = float(token.text)
        if abs(number) > _NUMBER_MAX:
            number = float(number)
        elif number == int(number):
            number = int(number)
        if number in (float("inf"), float("-inf")):
            raise self._refused(f"{_short(token.text)} is too large a number", token)
        return number

    def _span(self, token: _Token) -> int:
        if not _SPAN.fullmatch(token.text):
            hint = "Write a number with its unit: 90s, 15m, 2h, 3d, 1w, or 1h30m."
            raise self._refused(f"{token.told} is no duration", token, hint=hint)
        return _span_ms(token.text)

    def _moment(self, name: str, token: _Token) -> int:
        text = token.text
        if text.lower() == "now":
            return self._now
        if text[:1] in ("+", "-") and _SPAN.fullmatch(text[1:]):
            return self._now + (1 if text[0] == "+" else -1) * _span_ms(text[1:])
        if _SPAN.fullmatch(text):
            hint = f"Write -{text} for so long ago, +{text} for the time to come."
            raise self._refused(f"{token.told} is no time", token, hint=hint)
        try:
            moment = datetime.fromisoformat(text)
            local = moment.replace(tzinfo=self._zone) if moment.tzinfo is None and self._zone is not None else moment
            return round(local.astimezone().timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            hint = f"Write {name} > -2h, or a time such as 2026-11-30 or 2026-11-30T09:00."
            raise self._refused(f"{token.told} is no time", token, hint=hint) from None

    # -- tokens --------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._at += 1
        return token

    def _takes_word(self, word: str) -> bool:
        if self._next.is_word(word):
            self._at += 1
            return True
        return False

    def _takes_mark(self, mark: str) -> bool:
        if self._next.is_mark(mark):
            self._at += 1
            return True
        return False

    def _closing(self) -> None:
        if not self._takes_mark(")"):
            raise self._expected(")")

    def _expected(self, what: str, *, hint: str = "") -> WhereInvalid:
        return self._refused(f"expected {what}, found {self._next.told}", self._next, hint=hint)

    def _refused(self, message: str, token: _Token, *, hint: str = "") -> WhereInvalid:
        return WhereInvalid(message, text=self._text, at=token.at, hint=hint)
