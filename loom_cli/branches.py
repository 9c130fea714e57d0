"""The branches of a run as a command: read from the store, and told as rows."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from loom.core.ids import ExecutionId
from loom.driving.branch_families import MAIN, family_of
from loom.driving.chains import last_link
from loom.driving.errors import ExecutionNotFound
from loom.driving.run_reader import RunReader
from loom.lenses.branches import BranchView, Forked, tree
from loom.spi.event_fork import EventFork
from loom.spi.event_store import ExecutionQuery, ExecutionRow
from loom.spi.ref_store import RefMove, RefStore
from loom_cli.ids import meant_id
from loom_cli.screen import STATUS_STYLES, Screen, Styled
from loom_cli.times import date_time, duration
from loom_cli.trials import STOPPED

if TYPE_CHECKING:
    from loom.app.config import LoomApp
    from loom.core.state import ExecutionState
    from loom.driving.promoting import Promotion

_LINKS_AT_ONCE: Final = 1_000


async def branches_of(storage: RunReader, text: str) -> list[BranchView]:
    """Return the family of the run that *text* means, as a tree.

    Raises:
        ExecutionNotFound, AmbiguousExecution: *text* means none, or several.
        InvalidDeclaration: the store keeps no branches.
    """
    family = await family_of(storage, await meant_id(storage, text))
    assert isinstance(storage, EventFork)
    assert isinstance(storage, RefStore)
    root = await storage.row(family.execution_id)
    if root is None:
        raise ExecutionNotFound(execution_id=text, store=storage.url)
    forks: dict[ExecutionId, list[Forked]] = {}
    left = [root]
    while left:
        row = left.pop()
        for link in await _links(storage, row):
            for fork in await storage.forks_of(link.execution_id, link.incarnation):
                its_row = await storage.row(fork.execution_id)
                if its_row is not None:
                    forks.setdefault(row.execution_id, []).append(
                        Forked(link.execution_id, fork.through, await _standing(storage, its_row))
                    )
                    left.append(its_row)
    return tree(await _standing(storage, root), forks, await storage.refs(family), MAIN)


async def _links(storage: RunReader, first: ExecutionRow) -> list[ExecutionRow]:
    """Return the logs of the chain that begins with *first*, the first one first."""
    if first.index.status != "continued":
        return [first]
    found: list[ExecutionRow] = []
    query = ExecutionQuery(chain=first.execution_id, limit=_LINKS_AT_ONCE)
    while page := await storage.find(query):
        found += page
        query = replace(query, before=(page[-1].index.started_at, page[-1].execution_id))
    return found[::-1] or [first]


async def _standing(storage: RunReader, first: ExecutionRow) -> ExecutionRow:
    """Return the row of a run with the status of its chain, which is that of the last link."""
    status = (await last_link(storage, first)).index.status
    return replace(first, index=replace(first.index, status=status))


async def moves_of(storage: RunReader, text: str, name: str) -> Sequence[RefMove]:
    """Return the moves of a name in the family of the run that *text* means; errors as those of `branches_of`."""
    family = await family_of(storage, await meant_id(storage, text))
    assert isinstance(storage, RefStore)
    return await storage.ref_moves(family, name)


def branch_rows(
    screen: Screen, views: Sequence[BranchView], stopped: Container[ExecutionId], *, now_ms: int
) -> Iterator[tuple[str | Styled, ...]]:
    """Yield a row for each branch, forks below what they are forks of; those that are *stopped* trials say so."""
    for view, lead in zip(views, leads([view.depth for view in views]), strict=True):
        index = view.row.index
        status = Styled(index.status.replace("_", " "), STATUS_STYLES.get(index.status, ""))
        if view.row.execution_id in stopped:
            status = Styled(STOPPED, STATUS_STYLES["suspended"])
        yield (
            "".join(screen.sign(sign) if sign else "   " for sign in lead) + view.row.execution_id,
            status,
            "" if view.through is None else str(view.through),
            duration(max(0, now_ms - index.started_at)),
            Styled(", ".join(view.names), "bold"),
        )


def leads(depths: Sequence[int]) -> list[list[str]]:
    """Return the signs that lead to each row of a tree, given how deep each stands: a way *through* to later ones, or none (empty)."""
    found: list[list[str]] = []
    goes_on: list[
        bool
    ] = []  # by depth from 1: whether a row stands there below the present one, before one that is less deep
    for depth in reversed(depths):
        goes_on = (goes_on + [False] * depth)[:depth]
        own = ["branch" if goes_on[-1] else "last"] if depth else []
        found.append(["through" if is_on else "" for is_on in goes_on[: max(depth - 1, 0)]] + own)
        if depth:
            goes_on[-1] = True
    return found[::-1]


def move_rows(moves: Sequence[RefMove]) -> list[tuple[str | Styled, ...]]:
    """Return a row for each move, the last one first."""
    return [
        (str(move.number), Styled(move.execution_id, "bold"), date_time(move.at), move.principal, move.reason)
        for move in reversed(moves)
    ]


class Main(NamedTuple):
    """Which branch of a run's family counts, since when (ms since the epoch), and whether it is the run itself."""

    execution_id: ExecutionId
    at: int
    is_it: bool

    @property
    def words(self) -> str:
        return f"{'it is main' if self.is_it else f'main is {self.execution_id}'} since {date_time(self.at)}"


async def main_of(storage: RunReader, run_id: ExecutionId) -> Main | None:
    """Return which branch of the family of *run_id* was promoted, None where none was."""
    if not isinstance(storage, EventFork) or not isinstance(storage, RefStore):
        return None
    row = await storage.row(run_id)
    if row is None:
        return None
    try:
        move = (await storage.refs(await family_of(storage, run_id))).get(MAIN)
    except ExecutionNotFound:  # what it is a fork of is gone
        return None
    return None if move is None else Main(move.execution_id, move.at, move.execution_id in (run_id, row.index.chain))


async def say_main(app: LoomApp, run_id: ExecutionId, screen: Screen) -> None:
    """Say before a run is driven that another branch of its family counts, where it is so."""
    async with app:
        main = await main_of(app.storage, run_id)
    if main is not None and not main.is_it:
        told = f"{main.words}, and not {run_id}: what this does, it does for real on a branch that does not count"
        screen.note(Styled(told, "yellow"))


async def say_parent(app: LoomApp, state: ExecutionState, screen: Screen) -> None:
    """Say before a child is tried again that the run which started it has ended, and takes up nothing any more."""
    if state.facts.parent is None or state.status != "failed":
        return
    parent = ExecutionId(state.facts.parent["execution_id"])
    async with app:
        row = await app.storage.row(parent)
    if row is not None and row.index.ended:
        told = f"{parent}, which started it, had this failure and is {row.index.status}: what a retry does, it does for real, and nobody takes it up"
        screen.note(Styled(told, "yellow"))


def result_words(state: ExecutionState) -> str:
    """Return that a branch which was promoted has no result yet, empty where it has one."""
    if state.status == "completed":
        return ""
    how = "nobody has driven it" if state.status == "forked" else f"it is {state.status.replace('_', ' ')}"
    return f"{state.execution_id} has no result yet: {how}"


def promotion_words(promotion: Promotion) -> str:
    """Return the first line: what the name stands for now, and stood for before."""
    if promotion.before == promotion.execution_id:
        return f"is {promotion.name} of {promotion.family} already"
    told = f"is {promotion.name} of {promotion.family} now; before it was {promotion.before}"
    return f"{told}. It is forked anew, to do for real what was simulated" if promotion.again else told
