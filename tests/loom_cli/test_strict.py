"""`--strict`: a flow that does itself what only a step may is stopped, and told where and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loom_cli.projects import loom

APP = """
import time
import loom

@loom.step
async def stamp(text: str) -> str:
    return text

@loom.flow
async def hasty(ctx: loom.Context) -> str:
    return await ctx.run(stamp, str(time.time()))

app = loom.define_config(flows=[hasty], storage=loom.sqlite_storage())
"""


@pytest.fixture
def hasty(desk: Path) -> Path:
    (desk / "app.py").write_text(APP, encoding="utf-8")
    return desk


def test_a_flow_that_reads_the_clock_is_stopped_with_its_line_and_what_to_write(hasty: Path) -> None:
    done = loom("run", "hasty", "--id", "h1", "--strict", folder=hasty)

    assert done.status == 1
    assert "error[unsafe-in-flow]: app.py:11: time.time() [clock]" in done.err
    assert "try: `ctx.now()`" in done.err
    assert done.out == ""


def test_the_run_stays_as_it_was_and_can_be_resumed(hasty: Path) -> None:
    loom("run", "hasty", "--id", "h1", "--strict", folder=hasty)

    again = loom("resume", "h1", "--strict", folder=hasty)
    freely = loom("resume", "h1", folder=hasty)

    assert (again.status, freely.status) == (1, 0)


def test_a_worker_leaves_such_a_run_as_it_was_for_one_that_is_not_strict(hasty: Path) -> None:
    loom("run", "hasty", "--id", "h1", "--detach", folder=hasty)

    done = loom("worker", "--strict", "--until-idle", folder=hasty)
    freely = loom("worker", "--until-idle", folder=hasty)

    assert "h1 cannot be driven here, and is left as it was: app.py:11: time.time() [clock]" in done.err + done.out
    assert "h1 completed" in freely.err + freely.out
