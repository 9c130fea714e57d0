"""From what somebody typed to the execution meant."""

from __future__ import annotations

import difflib
from typing import Final

from loom.core.ids import ExecutionId, execution_id
from loom.driving.errors import ExecutionNotFound
from loom.spi.event_store import ExecutionQuery, Storage
from loom_cli.errors import AmbiguousExecution

_CANDIDATES_MAX: Final = 10
_LOOKED_AT_MAX: Final = 500


async def meant_id(storage: Storage, text: str) -> ExecutionId:
    """Return the id that *text* is, or is the beginning of.

    Raises:
        AmbiguousExecution: several begin so; they are listed.
        ExecutionNotFound: none does; ids that look like it are told.
    """
    wanted = execution_id(text)
    if await storage.head(wanted) is not None:
        return wanted
    found = await storage.ids(prefix=wanted, limit=_CANDIDATES_MAX + 1)
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousExecution(text=text, candidates=found[:_CANDIDATES_MAX], more=len(found) > _CANDIDATES_MAX)
    raise ExecutionNotFound(execution_id=text, store=storage.url, near=await _near(storage, text))


async def _near(storage: Storage, text: str) -> list[str]:
    newest = await storage.find(ExecutionQuery(limit=_LOOKED_AT_MAX))
    known = [str(row.execution_id) for row in newest]
    same = [id for id in known if id.casefold() == text.casefold()]
    return same or difflib.get_close_matches(text, known)
