"""How a scope ended is shown: who came first, that its time was over, who failed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage
from loom_cli.progress import progress_of, view
from loom_cli.telling import told
from tests.loom_cli.story import log_of
from tests.loom_cli.terminal import loom as command

RUN: Final = "raced-1"


@loom.step
async def quote(name: str) -> str:
    return name


@loom.step
async def fails() -> None:
    raise ConnectionError("gone")


@loom.flow
async def raced(ctx: loom.Context) -> list[Any]:
    won = await ctx.select("approval", told=lambda ctx: ctx.run(quote, "a"), asked=loom.gate("ask"))
    two = await ctx.first(2, {"a": lambda ctx: ctx.run(quote, "a"), "b": lambda ctx: ctx.run(quote, "b")})
    with contextlib.suppress(loom.ScopeTimedOut):
        async with ctx.scope(name="desk", timeout=timedelta(seconds=5)) as scope:
            await scope.start(quote, "c", name="clerk")
            await ctx.suspend("never")
    with contextlib.suppress(loom.StepFailed):
        await ctx.parallel({"bad": lambda ctx: ctx.run(fails), "good": lambda ctx: ctx.suspend("other")})
    return [won.name, list(two), await ctx.suspend("end")]


async def run_on(storage: Any) -> None:
    clock = VirtualClock()
    runtime = WorkflowRuntime(storage, flows={raced.id: raced}, clock=clock)
    await runtime.start(raced, id=RUN, linger_s=0)
    clock.advance(5_000)
    await runtime.resume(RUN, linger_s=0)


@pytest.fixture
async def storage() -> MemoryStorage:
    storage = MemoryStorage()
    await run_on(storage)
    return storage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    async def drive() -> None:
        storage = SqliteStorage(tmp_path / ".loom" / "loom.db")
        await run_on(storage)
        await storage.close()

    (tmp_path / ".loom").mkdir()
    asyncio.run(drive())
    return tmp_path


async def test_the_view_says_of_each_scope_how_it_ended_and_of_each_branch_that_it_was_cut(
    storage: MemoryStorage,
) -> None:
    events = await log_of(storage, RUN)

    seen = execution_view(fold_at(events), events)

    ends = {call.id: (call.status, call.outcome.get("counted"), call.outcome.get("branch")) for call in seen.calls}
    assert ends["approval"] == ("done", ["told"], None)
    assert ends["first"] == ("done", ["a", "b"], None)
    assert ends["desk"] == ("timed_out", None, None)
    assert ends["parallel"] == ("failed", None, "bad")
    assert {call.id: call.status for call in seen.calls if call.kind == "gate"} == {
        "approval/asked/ask": "cut",
        "desk/body/never": "cut",
        "parallel/good/other": "cut",
        "end": "waiting",
    }


def test_show_names_the_winner_the_timeout_and_the_failed_branch(folder: Path) -> None:
    shown = [" ".join(line.split()) for line in command("show", RUN, folder=folder).out.splitlines()]

    for scope, remark in {
        "approval": "2 branches, told came first",
        "first": "2 branches, a, b came first",
        "desk": "a block of tasks, its time was over",
        "parallel": "2 branches, bad failed",
    }.items():
        assert any(f" {scope} " in line and line.endswith(remark) for line in shown), (scope, shown)


def test_the_json_of_a_scope_has_what_counted_and_who_failed(folder: Path) -> None:
    told_of = json.loads(command("show", RUN, "--json", folder=folder).out)["scopes"]

    assert [(scope["kind"], scope["status"], scope["counted"], scope["branch"]) for scope in told_of] == [
        ("select", "done", ["told"], None),
        ("first", "done", ["a", "b"], None),
        ("scope", "timed_out", None, None),
        ("parallel", "failed", None, "bad"),
    ]


def test_the_log_says_it_in_a_word_or_two(folder: Path) -> None:
    lines = command("logs", RUN, folder=folder).out.splitlines()

    [closed, *_] = [line for line in lines if "SCOPE_CLOSED" in line]
    assert "told came first" in closed
    assert any("SCOPE_TIMED_OUT" in line and "desk" in line for line in lines)


async def test_progress_and_the_lines_beside_it_tell_how_a_scope_ended(storage: MemoryStorage) -> None:
    events = await log_of(storage, RUN)

    lines = {line.name: (line.mark, line.note) for line in view(progress_of(events), events[-1].at)}
    said = [told(progress_of(events[: at + 1]), event) for at, event in enumerate(events)]

    assert lines["approval"] == ("scope", "told came first")
    assert lines["desk"] == ("cut", "cut, because its time was over")
    assert lines["parallel"] == ("cut", "cut, because bad failed")
    assert "approval is closed: told came first" in said
    assert "desk was cut, because its time was over" in said
    assert "desk opened a block of tasks" in said
