"""How the links of a chain are named: the first by the id of the chain, each later one by that and its number. Pure."""

from __future__ import annotations

import re
from typing import Final

from loom.core.errors import InvalidId
from loom.core.ids import ExecutionId

FIRST: Final = "~1"
"""Added to the id of a chain, this names its first link, whose own id is that of the chain."""

_LINK: Final = re.compile(r"~[0-9]+\Z")


def chosen_id(id: ExecutionId) -> ExecutionId:
    """Return *id* as one that a caller may choose.

    Raises:
        InvalidId: it reads like that of a later link.
    """
    if is_later_link(id):
        raise InvalidId(kind="execution", text=id)
    return id


def is_later_link(run_id: str) -> bool:
    """Whether *run_id* is that of a link after the first; no caller can choose such an id."""
    return _LINK.search(run_id) is not None


def link_named(text: str) -> str | None:
    """Return the id of the link that *text* names by itself: `ID~2` the second, `ID~1` the first; None: it names a chain."""
    return text.removesuffix(FIRST) if text.endswith(FIRST) else text if is_later_link(text) else None


def once(run_id: str, key: str) -> str:
    """Return *key*, of what may happen once in the link *run_id*, as a key in the lane that its chain shares."""
    return f"{run_id.rpartition('~')[2]}:{key}" if key and is_later_link(run_id) else key
