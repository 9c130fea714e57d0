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
