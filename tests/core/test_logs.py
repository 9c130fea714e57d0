"""The loggers of flows and steps."""

from __future__ import annotations

from typing import Any

import pytest

from loom.core.logs import FlowLog, step_log


@pytest.mark.parametrize("log", [FlowLog("r-1", "order", lambda: False), step_log("r-1", "pay", 1)])
def test_a_log_that_is_called_says_what_to_write(log: Any) -> None:
    with pytest.raises(TypeError, match=r"a log is no function: write log\.info"):
        log("paid")
