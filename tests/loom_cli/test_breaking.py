"""`loom debug --break`, `--step` and `--pdb`: a stored run, stopped in the body of its flow, with nothing written."""

from __future__ import annotations

import importlib
import io
import os
import pty
import select
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.terminal import Ended, environment, loom

APP: Final = """
import loom

def note(word):
    with open("effects.txt", "a") as effects:
        effects.write(word)

@loom.step
async def assess(amount: int) -> int:
    note("assess")
    return amount * 2

@loom.step
async def pay(amount: int) -> str:
    note("pay")
    if amount > 1000:
        raise ValueError("too much")
    return f"paid {amount}"

def doubled(n):
    half = n
    return half * 2

async def ask(ctx, risk):
    return await ctx.suspend("approval", show=risk, expects=bool)

@loom.flow
async def refund(ctx: loom.Context, amount: int) -> str:
    risk = await ctx.run(assess, amount)
    total = doubled(risk)
    if not await ask(ctx, risk):
        return "no"
    paid = await ctx.run(pay, total)
    return paid

@loom.flow
async def again(ctx: loom.Context, n: int) -> int:
    seen = await ctx.run(assess, n)
    if n < 2:
        await ctx.continue_as_new(n + 1)
    return seen

class Loud:
    def __repr__(self):
        raise RuntimeError("no")

@loom.flow
async def odd(ctx: loom.Context) -> None:
    hostile, loud = "\\x1b]52;c;aGk=\\x07", Loud()
    await ctx.suspend("sign")

app = loom.define_config(flows=[refund, again, odd], storage=loom.sqlite_storage())
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an app, a run that has ended (`ended`), one that waits (`waits`), and one that failed (`failed`)."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.chdir(folder)
        write(folder, APP)
        for run, amount in (("waits", 5), ("ended", 7), ("failed", 900)):
            assert loom("run", "refund", "--input", str(amount), "--id", run, "-q", folder=folder).status == 3
        assert loom("resume", "ended", "--answer", "true", "-q", folder=folder).status == 0
        assert loom("resume", "failed", "--answer", "true", "-q", folder=folder).status == 1
        sys.modules.pop("app", None)
        yield folder


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of that folder of the test's own, which is the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody's .pdbrc
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.chdir(tmp_path)
    before = sys.gettrace()
    write(tmp_path, APP)
    yield tmp_path
    sys.modules.pop("app", None)
    assert sys.gettrace() is before


def write(shop: Path, source: str) -> None:
    sys.modules.pop("app", None)
    (shop / "app.py").write_text(source, encoding="utf-8")
    importlib.invalidate_caches()


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Have *lines* be typed at the prompt, and the end of the file after them."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def said(done: Ended) -> list[str]:
    """Return what pdb said, answer by answer."""
    return [answer.strip() for answer in done.out.split("(loom-pdb) ")]


def untouched(shop: Path) -> str:
    """Return all that the store holds and the steps have done."""
    with closing(sqlite3.connect(shop / ".loom" / "loom.db")) as store:
        return "\n".join([*store.iterdump(), (shop / "effects.txt").read_text()])


# -- told ---------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-07")
def test_where_a_body_stands_before_a_call_is_told(shop: Path) -> None:
    before = untouched(shop)

    done = loom("debug", "ended", "--break", "before:pay", folder=shop)

    shown = loom("show", "ended", "--at", "6", "--json", folder=shop).json
    told = [line.strip() for line in done.out.splitlines()]
    assert done.status == ExitCode.DONE
    assert told[0] == "before pay  event 7"
    assert told[1].endswith(" in refund")
    assert told[1].startswith("app.py:")
    assert told[2:5] == ["amount = 7", "risk = 14", "total = 28"]
    assert told[5] == f"state {shown['digest']} after event 6"
    assert done.err == "ended  same  1 stop; the run ended well; nothing was written, and no effect ran\n"
    assert untouched(shop) == before


def test_after_a_call_what_it_gave_is_told_to_a_program_as_well(shop: Path) -> None:
    done = loom("debug", "ended", "--break", "after:assess", "--json", folder=shop)

    [stop] = done.json["stops"]
    assert (stop["when"], stop["id"], stop["sequence"], stop["value"], stop["error"]) == (
        "after",
        "assess",
        2,
        "14",
        None,
    )
    assert stop["digest"] == loom("show", "ended", "--at", "2", "--json", folder=shop).json["digest"]
    assert done.json["verdict"]["verdict"] == "same"


@pytest.mark.proves("BEY-07")
def test_a_step_is_each_call(shop: Path) -> None:
    stops = loom("debug", "ended", "--step", "--json", folder=shop).json["stops"]

    assert [(stop["id"], stop["sequence"]) for stop in stops] == [("assess", 1), ("approval", 3), ("pay", 7)]


@pytest.mark.parametrize(
    ("number", "place"),
    [(0, ("before", "assess")), (2, ("after", "assess")), (5, ("after", "approval")), (9, ("end", None))],
)
def test_an_event_stops_where_the_body_stands_then_or_next(shop: Path, number: int, place: tuple[str, str]) -> None:
    [stop] = loom("debug", "ended", "--break", f"at:{number}", "--json", folder=shop).json["stops"]

    assert (stop["when"], stop["id"]) == place


@pytest.mark.parametrize(
    ("run", "head", "how"),
    [
        ("waits", "the end of the log: it stands in approval", "the run waits"),
        ("failed", "the end of the log: the flow failed", "the run failed"),
        ("ended", "the end of the log: the flow returned", "the run ended well"),
    ],
)
def test_without_a_place_it_is_told_where_the_log_ends_and_how(shop: Path, run: str, head: str, how: str) -> None:
    done = loom("debug", run, "--break", "end", folder=shop)

    assert done.out.startswith(head)
    assert how in done.err


def test_a_link_of_a_chain_is_told_as_one(shop: Path) -> None:
    assert loom("run", "again", "--input", "1", "--id", "chain", "-q", folder=shop).status == 0

    first, last = (loom("debug", run, "--break", "end", folder=shop) for run in ("chain~1", "chain"))

    assert "the run goes on as chain~2" in first.err
    assert "continue_as_new" in first.out
    assert "this is log 2 of chain" in last.err


def test_a_run_of_which_events_were_archived_stops_without_the_states_that_are_not_known(shop: Path) -> None:
    archive = ("--archive", str(shop / "archive.db"))
    assert loom("compact", "ended", *archive, folder=shop).status == 0
    compacted = loom("show", "ended", "--json", folder=shop).json["compacted"]

    done = loom("debug", "ended", "--break", "before:pay", "--json", folder=shop)

    assert compacted is not None
    assert (done.json["stops"][0]["id"], done.json["stops"][0]["digest"]) == ("pay", None)
    assert f"events up to {compacted} are in an archive" in loom("debug", "ended", "--break", "end", folder=shop).err


def test_what_a_body_holds_drives_no_terminal_and_need_not_show_itself(shop: Path) -> None:
    assert loom("run", "odd", "--id", "odd", "-q", folder=shop).status == 3

    done = loom("debug", "odd", "--break", "end", folder=shop)

    assert "\x1b" not in done.out
    assert "loud = <Loud" in done.out


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("pay", "usage"),
        ("before:nothing", "call-not-found"),
        ("at:99", "usage"),
        ("at:one", "usage"),
        ("after:approval", "usage"),
    ],
)
def test_what_is_no_place_is_refused_in_words(shop: Path, place: str, code: str) -> None:
    done = loom("debug", "waits", "--break", place, folder=shop)

    assert f"error[{code}]" in done.err
    assert "try:" in done.err
    assert done.status in (ExitCode.USAGE, ExitCode.NOT_FOUND)


def test_changed_code_is_stopped_where_it_does_not_fit(shop: Path) -> None:
    write(shop, APP.replace("risk = await ctx.run(assess, amount)", "risk = await ctx.run(pay, amount)"))

    done = loom("debug", "ended", "--break", "end", folder=shop)

    assert done.out.startswith("the flow does not fit its log here")
    assert "breaks" in done.err
    assert done.status == ExitCode.FAILED


# -- pdb ----------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-07")
def test_pdb_stands_in_the_body_of_the_flow_and_goes_on_line_by_line(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = untouched(shop)
    typed(monkeypatch, "p amount", "n", "p risk", "s", "n", "p n", "r", "n", "s", "n", "w", "c")

    done = loom("debug", "ended", "--break", "before:assess", "--pdb", folder=shop)

    answers = said(done)
    assert answers[0].endswith("-> risk = await ctx.run(assess, amount)")
    assert answers[1:3] == ["7", answers[2]]
    assert answers[2].endswith("-> total = doubled(risk)")
    assert answers[3] == "14"
    assert "doubled()" in answers[4]
    assert answers[6] == "14"
    assert "--Return--" in answers[7]
    assert answers[8].endswith("-> if not await ask(ctx, risk):")
    assert "ask()" in answers[9]
    assert "asyncio" not in done.out
    assert "loom_cli" not in done.out
    assert done.status == ExitCode.DONE
    assert untouched(shop) == before


@pytest.mark.proves("BEY-07")
@pytest.mark.parametrize("number", [1, 3, 7])
def test_pdb_stops_in_the_flow_body_at_event_n_with_effects_off(
    shop: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = untouched(shop)
    typed(monkeypatch, "c")

    done = loom("debug", "ended", "--break", f"at:{number}", "--pdb", folder=shop)

    assert f"event {number}" in done.out
    assert "app.py(" in said(done)[0]
    assert untouched(shop) == before


def test_pdb_stands_where_a_run_waits_and_where_it_failed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "p risk", "up", "p amount, total", "c")
    waits = said(loom("debug", "waits", "--pdb", folder=shop))
    typed(monkeypatch, "p total", "c")
    failed = said(loom("debug", "failed", "--pdb", folder=shop))

    assert (waits[1], waits[3]) == ("10", "(5, 20)")
    assert failed[0].endswith("-> paid = await ctx.run(pay, total)")
    assert failed[1] == "3600"


def test_after_a_call_pdb_shows_what_it_gave(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "retval", "c")

    assert said(loom("debug", "ended", "--break", "after:assess", "--pdb", folder=shop))[1] == "14"


def test_the_next_call_stops_when_that_is_asked_for(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "nc", "nextcall", "c")

    done = loom("debug", "ended", "--break", "before:assess", "--pdb", folder=shop)

    assert [line for line in done.out.splitlines() if line.startswith("(loom-pdb) before")] == [
        "(loom-pdb) before approval  event 3",
        "(loom-pdb) before pay  event 7",
    ]


@pytest.mark.parametrize("command", ["q", "n\nq"])
def test_who_quits_ends_the_replay_though_the_flow_catches_all(
    shop: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    typed(monkeypatch, *command.split("\n"))

    done = loom("debug", "ended", "--break", "before:assess", "--pdb", folder=shop)

    assert done.status == ExitCode.DONE
    assert done.err == "left; nothing was written, and no effect ran\n"


@pytest.mark.proves("BEY-07")
def test_what_is_changed_at_the_prompt_changes_no_log(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = untouched(shop)
    typed(monkeypatch, "n", "!risk = 3", "c")

    done = loom("debug", "ended", "--break", "before:assess", "--pdb", folder=shop)

    assert done.status == ExitCode.FAILED
    assert "something was changed at the prompt" in done.err
    assert untouched(shop) == before
    assert loom("replay", "ended", folder=shop).status == 0


def test_at_the_prompt_the_world_is_cut_off_and_that_is_not_held_against_the_flow(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "import os", 'os.system("touch was-here")', "c")

    done = loom("debug", "ended", "--break", "before:assess", "--pdb", folder=shop)

    assert "CutOff" in said(done)[2]
    assert not (shop / "was-here").exists()
    assert done.status == ExitCode.DONE


def test_a_breakpoint_that_the_author_wrote_stops_with_pdb_and_is_told_without(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shop, APP.replace("    total = doubled(risk)\n", "    total = doubled(risk)\n    breakpoint()\n"))
    hook = sys.breakpointhook

    told = loom("debug", "ended", "--break", "before:pay", folder=shop)
    typed(monkeypatch, "p total", "n", "c", "c")
    done = loom("debug", "ended", "--pdb", folder=shop)

    assert [line for line in told.out.splitlines() if not line.startswith(" ")] == [
        "breakpoint  event 2",
        "before pay  event 7",
    ]
    assert said(done)[1] == "28"
    assert "if not await ask(ctx, risk)" in said(done)[2]
    assert done.status == ExitCode.DONE
    assert sys.breakpointhook is hook


def test_pdb_and_json_do_not_go_together(shop: Path) -> None:
    assert loom("debug", "ended", "--pdb", "--json", folder=shop).error["code"] == "usage"


@pytest.mark.proves("BEY-07")
def test_on_a_terminal_pdb_is_talked_to_there(shop: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "loom_cli", "debug", "ended", "--break", "before:pay", "--pdb"]
    running = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment({"HOME": str(shop), "TERM": "dumb"})
    )
    os.close(theirs)
    text = read_until(ours, "(loom-pdb) ")
    os.write(ours, b"p total * 1000\n")
    text += read_until(ours, "28000")
    os.write(ours, b"q\n")
    text += read_until(ours, "left;")

    assert running.wait(30) == 0
    assert "before pay" in text
    os.close(ours)


def read_until(terminal: int, words: str) -> str:
    """Return what comes from *terminal* up to *words*; fail where half a minute passes without a word."""
    text = ""
    while words not in text:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, text
        text += os.read(terminal, 4096).decode()
    return text
