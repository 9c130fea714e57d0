"""`loom replay`, `loom check replay` and `loom deploy check`, as somebody meets them who changes code with runs in flight."""

from __future__ import annotations

import importlib
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.terminal import Ended, loom

APP: Final = """
import loom

@loom.step
async def assess(amount: int) -> int:
    return amount * 2

@loom.step
async def pay(amount: int) -> str:
    return f"paid {amount}"

@loom.flow
async def refund(ctx: loom.Context, amount: int) -> str:
    risk = await ctx.run(assess, amount)
    await ctx.suspend("approval", show=risk, expects=bool)
    return await ctx.run(pay, amount)

app = loom.define_config(flows=[refund], storage=loom.sqlite_storage())
"""
REORDERED: Final = APP.replace(
    """    risk = await ctx.run(assess, amount)
    await ctx.suspend("approval", show=risk, expects=bool)
""",
    """    await ctx.suspend("approval", show=2 * amount, expects=bool)
    await ctx.run(assess, amount)
""",
)
LOUDER: Final = APP.replace("    return await ctx.run(pay, amount)", "    return (await ctx.run(pay, amount)).upper()")
PRINTS: Final = APP.replace("    risk = await", '    print("a flow says this")\n    risk = await')
GREETS: Final = f'print("welcome")\n{APP}'
ELSEWHERE: Final = APP.replace("async def refund", "async def repay").replace("[refund]", "[repay]")
DRAWS: Final = "import random\n" + APP.replace("(assess, amount)", "(assess, random.randrange(10**9))")
MANY: Final = APP.replace(
    "app = loom",
    """@loom.flow
async def many(ctx: loom.Context, steps: int) -> int:
    return sum([await ctx.run(assess, n) for n in range(steps)])

app = loom""",
).replace("flows=[refund]", "flows=[refund, many]")
BROKEN: Final = APP.replace("@loom.flow", "@loom.flow(")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with an app, one run that waits (`r-1`) and one that has ended (`r-2`)."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    write(tmp_path, app=APP, reordered=REORDERED, louder=LOUDER, prints=PRINTS, elsewhere=ELSEWHERE, broken=BROKEN)
    write(tmp_path, greets=GREETS, draws=DRAWS, many=MANY)
    for run in ("r-1", "r-2"):
        loom("run", "refund", "--id", run, "--input", "7", "--app", "shop_app:app", "-q", folder=tmp_path)
    done = loom("resume", "r-2", "--answer", "true", "--app", "shop_app:app", "-q", folder=tmp_path)
    assert done.status == ExitCode.DONE, done
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("shop_"):
            del sys.modules[name]


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"shop_{name}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()


def under(code: str, *arguments: str, folder: Path) -> Ended:
    """Run the command with the app as it is in the module of that name."""
    return loom(*arguments, "--app", f"shop_{code}:app", folder=folder)


# -- loom replay ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-19")
def test_a_replay_prints_a_digest_of_each_state_and_value_and_one_of_all(shop: Path) -> None:
    first, again = (under("app", "replay", "r-2", "--json", folder=shop) for _ in range(2))

    assert (first.status, first.out) == (ExitCode.DONE, again.out)
    proof = first.json
    assert [event["type"] for event in proof["events"] if event["asked"]] == [
        "STEP_STARTED",
        "GATE_OPENED",
        "STEP_STARTED",
    ]
    assert [event["id"] for event in proof["events"] if event["value"]] == ["assess", "approval", "pay", None]
    shown = loom("show", "r-2", "--at", "3", "--json", folder=shop).json
    assert proof["events"][3]["state"] == shown["digest"]
    assert proof["chain"] == loom("show", "r-2", "--json", folder=shop).json["chain"]
    assert (proof["verdict"]["verdict"], proof["proved"]) == ("same", None)


def test_a_proof_that_takes_long_says_how_far_it_has_come_beside_its_results(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under("many", "run", "many", "--id", "m-1", "--input", "60", "-q", folder=shop)
    quick = under("many", "replay", "m-1", "--prove", folder=shop)
    monkeypatch.setattr("loom.lenses.proving.LONG_BYTES", 0)

    done = under("many", "replay", "m-1", "--prove", folder=shop)

    assert quick.err == ""
    assert done.out == quick.out
    assert done.err.splitlines() == [f"proved {n} of 122" for n in (13, 25, 37, 49, 61, 74, 86, 98, 110)]


@pytest.mark.proves("BEY-19")
def test_a_proof_holds_as_long_as_nothing_differs(shop: Path) -> None:
    earlier = under("app", "replay", "r-2", "--prove", "--json", folder=shop)
    (shop / "r-2.json").write_text(earlier.out, encoding="utf-8")

    assert earlier.json["proved"] is True
    for expected in ("r-2.json", earlier.json["digest"], earlier.json["chain"]):
        proved = under("app", "replay", "r-2", "--expect", expected, folder=shop)
        assert (proved.status, "proved: 10 events" in proved.out) == (ExitCode.DONE, True)


@pytest.mark.proves("BEY-19")
def test_a_changed_line_of_the_flow_fails_the_proof_and_names_the_event(shop: Path) -> None:
    asks_otherwise = under("reordered", "replay", "r-2", "--prove", "--json", folder=shop)
    ends_otherwise = under("louder", "replay", "r-2", "--prove", "--json", folder=shop)

    assert (asks_otherwise.status, ends_otherwise.status) == (ExitCode.FAILED, ExitCode.FAILED)
    assert [(each["sequence"], each["id"]) for each in asks_otherwise.json["problems"]] == [(1, "assess")]
    assert [each["sequence"] for each in ends_otherwise.json["problems"]] == [0, 9]


def test_a_step_that_is_asked_with_other_arguments_is_shown_with_both(shop: Path) -> None:
    under("draws", "run", "refund", "--id", "d-1", "--input", "7", "-q", folder=shop)

    told = under("draws", "check", "replay", "d-1", folder=shop).out

    assert re.search(
        r'recorded STEP_STARTED assess \{"amount": \d+\}, asks STEP_STARTED assess \{"amount": \d+\} ', told
    )


@pytest.mark.proves("BEY-19")
def test_a_changed_byte_of_the_log_fails_the_proof_and_names_the_event(shop: Path) -> None:
    (shop / "r-2.json").write_text(under("app", "replay", "r-2", "--json", folder=shop).out, encoding="utf-8")
    change(shop, 8, payload='{"start":7,"result":"paid 8"}')

    failed = under("app", "replay", "r-2", "--expect", "r-2.json", folder=shop)

    assert failed.status == ExitCode.FAILED
    assert "event 8 STEP_COMPLETED  its record is not what was proved earlier" in failed.out
    assert under("app", "replay", "r-2", folder=shop).status == ExitCode.FAILED  # its end shows it, too


def test_what_was_expected_may_be_no_proof(shop: Path) -> None:
    (shop / "odd.json").write_text("[]", encoding="utf-8")

    for expected in ("odd.json", "gone.json", "shop_app.py"):
        refused = under("app", "replay", "r-2", "--expect", expected, folder=shop)
        assert (refused.status, "error[usage]" in refused.err) == (ExitCode.USAGE, True)


def test_what_a_flow_prints_stays_out_of_the_result(shop: Path) -> None:
    shown = under("prints", "replay", "r-1", "--json", folder=shop)

    assert shown.json["verdict"]["verdict"] == "migrates"
    assert shown.err == "a flow says this\n"


@pytest.mark.parametrize(
    "words", [("replay", "r-1"), ("deploy", "check"), ("check", "replay", "r-1"), ("migrate", "r-1", "--dry-run")]
)
def test_what_an_app_prints_when_it_is_imported_stays_out_of_the_result(shop: Path, words: tuple[str, ...]) -> None:
    shown = under("greets", *words, "--json", folder=shop)

    assert shown.json
    assert shown.err.startswith("welcome\n")


# -- loom check replay ------------------------------------------------------------------------------------------------


@pytest.mark.proves("RPL-11")
def test_each_run_is_told_and_a_divergence_ends_the_check_with_1(shop: Path) -> None:
    safe = under("app", "check", "replay", "--all", folder=shop)
    broken = under("reordered", "check", "replay", "--all", folder=shop)
    gone = under("elsewhere", "check", "replay", "r-1", folder=shop)

    assert (safe.status, broken.status, gone.status) == (ExitCode.DONE, ExitCode.FAILED, ExitCode.FAILED)
    assert [line.split()[:4] for line in safe.out.splitlines()[1:]] == [
        ["r-2", "refund", "completed", "same"],
        ["r-1", "refund", "suspended", "same"],
    ]
    assert (
        "r-1  refund  suspended  breaks   event 1: recorded STEP_STARTED assess, asks GATE_OPENED approval"
        in broken.out
    )
    assert "(shop_reordered.py:14)" in broken.out
    assert "flow missing  no flow 'refund' is registered" in gone.out
    assert broken.err == "2 runs: 2 breaks\n"


def test_runs_are_chosen_by_id_or_by_conditions(shop: Path) -> None:
    by_id = under("app", "check", "replay", "r-2", "--json", folder=shop)
    by_status = under("app", "check", "replay", "--where", "status=suspended", "--json", folder=shop)
    nothing = under("app", "check", "replay", "--where", "flow=other", folder=shop)

    assert (by_id.json["id"], by_status.json["id"]) == ("r-2", "r-1")
    assert (nothing.status, nothing.out) == (ExitCode.DONE, "")
    for arguments in ((), ("r-1", "--all"), ("--all", "--where", "flow=refund")):
        assert under("app", "check", "replay", *arguments, folder=shop).status == ExitCode.USAGE


def test_the_static_check_is_a_command_of_its_own(shop: Path) -> None:
    assert loom("check", "shop_app.py", folder=shop).status == ExitCode.DONE
    assert "loom deploy check" in loom("deploy", folder=shop).err


# -- loom deploy check ------------------------------------------------------------------------------------------------


@pytest.mark.proves("CLI-10")
def test_a_step_in_another_order_breaks_and_the_runs_are_named(shop: Path) -> None:
    checked = under("reordered", "deploy", "check", folder=shop)

    assert checked.status == ExitCode.FAILED
    assert checked.out.splitlines() == [
        "refund: breaks at assess, 2 runs",
        '  recorded  event 1  STEP_STARTED assess {"amount": 7}',
        '  asked     GATE_OPENED approval {"show": 14, "timeout_ms": null, "key": null}',
        "  where     shop_reordered.py:14",
        "  why       The code of the flow changed since this was recorded.",
        (
            "  try       When this was recorded, gate approval was asked after step assess: put them back in that order, "
            'or have old runs go the old way: if ctx.patched("approval first").'
        ),
        "  runs      r-2, r-1",
        "",
        "refund  2 breaks",
        "2 stored runs: 2 breaks",
    ]


@pytest.mark.proves("CLI-10")
def test_it_speaks_to_people_programs_ci_and_pull_requests(shop: Path) -> None:
    shape = under("reordered", "deploy", "check", "--json", folder=shop).json
    junit = ET.fromstring(under("reordered", "deploy", "check", "--format", "junit", folder=shop).out)
    markdown = under("reordered", "deploy", "check", "--format", "markdown", folder=shop).out

    assert (shape["runs"], shape["safe"], shape["counts"]["breaks"]) == (2, False, 2)
    [finding] = shape["findings"]
    assert (finding["count"], finding["samples"], finding["where"]) == (2, ["r-2", "r-1"], "shop_reordered.py:14")
    assert [suite.attrib for suite in junit] == [{"name": "refund", "tests": "1", "failures": "1"}]
    assert [case.attrib["name"] for case in junit.iter("testcase")] == ["refund: breaks at assess, 2 runs"]
    assert "| `refund` | 2 |" in markdown
    assert "- where: `shop_reordered.py:14`" in markdown


def test_code_that_asks_the_same_is_safe_or_needs_a_migration(shop: Path) -> None:
    same, changed = (under(code, "deploy", "check", folder=shop) for code in ("app", "louder"))

    assert (same.status, changed.status) == (ExitCode.DONE, ExitCode.DONE)
    assert same.out == "refund  2 safe\n2 stored runs: 2 safe\n"
    assert "1 ask with other arguments, or would end otherwise" in changed.out
    assert under("louder", "deploy", "check", "--format", "junit", folder=shop).status == ExitCode.DONE


@pytest.mark.proves("CLI-10")
def test_a_bundle_of_exported_logs_needs_no_store(shop: Path) -> None:
    exported = shop / "exported"
    exported.mkdir()
    for run in ("r-1", "r-2"):
        text = loom("logs", run, "--json", folder=shop).out
        (exported / f"{run}.jsonl").write_text(text, encoding="utf-8")
    (shop / ".loom" / "loom.db").unlink()

    safe = under("app", "deploy", "check", "--bundle", "exported", folder=shop)
    broken = under("reordered", "deploy", "check", "--bundle", "exported", "--json", folder=shop)

    assert (safe.status, safe.out) == (ExitCode.DONE, "refund  2 safe\n2 stored runs: 2 safe\n")
    assert (broken.status, broken.json["counts"]["breaks"]) == (ExitCode.FAILED, 2)


def test_runs_may_be_chosen_and_what_says_two_things_is_refused(shop: Path) -> None:
    waiting = under("app", "deploy", "check", "--where", "status=suspended", "--json", folder=shop)
    none = under("app", "deploy", "check", "--since", "2h", "--where", "flow=other", folder=shop)

    assert waiting.json["runs"] == 1
    assert (none.status, none.out) == (ExitCode.DONE, "0 stored runs: nothing to check\n")
    for arguments in (("--json", "--format", "junit"), ("--bundle", "b", "--since", "2h"), ("--format", "pdf")):
        assert under("app", "deploy", "check", *arguments, folder=shop).status == ExitCode.USAGE


# -- when something is missing ----------------------------------------------------------------------------------------

COMMANDS: Final = (("replay", "r-1"), ("check", "replay", "--all"), ("deploy", "check"))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_app_that_is_broken_or_gone_is_told_with_its_line(command: tuple[str, ...], shop: Path) -> None:
    broken, gone = (under(code, *command, folder=shop) for code in ("broken", "gone"))

    assert (broken.status, gone.status) == (ExitCode.USAGE, ExitCode.USAGE)
    assert "error[app-not-importable]" in broken.err
    assert "shop_broken.py:" in broken.err
    assert "there is no module 'shop_gone'" in gone.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_is_not_there_is_not_made(command: tuple[str, ...], shop: Path) -> None:
    (shop / ".loom" / "loom.db").unlink()

    missing = under("app", *command, folder=shop)

    assert (missing.status, "error[store-not-found]" in missing.err) == (ExitCode.NOT_FOUND, True)
    assert not (shop / ".loom" / "loom.db").exists()


DAMAGES: Final[dict[str, dict[str, Any]]] = {
    "bytes": {"payload": b"\xff\x00"},
    "text": {"payload": "nothing"},
    "a list": {"payload": b"[]"},
    "a time": {"at": "noon"},
    "metadata": {"metadata": b"{"},
    "a type": {"type": "STEP_IMAGINED"},
    "a reference": {"payload": b'{"start":"1","result":14}'},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_one_run_s_misfortune_and_is_named(damage: str, shop: Path) -> None:
    change(shop, 2, **DAMAGES[damage])

    checked = under("app", "deploy", "check", "--json", folder=shop)
    replayed = under("app", "replay", "r-2", "--prove", "--json", folder=shop)

    assert (checked.status, replayed.status) == (ExitCode.FAILED, ExitCode.FAILED)
    [finding] = checked.json["findings"]
    assert (checked.json["counts"]["same"], finding["samples"], finding["first"]["sequence"]) == (1, ["r-2"], 2)
    assert {problem["sequence"] for problem in replayed.json["problems"]} == {2}


def change(folder: Path, sequence: int, **columns: Any) -> None:
    """Write something else into a row of the log of `r-2`, behind everybody's back."""
    with sqlite3.connect(folder / ".loom" / "loom.db") as raw:
        for name, value in columns.items():
            raw.execute(
                f"UPDATE events SET {name} = ? WHERE sequence = ? AND run = (SELECT run FROM executions WHERE id = 'r-2')",
                (value.encode() if name == "payload" and isinstance(value, str) else value, sequence),
            )
    raw.close()


def test_no_command_writes_to_the_store(shop: Path) -> None:
    with sqlite3.connect(shop / ".loom" / "loom.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    before = (shop / ".loom" / "loom.db").read_bytes()

    for command in (*COMMANDS, ("replay", "r-2", "--prove")):
        under("reordered", *command, folder=shop)

    assert (shop / ".loom" / "loom.db").read_bytes() == before
