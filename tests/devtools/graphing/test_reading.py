"""What stands in a flow is in its picture: each syscall, branch, loop and handler, and what its helpers do."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

import pytest

from loom.devtools.graphing.reading import shape_of
from loom.devtools.graphing.structure import Shape
from loom.devtools.graphing.telling import lines

HEAD: Final = """
from datetime import timedelta
import asyncio, loom

@loom.step(idempotent=False, timeout=timedelta(seconds=30))
async def pay(order: str) -> str: ...

@loom.step(reads=True)
async def fetch(item: str) -> str: ...

@loom.step(id="undo-pay")
async def refund(order: str) -> None: ...

@loom.flow
async def payout(ctx: loom.Context) -> None: ...

WEEK = timedelta(days=7)
"""


def read(body: str, **modules: str) -> Shape:
    source = (
        HEAD
        + "\n@loom.flow\nasync def main(ctx: loom.Context, order: str) -> str:\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
    )
    files = {"app.py": source, **{f"{name}.py": textwrap.dedent(text) for name, text in modules.items()}}
    return shape_of("main", ["app.py"], lambda path: files[path].encode() if path in files else None)


def told(body: str, **modules: str) -> list[str]:
    found = lines(read(body, **modules))[1:]
    return [
        "  " * (line.depth - 1)
        + f"{line.word} {line.text}".rstrip()
        + (f" ({', '.join(line.notes)})" if line.notes else "")
        for line in found
    ]


def test_syscalls_by_kind_with_what_is_said_of_them() -> None:
    assert told(
        """
        await ctx.run(pay, order)
        await ctx.run("total", sum, [1])
        await ctx.suspend("ok", expects=bool, timeout=WEEK)
        await ctx.sleep(timedelta(hours=2))
        await ctx.receive("news")
        await ctx.decide("which", max, [1])
        await ctx.emit("seen")
        await ctx.run(fetch.named("again"), order)
        await ctx.execute("tool")
        child = await loom.spawn(ctx, payout)
        await loom.await_child(ctx, child)
        return await ctx.continue_as_new(order)
        """
    ) == [
        "step pay (once, at most 30 seconds)",
        "step total",
        "gate ok (answer: bool, at most 7 days)",
        "sleep 2 hours",
        "receive news",
        "decide which",
        "emit seen",
        "step fetch as again (reads)",
        "step tool",
        "child payout",
        "receive end of child",
        "rolls over order",
    ]


def test_conditions_loops_and_handlers_where_something_is_asked() -> None:
    assert told(
        """
        if len(order) > 3:
            await ctx.run(pay, order)
        elif order:
            return "short"
        for part in order:
            if part == "x":
                break
            await ctx.run(fetch, part)
        while True:
            try:
                await ctx.run(pay, order)
            except loom.StepFailed:
                continue
            finally:
                await ctx.run(fetch, order)
        """
    ) == [
        "choose",
        "  len(order) > 3",
        "    step pay (once, at most 30 seconds)",
        "  order",
        "    return 'short'",
        "loop for part in order",
        "  if part == 'x'",
        "    yes",
        "      break",
        "  step fetch (reads)",
        "loop for ever",
        "  try",
        "    step pay (once, at most 30 seconds)",
        "  except loom.StepFailed",
        "    continue",
        "  finally",
        "    step fetch (reads)",
    ]


def test_what_asks_nothing_is_left_out() -> None:
    assert told(
        "total = 0\nfor part in order:\n    total += len(part)\nif total:\n    total = 1\nawait ctx.run(fetch, order)"
    ) == ["step fetch (reads)"]


def test_helpers_are_gone_into_in_other_modules_too() -> None:
    other = """
        import loom
        async def both(ctx: loom.Context, step) -> None:
            await ctx.run(step, 1)
            await ctx.run(step, 2)
    """

    assert told("from other import both\nawait both(ctx, fetch)", other=other) == [
        "both",
        "  step fetch (reads)",
        "  step fetch (reads)",
    ]


def test_a_helper_inside_itself_is_named_and_not_gone_into_for_ever() -> None:
    body = """
        async def again(ctx: loom.Context, depth: int) -> None:
            await ctx.run(fetch, order)
            await again(ctx, depth - 1)
        await again(ctx, 3)
    """

    assert told(body) == ["again", "  step fetch (reads)", "  again again (inside itself)"]


def test_branches_by_name_and_tasks_of_a_scope() -> None:
    assert told(
        """
        async def one(ctx: loom.Context, item: str = "") -> None:
            await ctx.run(fetch, item)
        await ctx.parallel({"left": one, "right": one})
        await ctx.map(pay, [order])
        await ctx.select(asked=loom.gate("ok"), late=loom.timer(WEEK))
        async with ctx.scope(name="work", timeout=60) as scope:
            scope.start(one, order, name="first")
            await ctx.run(pay, order)
        async with loom.saga(ctx) as saga:
            await saga.run(pay.undone_by(refund), order)
        """
    ) == [
        "parallel",
        "  left",
        "    step fetch (reads)",
        "  right",
        "    step fetch (reads)",
        "map",
        "  each",
        "    step pay (once, at most 30 seconds)",
        "select",
        "  asked",
        "    gate ok",
        "  late",
        "    sleep 7 days",
        "scope work (at most 60 s)",
        "  body",
        "    step pay (once, at most 30 seconds)",
        "  first",
        "    step fetch (reads)",
        "saga",
        "  step pay (once, at most 30 seconds, undone by undo-pay)",
    ]


def test_what_the_source_does_not_tell_is_said() -> None:
    assert read("await ctx.parallel(order[0], order[1])").unfollowed == ("app.py:21: order[0]", "app.py:21: order[1]")


def test_reading_a_flow_imports_and_runs_nothing(tmp_path: Path) -> None:
    source = f"import loom\nopen({str(tmp_path / 'ran')!r}, 'w')\n@loom.flow\nasync def main(ctx: loom.Context): ...\n"

    shape_of("main", ["app.py"], {"app.py": source.encode()}.get)

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["main = loom.flow(work)", "main = loom.flow(id='main')(work)"])
def test_a_flow_may_be_made_by_a_call(way: str) -> None:
    source = f"import loom\nasync def work(ctx: loom.Context): await ctx.sleep(1)\n{way}\n"

    name = "main" if "id=" in way else "work"

    assert shape_of(name, ["app.py"], {"app.py": source.encode()}.get).flow == name
