"""What is done from within the debugger is a command that is agreed to, and its events come into the timeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import Input

from loom.core.facts import GateAnswered
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.core.views import OpenGate
from loom.plugins.sqlite import SqliteStorage
from loom_cli.tui.acting import Wired, answer_act, done_of, fork_act, going_on
from loom_cli.tui.app import Debugger
from loom_cli.tui.doing import brief_path
from loom_cli.tui.widgets import Listing
from tests.loom_cli.desk import effects, events, state, types
from tests.loom_cli.terminal import loom
from tests.loom_cli.test_debugging import Looker

CLAIM = ("--set", "order=A-1", "--set", "amount=120")


@asynccontextmanager
async def looking(folder: Path, run: str, at: int | None = None) -> AsyncIterator[Looker]:
    storage = SqliteStorage(folder / ".loom" / "loom.db", readonly=True)
    app = Debugger(storage, run, at=at, now_ms=lambda: 0, folder=folder, wired=Wired(principal="bob"))
    async with app.run_test(size=(120, 40)) as pilot:
        looker = Looker(app, pilot)
        await looker.until(lambda: app.log_.is_read)
        yield looker
    await storage.close()


def lines(looker: Looker, id: str) -> str:
    listing = looker.app.screen.query_one(f"#{id}", Listing)
    return "\n".join(listing.text_of(at) for at in range(listing.count))


async def agreed(looker: Looker, *, key: str = "y") -> str:
    """Wait until something is to be agreed to, answer with *key*, and return what was shown."""
    await looker.until(lambda: type(looker.app.screen).__name__ == "Confirm" and looker.app.screen.query("#about"))
    await looker.pilot.pause()
    shown = lines(looker, "about")
    await looker.press(key)
    return shown


async def give(looker: Looker, text: str, label: str) -> None:
    """Wait until *label* is asked for, and give *text*."""
    await looker.until_asked(label)
    await looker.pilot.press(*text, "enter")
    await looker.pilot.pause()


async def test_a_gate_is_answered_field_by_field_bound_to_what_it_shows(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    async with looking(desk, "r-1") as looker:
        await looker.press("A")
        await give(looker, "yes", "approved")
        await give(looker, "fine by me", "reason")
        shown = await agreed(looker)
        await looker.until(lambda: looker.app.log_.moments.now.is_terminal)
        await looker.until(lambda: "completed" in looker.row("head"))

    flat = shown.replace("\n", "")
    assert '"risk": 0.7' in shown
    assert 'loom resume --gate approval --answer \'{"approved": true, "reason": "fine by me"}\' --shown=' in flat
    [answer] = [event for event in await asyncio.to_thread(events, desk, "r-1") if event.type == "GATE_ANSWERED"]
    assert answer.payload == GateAnswered(answer.payload.start, {"approved": True, "reason": "fine by me"})
    assert answer.metadata["principal"] == "bob"
    assert effects(desk) == ["assess", "pay"]


async def test_what_is_not_agreed_to_is_not_done(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    before = await asyncio.to_thread(types, desk, "r-1")
    async with looking(desk, "r-1") as looker:
        await looker.press("A")
        await give(looker, "no", "approved")
        await give(looker, "", "reason")
        await agreed(looker, key="n")
        await looker.until(lambda: "left as it is" in looker.row("place"))
        await looker.press("A")
        await looker.until_asked()
        await looker.press("escape")
        await looker.press("B")
        await agreed(looker, key="escape")
    assert await asyncio.to_thread(types, desk, "r-1") == before
    assert await asyncio.to_thread(loom, "ps", "--json", folder=desk)


async def test_one_of_several_gates_is_chosen(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "two", "--id", "t-1", folder=desk)
    async with looking(desk, "t-1") as looker:
        await looker.press("A")
        await give(looker, "2", "which gate")
        await give(looker, "yes", "answer")
        shown = await agreed(looker)
        await looker.until(lambda: len(looker.app.log_.moments.now.gates) == 1)
    assert "money" in shown


async def test_a_fork_is_begun_where_the_cursor_stands_and_looked_at(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    async with looking(desk, "r-1", at=2) as looker:
        await looker.press("B")
        assert "loom fork --at 2 --as bob -- r-1" in await agreed(looker)
        await agreed(looker)
        await looker.until(lambda: looker.app.log_.run_id != "r-1")
        fork = looker.app.log_.run_id
        await looker.until(lambda: "forked" in looker.row("head"))
        await looker.press("R")
        await agreed(looker)
        await looker.until(lambda: looker.app.log_.moments.now.status == "suspended")
    forked = (await asyncio.to_thread(state, desk, fork)).facts.forked
    assert forked is not None
    assert forked.payload.source["sequence"] == 2


async def test_a_fork_can_have_another_outcome_of_the_call_at_the_cursor(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    async with looking(desk, "r-1", at=0) as looker:
        await looker.press("E")
        assert "nothing came of this event" in looker.row("place")
        await looker.press("j", "E")
        await looker.until_asked("assess")
        assert json.loads(looker.app.screen.query_one(Input).value) == 0.7
        await looker.press("ctrl+u")
        await give(looker, "0.2.1", "assess")
        assert "no JSON" in looker.asked()
        await looker.press(*["backspace"] * 2, "enter")
        assert "--output assess --value 0.2" in await agreed(looker)
        await agreed(looker)
        await looker.until(lambda: looker.app.log_.run_id != "r-1")
        assert next(iter(looker.app.log_.moments.now.settled)).outcome.payload.result == 0.2


async def test_a_failed_run_is_tried_again(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "failing", "--id", "f-1", folder=desk)
    (desk / "mended").touch()
    async with looking(desk, "f-1") as looker:
        assert "failed" in looker.row("head")
        await looker.press("R")
        assert "loom retry --as bob -- f-1" in await agreed(looker)
        await looker.until(lambda: looker.app.log_.moments.now.status == "completed")
    assert effects(desk)[-1] == "fail"


async def test_an_app_that_is_broken_is_said_and_the_debugger_goes_on(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "failing", "--id", "f-1", folder=desk)
    (desk / "app.py").write_text("import nothing_like_it\n")
    async with looking(desk, "f-1") as looker:
        await looker.press("R")
        await agreed(looker)
        await looker.until(lambda: "nothing_like_it" in looker.app.model.says)
        await looker.press("5")
        await looker.until(lambda: "nothing_like_it" in "\n".join(looker.pane()))
        await looker.press("up")
        assert "event" in looker.row("place")


async def test_who_may_not_is_refused_by_the_command(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "failing", "--id", "f-1", folder=desk)
    async with looking(desk, "f-1") as looker:
        looker.app.wired = Wired(principal="eve")
        await looker.press("R")
        await agreed(looker)
        await looker.until(lambda: "eve may do nothing" in looker.app.model.says)


async def test_the_source_is_the_line_that_asked_with_what_the_flow_held(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    async with looking(desk, "r-1", at=3) as looker:
        await looker.press("5")
        await looker.until(lambda: any("\u25b6" in line for line in looker.pane()))
        [line] = [line for line in looker.pane() if "\u25b6" in line]
        assert 'await ctx.suspend("approval"' in line
        assert any("risk" in line and "0.7" in line for line in looker.pane())
        await looker.press("up")
        await looker.until(lambda: any("\u25b6" in line and "ctx.run(assess, claim)" in line for line in looker.pane()))


async def test_code_that_does_not_fit_the_log_is_said(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    app = desk / "app.py"
    app.write_text(
        app.read_text().replace(
            "risk = await ctx.run(assess, claim)", 'risk = await ctx.run("judge", assess.fn, claim)'
        )
    )
    async with looking(desk, "r-1", at=3) as looker:
        await looker.press("5")
        await looker.until(lambda: "the code is another" in "\n".join(looker.pane()))


async def test_leaving_while_something_is_looked_for_leaves_no_process(desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    async with looking(desk, "r-1") as looker:
        await looker.press("5")
        actings = looker.app.actings
    assert not actings.are_running


@pytest.mark.parametrize("suffix", [".svg", ".txt", ".json"])
async def test_the_view_is_exported(suffix: str, desk: Path) -> None:
    await asyncio.to_thread(loom, "run", "refund", *CLAIM, "--id", "r-1", folder=desk)
    async with looking(desk, "r-1", at=2) as looker:
        await looker.press("e")
        await looker.until_asked()
        await looker.press(*f"view{suffix}", "enter")
        await looker.until(lambda: "written to" in looker.row("place"))
        assert looker.row("place").endswith(f"view{suffix}")
        assert len(looker.row("place")) <= 120
        await looker.press("e")
        await looker.until_asked()
        await looker.press(*f"view{suffix}", "enter")
        assert "there is such a file" in looker.asked()
        await looker.press("escape")
    written = (desk / f"view{suffix}").read_text(encoding="utf-8")
    if suffix == ".json":
        assert json.loads(written)["event"]["type"] == "STEP_COMPLETED"
    elif suffix == ".txt":
        assert any(line.startswith(">") and "STEP_COMPLETED" in line for line in written.splitlines())
        assert "digest" in written
    else:
        assert written.startswith("<svg")
        assert "STEP_COMPLETED" in written


async def test_another_run_is_opened_and_one_that_is_not_there_is_said(desk: Path) -> None:
    for name in ("h-1", "h-2"):
        await asyncio.to_thread(loom, "run", "hello", "--id", name, folder=desk)
    async with looking(desk, "h-1") as looker:
        await looker.type("o", "h-2")
        await looker.until(lambda: "h-2" in looker.row("head"))
        await looker.type("o", "nobody")
        await looker.until(lambda: "nobody" in looker.app.model.says)
        assert "h-2" in looker.row("head")


# -- pure ----------------------------------------------------------------------------------------------------------------


def test_a_command_is_shown_as_it_would_be_typed() -> None:
    wired = Wired(app="app:app", store="a b.db", principal="ann")

    act = fork_act("--odd", 3, wired)

    assert act.shown == "loom fork --at 3 --app app:app --store 'a b.db' --as ann -- --odd"
    assert act.words[-3:] == ("--json", "--", "--odd")


def test_an_answer_is_bound_to_what_was_shown_or_agreed_to() -> None:
    started = empty_state(ExecutionId("r"))
    shows = OpenGate("a", 1, 0, "a", shown="DIGEST")

    assert "--shown=DIGEST" in answer_act(started, shows, answer=1, wired=Wired()).words
    assert "--yes" in answer_act(started, shows._replace(shown=None), answer=1, wired=Wired()).words


@pytest.mark.parametrize(
    ("status", "verb"),
    [("failed", "retry"), ("forked", "resume"), ("running", "resume"), ("completed", None), ("paused", None)],
)
def test_a_run_goes_on_as_it_stands(status: str, verb: str | None) -> None:
    act = going_on(empty_state(ExecutionId("r"))._replace(status=status), Wired())  # type: ignore[arg-type]

    assert (act.words[0] if act is not None else None) == verb


@pytest.mark.parametrize(
    ("status", "out", "err", "error"),
    [
        (0, '{"status": "completed"}\n', "", ""),
        (1, "", 'noise\n{"error": {"code": "x", "message": "it broke", "hint": "mend it"}}\n', "it broke mend it"),
        (1, "", "Killed\n", "Killed"),
        (2, "", "", "it ended with status 2"),
    ],
)
def test_how_a_command_ended_is_read_off_what_it_printed(status: int, out: str, err: str, error: str) -> None:
    assert done_of(status, out, err).error == error


@pytest.mark.parametrize(
    ("room", "told"), [(30, "runs/of/ada/r-1-2.svg"), (18, "runs/of\u2026/r-1-2.svg"), (8, "r-1-2.svg")]
)
def test_the_name_of_a_file_is_told_whatever_room_there_is(room: int, told: str) -> None:
    assert brief_path("runs/of/ada/r-1-2.svg", room) == told
