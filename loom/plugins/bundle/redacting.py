"""Leaving values out of logs, so that a bundle can be handed to those who may see what a run did and not with what.

What users put into a run stands in some fields of its facts; only what is in those is replaced. Names are not: ids, labels, topics and
keys are what everything is found by. A digest of a short value gives the value away, and so does an address of a content: they
are blanked. The log says of itself that it was redacted, in its rules, so that nothing drives or replays it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.driving.reading import REDACTED
from loom.plugins.bundle.shapes import Redacted
from loom.spi.event_store import EventRecord

MARK: Final = "[redacted]"
"""What stands for a value; it tells nothing of it."""

VALUES: Final = frozenset(
    {
        "answer",
        "args",
        "attributes",
        "candidates",
        "choice",
        "chunks",
        "context",
        "data",
        "failure",
        "input",
        "message",
        "note",
        "policy",
        "principal",
        "reason",
        "result",
        "schema",
        "show",
        "value",
        "why",
    }
)
"""The fields of facts, and of their metadata, that hold what users put there."""

_NESTED: Final = frozenset({"given", "differences", "difference", "asked", "recorded", "now", "extra"})
"""Fields that hold other facts' fields."""
_DIGESTS: Final = frozenset({"digest", "shown"})
_PAIRS: Final = frozenset({"$map", "$counter", "$ordered", "$defaultdict"})
"""How mappings stand in a log that are lists of pairs there."""
_NO_CONTENT: Final = "0" * 64
_REF: Final = re.compile(r"[0-9a-f]{64}")


class RedactionRefused(LoomError):
    """What was to be left out stands in a name, by which things are found; nothing was written."""

    code = "redaction-refused"
    hint = "Names cannot be redacted. Leave that run out, or hand on what you copy out of `loom show` yourself."

    def __init__(self, *, execution_id: str, where: str) -> None:
        self.execution_id, self.where = execution_id, where
        super().__init__(f"a pattern is found in {where} of {execution_id}")


class Redaction:
    """What is left out: the values of *fields*, and in texts what fits one of *patterns*.

    A field is named by its key, or by the last keys on the way to it, with dots between (`card`, `args.card.number`); `*` and `?`
    stand for what they stand for in a shell.
    """

    def __init__(self, fields: Sequence[str] = (), patterns: Sequence[re.Pattern[str]] = ()) -> None:
        self._fields = [field.split(".") for field in fields]
        self._told, self._patterns = list(fields), list(patterns)
        self._count = 0

    def summary(self) -> Redacted:
        """Return what the manifest says of it: no pattern, since that may say what it hides."""
        return Redacted(self._told, len(self._patterns), self._count)

    def refuse_name(self, execution_id: ExecutionId) -> None:
        """Refuse an id in which a pattern is found.

        Raises:
            RedactionRefused: it is.
        """
        if self._is_found(execution_id):
            raise RedactionRefused(execution_id="a run", where="the id")

    def record(self, execution_id: ExecutionId, record: EventRecord) -> EventRecord:
        """Return an event without what is left out.

        Raises:
            RedactionRefused: a pattern is found in a name.
            ValueError: the event is no JSON.
        """
        where = f"event {record.sequence}"
        payload = self._facts(execution_id, orjson.loads(record.payload), where)
        if record.type == "EXECUTION_STARTED":
            payload["rules"] = {**payload.get("rules", {}), REDACTED: 1}
        metadata = self._facts(execution_id, orjson.loads(record.metadata), where) if record.metadata else None
        about = orjson.dumps(metadata) if metadata else b""
        return EventRecord(record.sequence, record.type, record.at, orjson.dumps(payload), about)

    def _facts(self, run_id: ExecutionId, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
        return {name: self._field(run_id, name, value, f"{where} ({name})") for name, value in fields.items()}

    def _field(self, run_id: ExecutionId, name: str, value: Any, where: str) -> Any:
        if name in VALUES:
            return self._whole(value) if self._is_meant((name,)) else self._value(value, (name,))
        if name in _DIGESTS or (name == "recorded" and isinstance(value, str)):
            return ""
        if name in _NESTED and isinstance(value, list):
            return [self._facts(run_id, each, where) for each in value]
        if name in _NESTED and isinstance(value, dict):
            return self._facts(run_id, value, where)
        self._refuse_found(run_id, value, where)
        return value

    def _whole(self, value: Any) -> Any:
        """Return a field of a fact without its values: it stays an object where it was one."""
        self._count += 1
        if isinstance(value, dict):
            return dict.fromkeys(value, MARK)
        return [MARK] if isinstance(value, list) else MARK

    def _value(self, value: Any, path: tuple[str, ...]) -> Any:
        match value:
            case dict():
                return {self._text(key): self._entry(key, each, path) for key, each in value.items()}
            case [str(key), each] if path[-1] in _PAIRS:
                return [self._text(key), self._entry(key, each, path)]
            case list():
                return [self._value(each, path) for each in value]
            case str():
                return self._text(value)
            case int() | float() if not isinstance(value, bool) and self._is_found(str(value)):
                self._count += 1
                return MARK
            case _:
                return value

    def _entry(self, key: str, value: Any, path: tuple[str, ...]) -> Any:
        if key == "ref" and isinstance(value, str) and _REF.fullmatch(value):
            return _NO_CONTENT
        below = (*path, key)
        if self._is_meant(below):
            self._count += 1
            return MARK
        return self._value(value, below)

    def _text(self, text: str) -> str:
        for pattern in self._patterns:
            text, times = pattern.subn(MARK, text)
            self._count += times
        return text

    def _is_meant(self, path: tuple[str, ...]) -> bool:
        return any(_fits(path, field) for field in self._fields)

    def _is_found(self, text: str) -> bool:
        return any(pattern.search(text) for pattern in self._patterns)

    def _refuse_found(self, run_id: ExecutionId, value: Any, where: str) -> None:
        texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and self._is_found(text) for text in texts):
            raise RedactionRefused(execution_id=run_id, where=where)


def _fits(path: Sequence[str], field: Sequence[str]) -> bool:
    plain = [key for key in path if not key.startswith("$")]
    last = plain[-len(field) :]
    return len(last) == len(field) and all(map(fnmatch.fnmatchcase, last, field))
