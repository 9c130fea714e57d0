"""A child that failed: its parent has had that failure, so what comes next is looked up there, and a retry says who is gone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loom_cli.terminal import loom

APP = """
import loom


@loom.flow
async def low(ctx: loom.Context) -> str:
    raise ValueError("no luck")


@loom.flow
async def top(ctx: loom.Context) -> str:
    try:
        return await loom.await_child(ctx, await loom.spawn(ctx, low))
    except loom.ChildFailed:
        return "without it"


@loom.step
async def opened() -> object:
    return object()


@loom.flow
async def alone(ctx: loom.Context) -> object:
    return await ctx.run(opened)


app = loom.define_config(flows=[low, top, alone], storage=loom.sqlite_storage())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("app", None)


def test_who_retries_a_child_is_told_that_its_parent_has_ended_and_where_to_look(folder: Path) -> None:
    assert loom("run", "top", "--id", "top-1", folder=folder).out == "without it\n"

    retried = loom("retry", "top-1:low", folder=folder)

    assert retried.status == 1
    assert "top-1, which started it, had this failure and is completed" in retried.err
    assert "see first what it made of it: loom show top-1\n" in retried.err
    assert "try again from there" not in retried.err


def test_a_result_that_cannot_be_written_is_told_with_what_to_return_instead(folder: Path) -> None:
    failed = loom("run", "alone", "--id", "a-1", folder=folder)

    assert failed.status == 1
    assert "instead: plain data, a dataclass or a model, or the id by which a step finds it again" in failed.err
    assert "mend the code, then try again from there: loom retry a-1\n" in failed.err
