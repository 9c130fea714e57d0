"""What an author forgot is told with its line: an await, a context, a clock in the flow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.loom_cli.terminal import Ended
from tests.loom_cli.terminal import loom as command

APP = """
import time

import loom


@loom.step
async def one(x: int) -> int:
    return x


@loom.flow
async def order(ctx: loom.Context, x: int) -> str:
    {body}


app = loom.define_config(flows=[order], storage=loom.sqlite_storage())
"""
LINE = 14
Written = Callable[[str], Callable[..., Ended]]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(body: str) -> Callable[..., Ended]:
        (tmp_path / "app.py").write_text(APP.format(body=body.replace("\n", "\n    ")), encoding="utf-8")

        def run(*arguments: str) -> Ended:
            sys.modules.pop("app", None)
            return command(*arguments, folder=tmp_path)

        return run

    yield written
    sys.modules.pop("app", None)


@pytest.mark.filterwarnings("always")
def test_a_forgotten_await_is_told_with_its_line(app: Written) -> None:
    done = app("a = ctx.run(one, x)\nreturn f'got {a}'")("run", "order", "--input", "3")

    assert "one of " in done.err
    assert f"app.py:{LINE}: `a = ctx.run(one, x)` is never awaited" in done.err


@pytest.mark.filterwarnings("always")
def test_a_step_that_is_called_without_the_context_is_told_with_its_line(app: Written) -> None:
    done = app("y = x\nreturn str(await one(y))")("run", "order", "--input", "3")

    assert (done.status, done.out) == (0, "3\n")
    assert f"app.py:{LINE + 1}\n" in done.err


def test_a_divergence_under_the_same_code_names_the_line_that_reads_a_clock(app: Written) -> None:
    loom = app("await ctx.run(one, time.time_ns())\nreturn await ctx.suspend('go', expects=str)")
    assert loom("run", "order", "--input", "3", "--id", "x1").status == 3

    checked, resumed = loom("deploy", "check"), loom("resume", "x1", "--answer", '"go"')

    assert (checked.status, resumed.status) == (1, 3)
    for told in (checked.out, resumed.err):
        assert "a clock, randomness" in told
        assert f"app.py:{LINE}: `time.time_ns()` reads a clock" in told


def test_a_divergence_of_a_flow_without_a_finding_names_no_line(app: Written) -> None:
    loom = app(
        "await ctx.run(one, hasattr(loom, 'seen') or (setattr(loom, 'seen', 1) or 0))\nreturn await ctx.suspend('go')"
    )
    try:
        assert loom("run", "order", "--input", "3", "--id", "x1").status == 3
        resumed = loom("resume", "x1", "--answer", '"go"')
    finally:
        sys.modules["loom"].__dict__.pop("seen", None)

    assert resumed.status == 3
    assert resumed.err.count("app.py:") == 1
