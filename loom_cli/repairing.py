"""Index rows on their way to being right: which runs are looked at, and what is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from loom.core.ids import ExecutionId
from loom.services.reindexing import Became, Reindexed, reindexed
from loom.spi.event_store import Storage
from loom_cli.cli import Cli
from loom_cli.ids import meant_id
from loom_cli.wording import counted

WORDS: Final[dict[Became, str]] = {
    "repaired": "repaired",
    "wrong": "wrong",
    "driven": "wrong, and left to whoever drives it",
    "unreadable": "its log cannot be read",
}
_PAGE: Final = 1000


@dataclass(slots=True)
class Repair:
    """A repair of the store *url*: how many rows became what, and all that is to be told of some."""

    url: str
    dry_run: bool
    counts: Counter[Became] = field(default_factory=Counter)
    told: list[Reindexed] = field(default_factory=list)

    @classmethod
    async def of(cls, cli: Cli, ids: Sequence[str], *, store: str | None, dry_run: bool) -> Repair:
        """Carry it out.

        Raises:
            ExecutionNotFound, AmbiguousExecution: one of *ids* is none; nothing was changed.
            StoreError: what is repaired is repaired; asking again goes on.
        """
        async with _opened(cli, store, dry_run=dry_run) as storage:
            repair = cls(storage.url, dry_run)
            named = [await meant_id(storage, text) for text in ids]
            async for name in _each(named) if ids else _all(storage):
                repair.note(await reindexed(storage, name, dry_run=dry_run))
            return repair

    def note(self, found: Reindexed | None) -> None:
        """Count what became of a row; None: its run was deleted meanwhile."""
        if found is not None:
            self.counts[found.became] += 1
            if found.became != "right":
                self.told.append(found)

    def is_left(self, *, dry_run: bool) -> bool:
        """Whether a row stays wrong that was to be put right, or nobody can say whether it is."""
        return bool(self.counts["unreadable"]) or (not dry_run and self.counts["wrong"] > 0)


@asynccontextmanager
async def _opened(cli: Cli, store: str | None, *, dry_run: bool) -> AsyncIterator[Storage]:
    if not dry_run:
        async with cli.writer(store) as storage:
            yield storage
        return
    reader = cli.reader(store)
    try:
        yield reader
    finally:
        await reader.close()


async def _each(names: Sequence[ExecutionId]) -> AsyncIterator[ExecutionId]:
    for name in names:
        yield name


async def _all(storage: Storage) -> AsyncIterator[ExecutionId]:
    after = ""
    while page := await storage.ids(after=after, limit=_PAGE):
        for name in page:
            yield name
        after = page[-1]


def repair_json(repair: Repair) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {
        "store": repair.url,
        "dry_run": repair.dry_run,
        "looked_at": repair.counts.total(),
        "runs": [
            {
                "id": each.execution_id,
                "became": each.became,
                "differences": {name: found._asdict() for name, found in each.differences.items()},
                "error": {"code": each.error.code, "message": str(each.error)} if each.error is not None else None,
            }
            for each in repair.told
        ],
    }


def repair_lines(repair: Repair) -> list[str]:
    """Return the same for people, a line each."""
    lines = []
    for each in repair.told:
        lines.append(f"{each.execution_id}  {WORDS[each.became]}" + (f": {each.error}" if each.error else ""))
        lines += [f"    {name}: {found.was!r} should be {found.should!r}" for name, found in each.differences.items()]
    looked_at = counted(repair.counts.total(), "run", "runs")
    told = [f"{count:,} {became}" for became, count in repair.counts.items() if became != "right"]
    return [*lines, f"looked at {looked_at} in {repair.url}: {', '.join(told) or 'all are right'}"]
