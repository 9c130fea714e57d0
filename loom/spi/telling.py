"""Telling others: listeners, who are arbitrary code, and waiters, who may have gone meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from loom.core.errors import LoomError

_log: Final = logging.getLogger("loom.kernel")


def tell(listener: Callable[..., None], *what: Any) -> None:
    """Call *listener*, who must not be able to stop a run."""
    try:
        listener(*what)
    except Exception:  # noqa: BLE001  # see above
        _log.exception("a listener failed at %s", what)


def resolve(future: asyncio.Future[Any], value: Any) -> None:
    """Give *future* its result, unless its waiter was cancelled."""
    if not future.done():
        future.set_result(value)


def settle(future: asyncio.Future[Any], error: LoomError | None) -> None:
    """End *future*, unless its waiter was cancelled: with *error* if there is one."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
