"""A pytest plugin that has every app watched: `pytest -p tests.devtools.strict.everywhere`. It tells how many bodies were."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from loom.app import config
from loom.devtools.strict import Strict
from loom.driving.runtime import WorkflowRuntime
from loom.spi.guarding import Rehearsal, Stop

COUNTED = {"bodies": 0, "rehearsals": 0}


class Counting(Strict):
    """A guard that counts."""

    def watched(self, body: Coroutine[Any, Any, Any], stop: Stop) -> Coroutine[Any, Any, Any]:
        COUNTED["bodies"] += 1
        return super().watched(body, stop)

    async def before_leaving(self, rehearsal: Rehearsal) -> None:
        COUNTED["rehearsals"] += 1
        await super().before_leaving(rehearsal)


@pytest.fixture(autouse=True, scope="session")
def _every_app_is_watched() -> Iterator[None]:
    made = WorkflowRuntime

    def watched(*given: Any, **options: Any) -> WorkflowRuntime:
        return made(*given, **(options | {"guard": Counting()}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "WorkflowRuntime", watched)  # as define_config calls it
        yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"watched {COUNTED['bodies']} bodies, rehearsed {COUNTED['rehearsals']} times")
