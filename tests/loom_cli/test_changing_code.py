"""Code that is edited while its runs wait, from the command: what goes on, what is refused, and how a run is moved."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loom_cli.terminal import Ended
from tests.loom_cli.terminal import loom as command

APP = """
import dataclasses
import loom


@dataclasses.dataclass
class Order:
    id: str
    amount: int


@loom.step
async def book(id: str) -> str:
    with open("ran.txt", "a") as ran:
        ran.write(id + " ")
    return id


@loom.step
async def bill(id: str) -> str:
    return "billed " + id


@loom.flow
async def shop(ctx: loom.Context, order: Order) -> str:
    booked = await ctx.run(book, order.id)
    answer = await ctx.suspend("go")
    return f"{booked} {answer}"


app = loom.define_config(flows=[shop], storage=loom.sqlite_storage())
"""
LONGER = ('return f"{booked} {answer}"', "return await ctx.run(bill, booked)")
OTHERWISE = ("ctx.run(book, order.id)", "ctx.run(bill, order.id)")
OTHER_ARGUMENT = ("ctx.run(book, order.id)", "ctx.run(book, order.id.upper())")
RENAMED = (("async def book(", "async def book_it("), ("ctx.run(book,", "ctx.run(book_it,"))
NEW_FIELD = ("    amount: int\n", "    amount: int\n    currency: str\n")
REFUSING = ("flows=[shop]", 'flows=[shop], on_change="refuse"')
SPACED = ("    booked =", "    # as ordered\n\n    booked =")


class Project:
    """A folder with an app that is edited, and a run of it that waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edit()
        assert self.loom("run", "shop", "--input", '{"id": "a-1", "amount": 7}', "--id", "x1").status == 3

    def edit(self, *edits: tuple[str, str]) -> None:
        """Have the app be as it was first but for *edits*."""
        text = APP
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (self.folder / "app.py").write_text(text, encoding="utf-8")

    def loom(self, *arguments: str) -> Ended:
        """Run a command that imports the app as it is now."""
        sys.modules.pop("app", None)
        linecache.checkcache()
        return command(*arguments, folder=self.folder)

    def log(self) -> str:
        return self.loom("logs", "x1", "--json").out


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOM_PRINCIPAL", "ada")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Project(tmp_path)
    sys.modules.pop("app", None)


def test_a_run_from_before_an_edit_goes_on_where_it_fits_and_one_line_says_so(shop: Project) -> None:
    shop.edit(LONGER)

    done = shop.loom("resume", "x1", "--answer", "1")

    assert (done.status, done.out) == (0, "billed a-1\n")
    assert [line for line in done.err.splitlines() if "the code has changed" in line] == [
        "  the code has changed since; what was recorded still fits it"
    ]


def test_an_edit_that_changes_nothing_is_not_mentioned(shop: Project) -> None:
    shop.edit(SPACED)

    done = shop.loom("resume", "x1", "--answer", "1")

    assert done.status == 0
    assert "changed" not in done.err


def test_new_runs_run_the_code_as_it_is(shop: Project) -> None:
    shop.edit(OTHERWISE, NEW_FIELD)

    done = shop.loom("run", "shop", "--input", '{"id": "b", "amount": 1, "currency": "EUR"}', "--id", "x2")

    assert done.status == 3
    assert "changed" not in done.err


@pytest.mark.proves("RPL-07")
def test_a_divergence_is_shown_with_both_sides_the_line_and_the_likely_cause(shop: Project) -> None:
    shop.edit(OTHERWISE)

    done = shop.loom("resume", "x1", "--answer", "1")
    shown = shop.loom("show", "x1")
    machine = shop.loom("resume", "x1", "--answer", "1", "--json")

    assert (done.status, done.out) == (3, "")
    line = 1 + APP[: APP.index("ctx.run(book")].count("\n")
    for told in (done.err, shown.out):
        assert "at        place 0" in told
        assert 'recorded  step book with {"id": "a-1"}' in told
        assert 'asked     step bill with {"id": "a-1"}' in told
        assert f"{shop.folder / 'app.py'}:{line}" in told.replace("\n", "")
        assert "The code of the flow changed since this was recorded." in told
        assert "loom resume x1" in told
    assert (machine.status, machine.json["status"]) == (3, "diverged")
    assert machine.json["difference"]["asked"]["id"] == "bill"
    assert shown.out.startswith("x1  diverged\n")


def test_who_renamed_a_step_is_told_how_to_keep_its_id(shop: Project) -> None:
    advice = 'If book_it is book under a new name, let it keep its id: @loom.step(id="book").'
    shop.edit(*RENAMED)

    assert advice in shop.loom("deploy", "check").out
    assert advice in shop.loom("resume", "x1", "--answer", "1").err

    shop.edit(*RENAMED, ("@loom.step\nasync def book_it", '@loom.step(id="book")\nasync def book_it'))
    assert shop.loom("resume", "x1", "--answer", "1").status == 0


BOTH = ("    answer = await", "    await ctx.run(bill, order.id)\n    answer = await")
SWAPPED = (
    ("    booked = await ctx.run(book, order.id)\n", "    await ctx.run(bill, order.id)\n"),
    ("    answer = await", "    booked = await ctx.run(book, order.id)\n    answer = await"),
)


def test_steps_that_were_put_in_another_order_are_not_told_to_take_each_others_id(shop: Project) -> None:
    shop.edit(BOTH)
    assert shop.loom("run", "shop", "--input", '{"id": "a-2", "amount": 7}', "--id", "x2").status == 3
    shop.edit(*SWAPPED)
    advice = "When this was recorded, step bill was asked after step book: put them back in that order"

    checked = shop.loom("deploy", "check").out
    resumed, shown = shop.loom("resume", "x2", "--answer", "1").err, shop.loom("show", "x2").out

    for told in (checked, resumed, shown):
        assert advice in told
        assert 'ctx.patched("bill first")' in told
        assert "under a new name" not in told


def test_a_step_that_was_added_before_another_is_told_to_be_patched(shop: Project) -> None:
    shop.edit(("    booked =", "    await ctx.run(bill, order.id)\n    booked ="))
    advice = 'If step bill was added, have old runs go the old way: if ctx.patched("bill").'

    assert advice in shop.loom("deploy", "check").out
    assert advice in shop.loom("resume", "x1", "--answer", "1").err


def test_a_step_that_was_taken_out_is_told_to_be_kept_for_old_runs(shop: Project) -> None:
    shop.edit(("await ctx.run(book, order.id)", "order.id"), ("def book(", "def booking("))

    told = shop.loom("deploy", "check").out

    assert 'If step book was taken out, have old runs go the old way: if not ctx.patched("without book").' in told


def test_a_diverged_run_goes_on_once_the_code_is_mended_and_nothing_ran_twice(shop: Project) -> None:
    shop.edit(OTHERWISE)
    assert shop.loom("resume", "x1", "--answer", "1").status == 3
    log = shop.log()
    assert shop.loom("resume", "x1").status == 3
    assert shop.log() == log, "it is written once"
    shop.edit(LONGER)

    done = shop.loom("resume", "x1", "--answer", "1")

    assert (done.status, done.out) == (0, "billed a-1\n")
    assert (shop.folder / "ran.txt").read_text() == "a-1 "


def test_a_worker_leaves_a_run_that_diverges_as_it_is_and_says_so_once(shop: Project) -> None:
    shop.edit(("    answer = await", "    await ctx.sleep(0.01)\n    answer = await"))
    assert shop.loom("run", "shop", "--input", '{"id": "b", "amount": 7}', "--id", "x2", "--wait", "0").status == 3
    log = shop.loom("logs", "x2", "--json").out
    shop.edit(OTHERWISE)

    done = shop.loom("worker", "--until-idle")

    assert done.status == 0
    assert done.err.count("cannot be driven here") == 1
    assert "x2 diverged at place 0" in done.err.replace("\n", " ")
    assert shop.loom("logs", "x2", "--json").out == log


# refuse


@pytest.mark.proves("RNG-18")
def test_where_changed_code_is_refused_the_command_says_what_to_do(shop: Project) -> None:
    shop.edit(LONGER, REFUSING)
    log = shop.log()

    refused = shop.loom("resume", "x1", "--answer", "1")

    assert refused.status == 3
    assert refused.err.startswith("error[code-changed]: x1 began with 1:")
    assert "loom migrate x1 --to current" in refused.err.replace("\n", " ")
    assert shop.log() == log
    assert shop.loom("resume", "x1", "--answer", "1", "--on-change", "check").out == "billed a-1\n"


def test_another_word_for_what_to_do_is_refused(shop: Project) -> None:
    refused = shop.loom("resume", "x1", "--on-change", "ignore")

    assert (refused.status, "is none of check, refuse and allow" in refused.err) == (2, True)


# migrate


@pytest.mark.proves("RPL-08")
def test_a_run_is_moved_to_the_code_as_it_is_and_resume_runs_the_new_body(shop: Project) -> None:
    shop.edit(LONGER, REFUSING)
    present = shop.loom("show", "x1", "--code", "--json").json["present"]["fingerprint"]

    planned = shop.loom("migrate", "x1", "--dry-run")
    moved = shop.loom("migrate", "x1", "--to", present, "--reason", "bill at once")

    assert planned.status == 0
    assert "nothing was written" in planned.out
    assert moved.status == 0
    assert moved.out.startswith("x1  moved to the code as it is (event 5)\n")
    assert "bill at once" in moved.out
    assert shop.loom("resume", "x1", "--answer", "1").out == "billed a-1\n"
    line = next(line for line in shop.loom("logs", "x1").out.splitlines() if "EXECUTION_MIGRATED" in line)
    assert line.endswith("moved to other code, shop version 1, bill at once, by ada")


def test_a_run_is_given_a_new_input_where_the_old_one_no_longer_fits(shop: Project) -> None:
    shop.edit(NEW_FIELD)
    unreadable, refused = shop.loom("resume", "x1", "--answer", "1"), shop.loom("migrate", "x1")
    given = '{"id": "a-1", "amount": 7, "currency": "EUR"}'

    moved = shop.loom("migrate", "x1", "--input", given, "--json")

    assert (unreadable.status, "the record has no currency" in unreadable.err) == (1, True)
    assert (refused.status, "the record has no currency" in refused.err) == (1, True)
    assert moved.json["given"]["input"]["currency"] == "EUR"
    assert shop.loom("resume", "x1", "--answer", "1").out == "a-1 1\n"


def test_a_move_that_does_not_fit_is_refused_with_both_sides_and_nothing_is_written(shop: Project) -> None:
    shop.edit(OTHERWISE)
    log = shop.log()

    refused, machine = shop.loom("migrate", "x1"), shop.loom("migrate", "x1", "--json")

    assert refused.status == 1
    assert 'recorded step book with {"id": "a-1"}' in refused.err
    assert "asked step bill" in refused.err
    assert machine.error["fields"]["recorded"]["id"] == "book"
    assert machine.error["fields"]["asked"]["id"] == "bill"
    assert shop.log() == log


def test_a_move_tells_the_arguments_that_differ_and_json_has_the_whole(shop: Project) -> None:
    shop.edit(OTHER_ARGUMENT)

    told, machine = shop.loom("migrate", "x1", "--dry-run"), shop.loom("migrate", "x1", "--json")
    shown = shop.loom("show", "x1", "--json")

    assert 'book is asked with {"id": "A-1"}' in told.out
    assert machine.json["differences"][0]["id"] == "book"
    assert machine.json["before"]["fingerprint"] != machine.json["after"]["fingerprint"]
    assert shown.json["fingerprint"] == machine.json["after"]["fingerprint"]


def test_another_fingerprint_is_refused_and_the_present_one_printed(shop: Project) -> None:
    present = shop.loom("show", "x1", "--code", "--json").json["present"]["fingerprint"]

    refused = shop.loom("migrate", "x1", "--to", "1:abcdefgh")

    assert refused.status == 2
    assert present in refused.err
    assert shop.loom("show", "x1", "--json").json["last"] == 4


# show


@pytest.mark.proves("RPL-06")
def test_show_prints_the_code_that_a_run_is_pinned_to_and_whether_it_has_changed(shop: Project) -> None:
    pinned = shop.loom("show", "x1", "--json").json["fingerprint"]
    alone, alike = shop.loom("show", "x1"), shop.loom("show", "x1", "--code")
    shop.edit(LONGER)
    changed, machine = shop.loom("show", "x1", "--code"), shop.loom("show", "x1", "--code", "--json").json

    assert f"\ncode {pinned[:10]}\n" in alone.out
    assert f"\ncode {pinned[:10]}, as it is\n" in alike.out
    assert f"\ncode {pinned[:10]}; it has changed since, to {machine['present']['fingerprint'][:10]}\n" in changed.out
    assert machine["present"]["same"] is False
    assert shop.loom("show", "x1", "--json").json["present"] is None


def test_show_works_without_the_app_and_says_where_the_app_has_no_such_flow(shop: Project) -> None:
    (shop.folder / "app.py").write_text("import no_such_module")
    assert shop.loom("show", "x1").status == 0
    assert shop.loom("show", "x1", "--code").status == 2

    shop.edit(("flows=[shop]", "flows=[]"))

    assert "the app has no such flow" in shop.loom("show", "x1", "--code").out
    assert shop.loom("show", "x1", "--code", "--json").json["present"] == {"fingerprint": None, "same": False}
