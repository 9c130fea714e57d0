"""Which families may be deleted, from how their logs and those of their relatives stand. The same rules for every store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import Head
from loom.spi.event_trim import Deleted, Kept


class LogStand(NamedTuple):
    """How a log stands: *held* by somebody, *called* since it was given up. *chain* is its own id in a first link.

    *parent* has spawned it, of *source* it is a fork: that life of it, if it is there. Both are empty where there is none.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    length: int
    ended: bool
    held: bool
    called: bool
    chain: str
    parent: str
    source: str

    @property
    def names(self) -> set[str]:
        """The ids of those that it belongs to."""
        return {self.chain, self.parent, self.source} - {""}


def named(families: Sequence[Sequence[Head]]) -> list[ExecutionId]:
    """Return the ids of all logs of *families*, each once."""
    return list(dict.fromkeys(head.execution_id for family in families for head in family))


def named_by(logs: Iterable[LogStand]) -> list[str]:
    """Return the ids of those that *logs* belong to and that are not among them."""
    logs = list(logs)
    own = {log.execution_id for log in logs}
    return sorted({name for log in logs for name in log.names} - own)


def kept(
    families: Sequence[Sequence[Head]], logs: Collection[LogStand], placed: Collection[str]
) -> Sequence[Kept | None]:
    """Return why each family is kept, None for one that may be deleted.

    *logs* are those of the families that are there, those that belong to one of them, and those that they belong to. *placed* are the runs that have taken the place of one which has not ended.
    """
    known = {log.execution_id: log for log in logs}
    naming: dict[str, list[ExecutionId]] = {}
    for log in logs:
        for name in log.names:
            naming.setdefault(name, []).append(log.execution_id)
    return [next(_refusals(family, known, naming, placed), None) for family in families]


def gone(families: Sequence[Sequence[Head]], refusals: Sequence[Kept | None]) -> list[Head]:
    """Return the heads of all logs of the families that are not refused."""
    return [head for family, refusal in zip(families, refusals, strict=True) if refusal is None for head in family]


def results(families: Sequence[Sequence[Head]], refusals: Sequence[Kept | None]) -> list[Deleted | Kept]:
    """Return what became of each family once those that are not refused are deleted."""
    return [
        refusal or Deleted(len(family), sum(head.length for head in family))
        for family, refusal in zip(families, refusals, strict=True)
    ]


def _refusals(
    family: Sequence[Head],
    known: Mapping[ExecutionId, LogStand],
    naming: Mapping[str, Sequence[ExecutionId]],
    placed: Collection[str],
) -> Iterator[Kept]:
    members = {head.execution_id for head in family}
    for head in family:
        log = known.get(head.execution_id)
        if log is None:
            yield Kept("gone", head.execution_id)
            continue
        if (log.incarnation, log.length) != (head.incarnation, head.length):
            yield Kept("changed", head.execution_id)
        if not log.ended:
            yield Kept("open", head.execution_id)
        if log.held:
            yield Kept("held", head.execution_id)
        if log.called:
            yield Kept("asked", head.execution_id)
        if head.execution_id in placed:
            yield Kept("place", head.execution_id)
        above = [name for name in log.names if name in known]
        for relative in sorted({*above, *naming.get(head.execution_id, ())} - members):
            yield Kept("kin", ExecutionId(relative))
