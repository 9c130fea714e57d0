"""What a replay of a stored run comes to: one typed verdict a run. Pure.

A verdict says what would become of the run if the code at hand took it up, and, of a run that has ended, whether that code
would bring it to the same end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from loom.core.json import JsonObject

VerdictKind: TypeAlias = Literal[
    "same", "migrates", "breaks", "unreadable", "flow_missing", "newer", "redacted", "damaged"
]
"""In order: the same code asks the same; other code asks what is recorded; it does not; a value on the log cannot be revived by
the types of today; no such flow; the log was written by a newer Loom; values were left out of it; it is not whole."""

FINE: Final[frozenset[VerdictKind]] = frozenset({"same", "migrates"})
"""The verdicts under which a run can be taken up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the replay of one run came to.

    *status* is that of the run by its log, *length* how many events it has. Where it breaks: *step* is the identity that is to
    blame and *sequence* the event, *recorded* and *asked* are both sides as JSON objects (`kind`, `id`, `args`, `where`; None
    for nothing), *where* is `file:line` in the author's code, *why* the likely cause in words. *differences* are the arguments
    that changed code asks otherwise, as EXECUTION_MIGRATED would note them; *end* is how the run ended (`recorded`) and how it
    would end `now`, None where that is the same, or the run has not ended. *digest* names the state after its last event, as every
    lens does; None where its log is not whole.
    """

    id: str
    kind: VerdictKind
    flow: str = ""
    status: str = ""
    length: int = 0
    step: str | None = None
    sequence: int | None = None
    recorded: Mapping[str, Any] | None = None
    asked: Mapping[str, Any] | None = None
    where: str = ""
    why: str = ""
    hint: str = ""
    differences: tuple[JsonObject, ...] = ()
    end: Mapping[str, Any] | None = None
    digest: str | None = None

    @property
    def is_fine(self) -> bool:
        """Whether the code at hand can take the run up."""
        return self.kind in FINE


def without_traceback(failure: Mapping[str, Any] | None) -> JsonObject | None:
    """Return the record of a failure without what moves with every edit of a file: the lines that it passed."""
    if failure is None:
        return None
    kept = {name: value for name, value in failure.items() if name != "traceback"}
    if isinstance(cause := kept.get("cause"), Mapping):
        kept["cause"] = without_traceback(cause)
    return kept
