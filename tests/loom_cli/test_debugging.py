"""`loom debug` on a terminal: what is moved to is what `loom show --at N` says, whatever the log holds, and keys and mouse do it."""

from __future__ import annotations

import asyncio
import os
import pty
import random
import select
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key

from loom.core.ids import ExecutionId
from loom.lenses.folding import state_digest
from loom.plugins.sqlite import SqliteStorage
from loom_cli.exits import ExitCode
from loom_cli.tui.app import Debugger
from loom_cli.tui.widgets import Listing, Row, strip_of
from tests.benchmarks.debugging import filled
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import environment, loom

HARMFUL = ("\x1b]52", "\x9b", "\x07", "\u202e", "\x00")


@asynccontextmanager
async def looking(
    project: Project, run: str, size: tuple[int, int] = (120, 40), *, store: Path | None = None, **given: Any
) -> AsyncIterator[Looker]:
    storage = SqliteStorage(store or project.store, readonly=True)
    app = Debugger(storage, run, now_ms=lambda: project.now_ms, **given)
    async with app.run_test(size=size) as pilot:
        looker = Looker(app, pilot)
        await looker.until(lambda: app.log_.is_read)
        yield looker
    await storage.close()


class Looker:
    """Somebody at the debugger."""

    def __init__(self, app: Debugger, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, key: str, text: str) -> None:
        """Press *key*, wait for the line that is asked for, and give *text*."""
        await self.pilot.press(key)
        await self.until_asked()
        await self.pilot.press(*text, "enter")
        await self.until(lambda: len(self.app.screen_stack) == 1)
        await self.pilot.pause()

    def row(self, id: str) -> str:
        return self.app.query_one(f"#{id}", Row).text

    async def until_asked(self, label: str = "") -> None:
        """Wait until a line is asked for, of which *label* is told."""
        await self.until(lambda: getattr(self.app.focused, "id", None) == "given" and label in self.asked())

    def asked(self) -> str:
        """Return what is asked for just now."""
        return self.app.screen.query_one("#asked", Row).text

    def pane(self) -> list[str]:
        listing = self.app.query_one("#pane", Listing)
        return [listing.text_of(at) for at in range(listing.count)]

    def timeline(self) -> list[str]:
        listing = self.app.query_one("#timeline", Listing)
        return [listing.text_of(at) for at in range(listing.count)]

    def colours(self) -> set[tuple[int, int, int]]:
        """Return all colours on the screen."""
        strips = self.app.screen._compositor.render_strips(self.app.size)
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
        colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
        return {
            (triplet.red, triplet.green, triplet.blue) for triplet in (colour.get_truecolor() for colour in colours)
        }

    def drawn(self) -> str:
        """Return all that is on the screen, as text."""
        lines = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join(segment.text for strip in lines for segment in strip)


@pytest.mark.proves("CLI-07")
@pytest.mark.parametrize("run", ["refund-41", "refund-42", "broken-1", "nap-1", "payout-1"])
@pytest.mark.parametrize("most", [pytest.param(3, id="some"), pytest.param(100, id="every", marks=pytest.mark.slow)])
async def test_at_every_event_it_shows_the_state_that_inspect_prints(
    run: str, most: int, project: Project, seed: int
) -> None:
    shown = await asyncio.to_thread(states_shown, run, project)
    at = sorted(random.Random(seed).sample(range(len(shown)), min(most, len(shown))))
    async with looking(project, run) as looker:
        for n in at:
            state = shown[n]
            await looker.type("colon", str(n))
            assert f"event {n} of {len(shown) - 1}" in looker.row("place")
            assert state["status"] in looker.row("head")
            [digest] = [line for line in looker.pane() if "digest" in line]
            assert state["digest"] in digest


def states_shown(run: str, project: Project) -> list[Any]:
    """Return what `loom inspect --at N --json` prints for every event of a run."""
    last = loom("show", run, "--json", folder=project.folder).json["last"]
    return [loom("inspect", run, "--at", str(n), "--json", folder=project.folder).json for n in range(last + 1)]


async def test_keys_move_through_time(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        assert "event 17 of 17" in looker.row("place")
        for keys, at in (
            (["up"], 16),
            (["k", "h", "left"], 13),
            (["comma"], 12),
            (["down", "j", "right", "l", "full_stop"], 17),
            (["home"], 0),
            (["f"], 2),
            (["right_square_bracket"], 3),
            (["left_square_bracket", "left_square_bracket"], 1),
            (["G"], 17),
            (["g"], 0),
            (["pagedown"], 17),
            (["F"], 2),
        ):
            await looker.press(*keys)
            assert f"event {at} of 17" in looker.row("place"), keys


async def test_the_line_under_the_cursor_has_a_sign_and_no_other_line(project: Project) -> None:
    async with looking(project, "refund-41", at=3) as looker:
        assert looker.drawn().count("\u258c") == 2  # one of the timeline, one of the pane


async def test_after_the_last_failure_comes_the_first(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        await looker.press("f")
        assert "event 2 of 17" in looker.row("place")
        assert "on from the beginning: the first failure" in looker.row("place")
        await looker.press("f")
        assert "nothing else has gone wrong" in looker.row("place")


async def test_keys_typed_in_one_burst_go_into_the_line_that_is_asked_for_and_on_from_there(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        for key in ("colon", *"7", "backspace", "9", "enter", "k", "slash", *"call:fetch type:*STARTED", "enter"):
            looker.app.post_message(Key(key, key if len(key) == 1 else None))
        await looker.until(lambda: "3 found" in looker.row("place"))
        await looker.press("colon", "escape", "F")
        assert "event 2 of" in looker.row("place")


@pytest.mark.parametrize(
    ("typed", "at"), [("7", 7), ("+0.2s", 2), ("22:13:20.254", 9), ("model", 11), ("map/1/fetch", 6)]
)
async def test_one_goes_to_a_number_a_time_or_a_call(typed: str, at: int, project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        await looker.type("colon", typed)
        assert f"event {at} of 17" in looker.row("place")


async def test_a_search_is_gone_through_and_can_be_all_that_is_shown(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        await looker.press("g")
        await looker.type("slash", "call:fetch type:*COMPLETED")
        await looker.until(lambda: "3 found" in looker.row("place"))
        assert "event 8 of" in looker.row("place")
        await looker.press("n", "n")
        assert "event 10 of" in looker.row("place")
        await looker.press("N")
        assert "event 9 of" in looker.row("place")
        await looker.press("ampersand")
        assert [line.split()[0] for line in looker.timeline()] == ["8", "9", "10"]
        await looker.press("ampersand")
        assert len(looker.timeline()) == 18


async def test_what_must_not_be_there_is_said_beside_how_much_was_found(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        await looker.type("slash", "-is:run type:*COMPLETED")
        await looker.until(lambda: "found without is:run" in looker.row("place"))


async def test_what_cannot_be_searched_for_is_said_where_it_was_typed(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        await looker.press("slash")
        await looker.press(*"is:sad", "enter")
        assert "is:sad is not known" in looker.asked()
        await looker.press("escape")
        assert len(looker.app.screen_stack) == 1


async def test_changes_are_from_the_event_before_or_from_the_mark(project: Project) -> None:
    async with looking(project, "refund-41", at=16) as looker:
        await looker.press("2")
        assert any("from event 15 to event 16" in line for line in looker.pane())
        await looker.type("colon", "13")
        await looker.press("m")
        await looker.press("G")
        text = "\n".join(looker.pane())
        assert "from event 13 to event 17" in text
        assert "facts \u203a result" in text
        assert "outcomes" not in text
        await looker.press("apostrophe")
        assert "event 13 of" in looker.row("place")


async def test_a_failure_is_shown_with_its_traceback_and_its_input(project: Project) -> None:
    async with looking(project, "broken-1") as looker:
        await looker.press("g", "f", "3")
        text = "\n".join(looker.pane())
        assert '"n": 99' in text
        assert "story.py" in text
        assert "RuntimeError: no such thing" in text


async def test_calls_stand_as_they_stood_and_lead_to_their_event(project: Project) -> None:
    async with looking(project, "refund-41", at=6) as looker:
        await looker.press("4")
        lines = looker.pane()
        assert any("assess_risk" in line and "2 attempts" in line for line in lines)
        assert any("2/fetch" in line and "not asked yet" in line for line in lines)
        await looker.press("tab", "end", "enter")
        assert "event 13 of" in looker.row("place")


async def test_gates_messages_and_decisions_have_a_pane(project: Project) -> None:
    async with looking(project, "refund-41", at=14) as looker:
        await looker.press("6")
        text = "\n".join(looker.pane())
        assert "approval  waits for an answer" in text
        assert 'model  "large"' in text
        await looker.press("G")
        text = "\n".join(looker.pane())
        assert "approval  true" in text
        assert "by bob" in text


async def test_the_mouse_works(project: Project) -> None:
    async with looking(project, "refund-41", size=(80, 24)) as looker:
        listing = looker.app.query_one("#timeline", Listing)
        await looker.pilot.click("#timeline", offset=(20, 2))
        assert f"event {listing.top + 2} of" in looker.row("place")
        await looker.pilot.click("#tabs", offset=(12, 0))
        assert looker.app.model.pane == "changes"
        await looker.press("1")
        closed = len(looker.pane())
        at = next(at for at, line in enumerate(looker.pane()) if "settled" in line)
        await looker.press("z", "z")
        looker.app.query_one("#pane", Listing).scroll_by(100)
        await looker.pilot.pause()
        top = looker.app.query_one("#pane", Listing).top
        await looker.pilot.click("#pane", offset=(6, at - top))
        assert len(looker.pane()) < closed


@pytest.mark.parametrize("size", [(80, 24), (81, 25), (110, 24), (200, 60)])
@pytest.mark.parametrize("pane", "123456")
async def test_every_pane_fits_the_terminal(size: tuple[int, int], pane: str, project: Project) -> None:
    async with looking(project, "refund-41", size=size) as looker:
        await looker.press(pane)
        for row in ("head", "tabs", "place", "foot"):
            region = looker.app.query_one(f"#{row}").region
            assert region.height == 1
            assert region.bottom <= size[1]
        assert looker.app.query_one("#timeline").region.height >= 8
        assert looker.app.query_one("#pane").region.height >= 8


@pytest.mark.parametrize("pane", "123456")
async def test_what_a_log_says_is_shown_harmlessly(pane: str, project: Project) -> None:
    async with looking(project, "broken-1", size=(220, 60)) as looker:
        await looker.press("g", "f", pane)
        drawn = looker.drawn()
        assert not any(bad in drawn for bad in HARMFUL)
        assert "\\x1b]52" in drawn
        assert "[red]" in drawn
        await looker.press("tab", "end", "enter")
        assert not any(bad in looker.drawn() for bad in HARMFUL)


async def test_without_colour_the_same_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    async with looking(project, "refund-41") as coloured:
        told = coloured.drawn()
        assert not all(red == green == blue for red, green, blue in coloured.colours())
    monkeypatch.setenv("NO_COLOR", "1")
    async with looking(project, "refund-41") as plain:
        assert plain.drawn() == told
        assert all(red == green == blue for red, green, blue in plain.colours())


async def test_help_lists_every_key(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        await looker.press("question_mark")
        keys = looker.app.screen.query_one("#keys", Listing)
        text = "\n".join(keys.text_of(at) for at in range(keys.count))
        for words in ("the next event", "begin a fork here", "answer a gate", "go to an event", "in doubt"):
            assert words in text
        await looker.press("escape")
        assert len(looker.app.screen_stack) == 1


async def test_a_long_log_is_read_behind_the_first_screen(tmp_path: Path) -> None:
    await filled(tmp_path / "long.db", 3000, 200_000)
    project = Project(tmp_path, 0)
    storage = SqliteStorage(tmp_path / "long.db", readonly=True)
    app = Debugger(storage, "long-1", now_ms=lambda: project.now_ms)
    async with app.run_test(size=(100, 30)) as pilot:
        looker = Looker(app, pilot)
        await looker.until(lambda: app.log_.rows)
        assert len(app.log_.rows) < 3000
        await looker.until(lambda: app.log_.is_read)
        await looker.until(lambda: "event 2999 of 2999" in looker.row("place"))
        assert app.log_.moments.now == app.log_.state(2999)
        assert "D names it" in "\n".join(looker.pane())
        await looker.press("D")
        assert state_digest(app.log_.moments.now) in "\n".join(looker.pane())
    await storage.close()


async def test_a_line_that_was_in_sight_is_not_made_anew(tmp_path: Path) -> None:
    await filled(tmp_path / "long.db", 3000, 20_000)
    async with looking(Project(tmp_path, 0), "long-1", store=tmp_path / "long.db") as looker:
        await looker.type("colon", "1500")
        for key in ("up", "down"):
            made = strip_of.cache_info().misses
            await looker.press(key)
            assert strip_of.cache_info().misses - made < 15, "two lists of some thirty lines are in sight"


async def test_what_is_drawn_line_by_line_is_what_is_drawn_at_once(project: Project) -> None:
    async with looking(project, "refund-41") as looker:
        for key in ("2", "up", "1", "up", "down", "tab", "down", "space", "tab", "g", "G", "3", "down", "4", "5", "6"):
            await looker.press(key)
            drawn = looker.drawn()
            for size in ((130, 41), (120, 40)):
                await looker.pilot.resize_terminal(*size)
                await looker.pilot.pause()
            assert looker.drawn() == drawn, key


async def test_events_that_happen_meanwhile_are_followed_at_the_end_only(project: Project) -> None:
    writer = SqliteStorage(project.store)
    await writer.open()
    async with looking(project, "nap-1") as looker:
        last = looker.app.log_.moments.last
        await append(writer, ExecutionId("nap-1"))
        await looker.until(lambda: f"event {last + 1} of {last + 1}" in looker.row("place"))
        await looker.press("up")
        await append(writer, ExecutionId("nap-1"))
        await looker.until(lambda: f"of {last + 2}" in looker.row("place"))
        assert f"event {last} of {last + 2}" in looker.row("place")
    await writer.close()


async def append(storage: SqliteStorage, run: ExecutionId) -> None:
    """Write one more event at the end of a log."""
    from loom.spi.event_store import Append, Appended, EventRecord

    row = await storage.row(run)
    assert row is not None
    event = EventRecord(row.length, "EXECUTION_RESUMED", row.index.updated_at, b"{}", b"")
    item = Append(
        execution_id=run,
        incarnation=row.incarnation,
        expected=row.length,
        append_id=f"more-{row.length}",
        events=[event],
        index=row.index,
    )
    [done] = await storage.append([item])
    assert isinstance(done, Appended)


async def test_a_run_that_is_not_there_is_said(project: Project) -> None:
    storage = SqliteStorage(project.store, readonly=True)
    app = Debugger(storage, "nothing-like-it", now_ms=lambda: 0)
    async with app.run_test():
        pass
    assert app.failure is not None
    assert app.failure.code == "execution-not-found"


# -- the command ---------------------------------------------------------------------------------------------------------


def test_without_a_terminal_it_says_so_and_what_to_do_instead(project: Project) -> None:
    done = loom("debug", "refund-41", folder=project.folder)

    assert done.status == ExitCode.USAGE
    assert "loom debug needs a terminal" in done.err
    assert "loom show refund-41 --at N" in done.err
    assert "loom show refund-41 --at 3" in loom("debug", "refund-41", "--at", "3", folder=project.folder).err


def test_with_json_it_prints_what_is_to_be_seen(project: Project) -> None:
    done = loom("debug", "refund-41", "--at", "16", "--against", "13", "--json", folder=project.folder)
    shown = loom("show", "refund-41", "--at", "16", "--json", folder=project.folder).json

    assert done.status == ExitCode.DONE
    assert done.json["digest"] == shown["digest"]
    assert done.json["event"]["type"] == "GATE_ANSWERED"
    assert (done.json["call"]["id"], done.json["call"]["status"]) == ("approval", "done")
    against = loom("show", "refund-41", "--at", "16", "--against", "13", "--json", folder=project.folder).json
    assert done.json["changes"] == against


def test_an_event_that_is_not_there_is_refused(project: Project) -> None:
    done = loom("debug", "refund-41", "--at", "99", "--json", folder=project.folder)

    assert done.status == ExitCode.USAGE
    assert "there is no event 99" in done.err


def test_it_starts_and_leaves_on_a_terminal_of_its_own(project: Project) -> None:
    terminal = Terminal(project.folder, "debug", "refund-41")
    terminal.until(b"EXECUTION_COMPLETED")
    terminal.write(b"g")
    terminal.until(b"of 17")
    terminal.write(b"q")

    assert terminal.status() == 0
    assert b"\x1b[?1049l" in terminal.all  # the screen that was there before is back


def test_on_a_terminal_a_run_that_is_not_there_ends_it_with_4(project: Project) -> None:
    terminal = Terminal(project.folder, "debug", "nobody-1")

    assert terminal.status() == ExitCode.NOT_FOUND
    assert b"execution-not-found" in terminal.all


class Terminal:
    """The command as a process on a terminal of 100 cells by 30 lines."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._here, there = pty.openpty()
        ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        env = environment({"TERM": "xterm-256color", "TZ": "UTC"})
        command = [sys.executable, "-m", "loom_cli", *arguments]
        self._process = subprocess.Popen(command, cwd=folder, env=env, stdin=there, stdout=there, stderr=there)
        os.close(there)
        self.all, self._seen = b"", 0

    def write(self, keys: bytes) -> None:
        self._seen = len(self.all)
        os.write(self._here, keys)

    def until(self, text: bytes) -> None:
        while text not in self.all[self._seen :]:
            assert self._read(), self.all[-500:]

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._here], [], [], 60)
        try:
            some = os.read(self._here, 1 << 16) if ready else b""
        except OSError:
            some = b""
        self.all += some
        return some

    def status(self) -> int:
        while self._read():
            pass
        os.close(self._here)
        return self._process.wait(timeout=60)
