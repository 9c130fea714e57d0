"""Finding rows of a timeline by what somebody typed: words, and conditions such as `type:STEP_*`, `call:fetch`, `is:failure`.

All that is typed has to fit. A word fits an event that has it anywhere: in its type, in the identity of its call, in who caused
it, or in a value of its payload, whatever the case of its letters; words in double quotes are one. A condition that begins with `-`
must not fit; but `-79.55` is the number that is below zero, and what begins with a digit must not be there as `-"79.55"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from loom.core.envelope import EventEnvelope
from loom.kernel.codec import payload_json
from loom.lenses.timeline import Row, Timeline, is_about

Event = EventEnvelope[Any]

CONDITIONS: Final = ("type", "call", "kind", "lane", "by", "is")
_FLAGS: Final = ("failure", "run")
_TERM: Final = re.compile(r'(-(?![.\d]))?(?:([a-z]+):)?(?:"([^"]*)"|(\S+))')


class SiftInvalid(ValueError):
    """What was typed is no search; the text says why."""


class Term(NamedTuple):
    """One condition: *name* is one of `CONDITIONS`, "" for a plain word; *fits* tells whether it is to fit or must not."""

    name: str
    text: str
    fits: bool = True


class Sift(NamedTuple):
    """What is looked for; no terms: everything."""

    terms: tuple[Term, ...] = ()

    @property
    def without(self) -> str:
        """What must not fit, as it is told beside how much was found: ` without is:failure`; "" where all has to."""
        told = (f"{term.name}:{term.text}" if term.name else term.text for term in self.terms if not term.fits)
        words = ", ".join(told)
        return f" without {words}" if words else ""


def sift_of(text: str) -> Sift:
    """Return what *text* asks for.

    Raises:
        SiftInvalid: a condition is not known, or its value.
    """
    return Sift(tuple(_terms(text)))


def fits(sift: Sift, timeline: Timeline, row: Row, event: Event) -> bool:
    """Tell whether *row* of *timeline*, which shows *event*, is what *sift* looks for."""
    return all(_FITS[term.name](term.text, timeline, row, event) is term.fits for term in sift.terms)


def _terms(text: str) -> Iterator[Term]:
    for sign, name, quoted, plain in _TERM.findall(text):
        if name not in ("", *CONDITIONS):
            yield Term("", f"{name}:{quoted or plain}".casefold(), not sign)  # a word with a colon: an address, a time
            continue
        value = quoted or plain
        if name == "is" and value not in _FLAGS:
            raise SiftInvalid(f"is:{value} is not known; there are {' and '.join(f'is:{flag}' for flag in _FLAGS)}")
        if name == "type" and "." not in value:
            value = value.upper()
        yield Term(name, value if name else value.casefold(), not sign)


def _has_word(word: str, timeline: Timeline, row: Row, event: Event) -> bool:
    id = timeline.calls[row.call].id if row.call is not None else ""
    by = str(event.metadata.get("principal", ""))
    return any(word in text.casefold() for text in (row.type, id, by)) or holds(payload_json(event.payload), word)


def holds(value: Any, word: str) -> bool:
    """Tell whether a JSON *value* has *word*, which is case-folded, in a key, a text or a number."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as entries:
                if any(word in key.casefold() for key in entries):
                    return True
                waiting.extend(entries.values())
            case list() as items:
                waiting.extend(items)
            case str() as text:
                if word in text.casefold():
                    return True
            case None | True | False as known:
                if word == {None: "null", True: "true", False: "false"}[known]:
                    return True
            case number:
                if word in str(number):
                    return True
    return False


def _is_of_call(text: str, timeline: Timeline, row: Row, event: Event) -> bool:
    return row.call is not None and is_about(timeline.calls[row.call].id, text)


def _is_of_kind(text: str, timeline: Timeline, row: Row, event: Event) -> bool:
    return text == ("run" if row.call is None else timeline.calls[row.call].kind)


def _is_in_lane(text: str, timeline: Timeline, row: Row, event: Event) -> bool:
    path = timeline.lanes[row.lane].path
    return path.startswith(f"{text.rstrip('/')}/")


def _is_flagged(text: str, timeline: Timeline, row: Row, event: Event) -> bool:
    return row.is_failure if text == "failure" else row.call is None


def _is_by(text: str, timeline: Timeline, row: Row, event: Event) -> bool:
    return fnmatchcase(str(event.metadata.get("principal", "")), text)


_FITS: Final[dict[str, Callable[[str, Timeline, Row, Event], bool]]] = {
    "": _has_word,
    "type": lambda text, timeline, row, event: fnmatchcase(row.type, text),
    "call": _is_of_call,
    "kind": _is_of_kind,
    "lane": _is_in_lane,
    "by": _is_by,
    "is": _is_flagged,
}
