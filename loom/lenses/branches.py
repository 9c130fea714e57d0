"""The branches of a run as a tree: who is a fork of whom, how each stands, and which names stand for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from loom.core.ids import ExecutionId
from loom.core.json import JsonObject
from loom.spi.event_store import ExecutionRow
from loom.spi.ref_store import RefMove


class Forked(NamedTuple):
    """A fork: of which log of a run, the last event that it shares with that, and its own first log."""

    link: ExecutionId
    through: int
    row: ExecutionRow


class BranchView(NamedTuple):
    """One branch: the run, how deep in the tree, of which log it is a fork, the last event that it shares with that, and its names."""

    row: ExecutionRow
    depth: int
    source: ExecutionId | None
    through: int | None
    names: tuple[str, ...]


def tree(
    root: ExecutionRow,
    forks: Mapping[ExecutionId, Sequence[Forked]],
    refs: Mapping[str, RefMove],
    main: str,
) -> list[BranchView]:
    """Return the branches below *root*, each followed by its own forks; *forks* has those of every run that has some.

    The name *main* stands for the root until it is moved.
    """
    named: dict[ExecutionId, list[str]] = {}
    for name, move in {main: RefMove(0, root.execution_id, 0), **refs}.items():
        named.setdefault(move.execution_id, []).append(name)

    def below(row: ExecutionRow, depth: int, source: ExecutionId | None, through: int | None) -> Iterator[BranchView]:
        yield BranchView(row, depth, source, through, tuple(sorted(named.get(row.execution_id, ()))))
        for link, last, its_row in forks.get(row.execution_id, ()):
            yield from below(its_row, depth + 1, link, last)

    return list(below(root, 0, None, None))


def branch_json(view: BranchView) -> JsonObject:
    """Return one branch as JSON."""
    index = view.row.index
    return {
        "id": view.row.execution_id,
        "flow": index.flow,
        "status": index.status,
        "started_at": index.started_at,
        "depth": view.depth,
        "source": view.source,
        "through": view.through,
        "names": list(view.names),
    }
