"""From what somebody typed to the execution meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from loom.core.ids import ExecutionId, execution_id
from loom.core.links import FIRST, link_named
from loom.driving.run_reader import RunReader
from loom.spi.event_store import ExecutionQuery
from loom_cli.errors import AmbiguousExecution

_CANDIDATES_MAX: Final = 10
_LOOKED_AT_MAX: Final = 500


async def meant_id(storage: RunReader, text: str) -> ExecutionId:
    """Return the id that *text* is, or is the beginning of. The logs of a chain are one, and the first of them is its id.

    Raises:
        AmbiguousExecution: several begin so; they are listed.
        ExecutionNotFound: none does; ids that look like it are told.
    """
    wanted = execution_id(text)
    if await storage.head(wanted) is not None:
        return wanted
    found = await storage.ids(prefix=wanted, limit=_CANDIDATES_MAX + 1)
    if len(found) == 1 or (found and await _is_one_chain(storage, wanted, found)):
        return found[0]
    if found:
        raise AmbiguousExecution(text=text, candidates=found[:_CANDIDATES_MAX], more=len(found) > _CANDIDATES_MAX)
    from loom.driving.errors import ExecutionNotFound  # with half of what drives runs: a list has no use for it

    raise ExecutionNotFound(execution_id=text, store=storage.url, near=await _near(storage, text))


async def _is_one_chain(storage: RunReader, wanted: str, found: Sequence[str]) -> bool:
    """Whether the ids that begin with *wanted*, of which the first ones are *found*, are all those of one chain."""
    chain = found[0]
    if not all(link_named(id) is not None and id.startswith(f"{chain}~") for id in found[1:]):
        return False
    return not await storage.ids(prefix=wanted, after=f"{chain}~:", limit=1)  # which comes after every number


async def meant_link(storage: RunReader, text: str) -> str:
    """Return as `meant_id`; where *text* names the first log of a chain (`ID~1`), what it does with the whole id.

    Raises:
        As `meant_id`.
    """
    if not text.endswith(FIRST):
        return await meant_id(storage, text)
    return await meant_id(storage, text.removesuffix(FIRST)) + FIRST


async def _near(storage: RunReader, text: str) -> list[str]:
    newest = await storage.find(ExecutionQuery(limit=_LOOKED_AT_MAX))
    known = [str(row.execution_id) for row in newest]
    same = [id for id in known if id.casefold() == text.casefold()]
    return same or difflib.get_close_matches(text, known)
