"""Whether an event holds a text that somebody looks for: in its type, in what it is about, or in what it records. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from loom.core.envelope import EventEnvelope
from loom.lenses.folding import event_json
from loom_cli.event_lines import EventLine
from loom_cli.readable import readable


def holds(event: EventEnvelope[Any], line: EventLine, text: str) -> bool:
    """Whether *text* is in *event*, whose *line* says it in words. Small letters stand for great ones, too; a great one for itself."""
    as_is = text != text.lower()
    return any(text in (words if as_is else words.lower()) for words in _words(event, line))


def around(words: str, text: str, width: int, *, mark: str) -> str:
    """Return *words* from shortly before *text*, behind a *mark*, where it is not in their first *width* letters; else all of them."""
    looked_in = words if text != text.lower() else words.lower()
    at = looked_in.find(text)
    if at < 0 or at + len(text) + len(mark) <= width:
        return words
    return mark + words[max(0, at - max(0, width - len(text)) // 3) :]


def _words(event: EventEnvelope[Any], line: EventLine) -> Iterator[str]:
    yield from (event.type, line.about, line.says)
    recorded = readable(event_json(event)["payload"])
    yield json.dumps(recorded, ensure_ascii=False)
    yield from _texts(recorded)  # as they are, without what JSON writes for quotes and the ends of lines


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
