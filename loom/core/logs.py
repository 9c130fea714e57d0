"""Loggers for flows and steps: the standard library's, with the run in every record."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn

_Adapter = logging.LoggerAdapter[logging.Logger]


class _RunLog(_Adapter):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra = dict(self.extra or {}) | dict(kwargs.get("extra") or {})
        return msg, {**kwargs, "extra": extra}

    if not TYPE_CHECKING:  # which tells the author sooner

        def __call__(self, *_: object, **__: object) -> NoReturn:
            raise TypeError('a log is no function: write log.info("..."), or debug, warning, error')


class FlowLog(_RunLog):
    """The logger of a flow: silent while the flow replays, so that each line appears once (field fault 44)."""

    def __init__(self, execution_id: str, flow: str, is_replaying: Callable[[], bool]) -> None:
        super().__init__(logging.getLogger(f"loom.flow.{flow}"), {"execution_id": execution_id})
        self._is_replaying = is_replaying

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # the standard library's name
        """Return whether a line of *level* is written: never while replaying."""
        return not self._is_replaying() and super().isEnabledFor(level)


def step_log(execution_id: str, step_id: str, attempt: int) -> _Adapter:
    """Return the logger that a step's context carries."""
    about = {"execution_id": execution_id, "step_id": step_id, "attempt": attempt}
    return _RunLog(logging.getLogger("loom.step"), about)
